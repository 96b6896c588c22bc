"""The text of a request as plain tables, each key with the place it stands at."""

from __future__ import annotations

import sys
from dataclasses import field
from typing import Any

from ..inputs import InputError, read_text
from ..inputs.kinds import path_of
from ..inputs.record import dataclass


@dataclass
class Raw:
    """Plain tables and, by dotted path, the origin of what stands in them; `name` is that of the rest."""

    tree: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    name: str = "command line"


def read_source(source: str, field: str = "request") -> tuple[str, str]:
    """(text, name) of the file `source`, or of standard input for "-"; errors name `field`."""
    source = path_of(source, field)
    if source != "-":
        return read_text(source, field), source
    try:
        text = sys.stdin.read(2**23)
    except (UnicodeDecodeError, OSError):
        raise InputError(field, "-", "stdin", "is not UTF-8 text", code="bad-file") from None
    if not text.strip():
        raise InputError(field, "-", "stdin", "is empty", code="bad-file")
    return text, "stdin"


def raw_of(text: str, name: str) -> Raw:
    """The tables in `text`, TOML or (where it begins with a brace or is named so) JSON.

    Raises `InputError` for what is neither, holds a key twice, or is nested too deeply.
    """
    from ..inputs.tables import json_tables, toml_tables

    begins = text.lstrip("\ufeff \t\r\n").startswith(("{", "[{"))
    is_json = begins or name.lower().endswith(".json")
    tree, lines = (json_tables if is_json else toml_tables)(text, name, "request")
    return Raw(tree, {path: f"{name}:{line}" for path, line in lines.items()}, name)
