"""The catalogue's JSON files, read once; they travel inside the wheel."""

from __future__ import annotations

from functools import cache
from typing import Any

from ..inputs.data import data


@cache
def facts(name: str) -> dict[str, Any]:
    """The content of ``catalogue/<name>.json``. Callers must not change it."""
    content: dict[str, Any] = data(__package__, "catalogue", f"{name}.json")
    return content
