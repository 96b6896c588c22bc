"""The rules of reading as data, read once; they travel inside the wheel."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any


@cache
def facts(name: str) -> dict[str, Any]:
    """The content of ``catalogue/<name>.json``. Callers must not change it."""
    file = resources.files(__package__ or "shardwise.runs").joinpath("catalogue", f"{name}.json")
    content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return content
