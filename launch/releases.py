"""The releases of the clients that the written files were loaded and run with."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files


@cache
def releases() -> dict[str, str]:
    """Package name to release.

    >>> releases()["deepspeed"]
    '0.19.8'
    """
    found = json.loads((files(__package__) / "releases.json").read_text(encoding="utf-8"))
    return {str(name): str(release) for name, release in found["releases"].items()}


def tested_with(*packages: str) -> str:
    """The named packages with their releases, for a heading.

    >>> tested_with("torch", "transformers")
    'torch 2.13.0, transformers 5.24.0'
    """
    return ", ".join(f"{package} {releases()[package]}" for package in packages)
