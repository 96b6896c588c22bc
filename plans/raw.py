"""The text of a request as plain tables, each key with the place it stands at."""

from __future__ import annotations

import re
import sys
import tomllib
from dataclasses import dataclass, field
from typing import Any

from ..inputs import InputError, read_text
from ..inputs.files import parse_json
from .lines import json_lines, toml_lines

DEEPEST = 24
"""Tables and lists inside one another; a whole Plan has 8."""

LONGEST_NUMBER = 2048
"""Bits of a whole number that can still be shown in a message."""

LARGEST_TOML = 2**16
"""Characters of a TOML request; a person writes hundreds."""

_WORD = r"""(?:[\w-]+|"[^"\n]*"|'[^'\n]*')"""
_DOTTED = re.compile(rf"""(?<![\w"'-])(?:{_WORD}\s*\.\s*){{{DEEPEST}}}""")


@dataclass
class Raw:
    """Plain tables and, by dotted path, the origin of what stands in them."""

    tree: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)


def read_source(source: str, field: str = "request") -> tuple[str, str]:
    """(text, name) of the file `source`, or of standard input for "-"; errors name `field`."""
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
    """The tables in `text`, TOML or (where it begins with a brace) JSON.

    Raises `InputError` for what is neither, holds a key twice, or is nested too deeply.
    """
    is_json = text.lstrip("\ufeff \t\r\n").startswith(("{", "[{"))
    tree, lines = (json_tables if is_json else toml_tables)(text, name, "request")
    return Raw(tree, {path: f"{name}:{line}" for path, line in lines.items()})


def json_tables(text: str, name: str, field: str) -> tuple[dict[str, Any], dict[str, int]]:
    """The JSON object in `text`, and the line of each key by its dotted path."""
    return _touchable(parse_json(text, field, name), name, field), json_lines(text)


def toml_tables(text: str, name: str, field: str) -> tuple[dict[str, Any], dict[str, int]]:
    """The TOML tables in `text`, and the line of each key by its dotted path."""
    return _touchable(_toml(text, name, field), name, field), toml_lines(text)


def _toml(text: str, name: str, field: str) -> dict[str, Any]:
    if len(text) > LARGEST_TOML:
        raise InputError(field, name, name, f"is longer than {LARGEST_TOML} characters", code="too-large")
    if _DOTTED.search(text):
        raise InputError(field, name, name, "is nested too deeply", code="bad-file")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(field, name, name, f"is not TOML: {error}", code="bad-file") from None
    except RecursionError:
        raise InputError(field, name, name, "is nested too deeply", code="bad-file") from None
    except ValueError:
        raise InputError(field, name, name, "holds a value that cannot be read", code="bad-file") from None


def _touchable(tree: dict[str, Any], name: str, field: str) -> dict[str, Any]:
    wrong = _unreadable(tree)
    if wrong:
        raise InputError(field, name, name, wrong, code="bad-file")
    return tree


def _unreadable(tree: object) -> str:
    """Why values nested in `tree` are not to be touched, or nothing."""
    level: list[object] = [tree]
    for _ in range(DEEPEST):
        if any(isinstance(value, int) and value.bit_length() > LONGEST_NUMBER for value in level):
            return "holds a number too long to read"
        level = [
            inner
            for value in level
            if isinstance(value, dict | list)
            for inner in (value.values() if isinstance(value, dict) else value)
        ]
    return "is nested too deeply" if level else ""
