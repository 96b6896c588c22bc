"""TOML of unknown quality, and how deep tables may be before nobody touches them."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from .error import InputError

DEEPEST = 24
"""Tables and lists inside one another; a whole Plan has 8."""

LONGEST_NUMBER = 2048
"""Bits of a whole number that can still be shown in a message."""

LARGEST_TOML = 2**16
"""Characters of a TOML request; a person writes hundreds."""

_WORD = r"""(?:[\w-]+|"[^"\n]*"|'[^'\n]*')"""
_DOTTED = re.compile(rf"""(?<![\w"'-])(?:{_WORD}\s*\.\s*){{{DEEPEST}}}""")


def parse_toml(text: str, field: str, name: str) -> dict[str, Any]:
    """The tables in `text`, or one `InputError` on `field`."""
    if len(text) > LARGEST_TOML:
        raise InputError(field, name, name, f"is longer than {LARGEST_TOML} characters", code="too-large")
    if _DOTTED.search(text):
        raise InputError(field, name, name, "is nested too deeply", code="bad-file")
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(field, name, name, f"is not TOML: {error}", code="bad-file") from None
    except RecursionError:
        raise InputError(field, name, name, "is nested too deeply", code="bad-file") from None
    except ValueError:
        raise InputError(field, name, name, "holds a value that cannot be read", code="bad-file") from None
    wrong = unreadable(tree)
    if wrong:
        raise InputError(field, name, name, wrong, code="bad-file")
    return tree


def unreadable(tree: object) -> str:
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
