"""What a rule found in a file."""

from __future__ import annotations

from typing import NamedTuple

from ..documents import Document


class Finding(NamedTuple):
    """A rule that a line breaks, what that does, and what to write instead."""

    rule: str
    file: str
    line: int
    message: str
    mend: str


def at(document: Document, path: str, rule: str, message: str, mend: str) -> Finding:
    """The finding at a dotted path of `document`."""
    return Finding(rule, document.name, document.line(path), message, mend)
