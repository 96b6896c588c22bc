"""The words of a shell script with their lines, as bash splits them; nothing is run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_HEREDOC = re.compile(r"<<-?\s*(['\"]?)([A-Za-z_]\w*)\1")
_SPLITS = set(" \t\r")
_ENDS = set("\n;|&")


class Word(NamedTuple):
    """`text` without its quotes; `quoted` where it stood in double quotes or single ones.

    An end of a command is a word of its own with `ends` set; `(` and `)` of an array are too.
    """

    text: str
    line: int
    quoted: bool = False
    ends: bool = False


def words(text: str, first: int = 1) -> Iterator[Word]:
    """Words of `text`, whose first line is number `first`; comments and here-documents are left out."""
    at, line, size = 0, first, len(text)
    skip: list[str] = []
    while at < size:
        mark = text[at]
        if mark in _SPLITS:
            at += 1
        elif text.startswith("\\\n", at):
            at, line = at + 2, line + 1
        elif mark == "\n":
            yield Word("\n", line, ends=True)
            at, line = at + 1, line + 1
            while skip:
                at, line = _past(text, at, line, skip.pop(0))
        elif mark in _ENDS:
            yield Word(mark, line, ends=True)
            at += 1
        elif mark == "#":
            end = text.find("\n", at)
            at = size if end < 0 else end
        elif (here := _HEREDOC.match(text, at)) is not None:
            skip.append(here[2])
            at = here.end()
        elif mark in "()":
            yield Word(mark, line)
            at += 1
        else:
            word, at, ended = _word(text, at, line)
            yield word
            line = ended


def _past(text: str, at: int, line: int, end: str) -> tuple[int, int]:
    """(position, line) behind a here-document that `end` closes."""
    while at < len(text):
        stop = text.find("\n", at)
        stop = len(text) if stop < 0 else stop
        row = text[at:stop]
        at, line = stop + 1, line + 1
        if row.strip() == end:
            break
    return min(at, len(text)), line


def _word(text: str, at: int, line: int) -> tuple[Word, int, int]:
    """(word, position behind it, line there)."""
    found: list[str] = []
    start, quoted, size = line, False, len(text)
    while at < size:
        mark = text[at]
        if mark in _SPLITS or mark in _ENDS or mark == ")":
            break
        if mark == "(":
            break
        if text.startswith("\\\n", at):
            at, line = at + 2, line + 1
            continue
        if mark in "'\"":
            end = _closing(text, at)
            inner = text[at + 1 : end]
            quoted = True
            line += inner.count("\n")
            found.append(inner if mark == "'" else _unescaped(inner))
            at = end + 1
        elif text.startswith("$(", at) or mark == "`":
            end = _substitution(text, at)
            line += text.count("\n", at, end)
            found.append(text[at:end])
            at = end
        elif text.startswith("${", at):
            end = text.find("}", at)
            end = size if end < 0 else end + 1
            found.append(text[at:end])
            line += text.count("\n", at, end)
            at = end
        elif mark == "\\" and at + 1 < size:
            found.append(text[at + 1])
            at += 2
        else:
            found.append(mark)
            at += 1
    return Word("".join(found), start, quoted), at, line


def _closing(text: str, at: int) -> int:
    """Where the quote that opens at `at` is closed; the end of the text where it never is."""
    mark, at = text[at], at + 1
    while at < len(text):
        if text[at] == "\\" and mark == '"':
            at += 2
            continue
        if text[at] == mark:
            return at
        at += 1
    return len(text)


def _unescaped(inner: str) -> str:
    """Double-quoted text without the backslashes that bash takes away, line ends kept for counting."""
    return re.sub(r"\\([\"$`\\])", r"\1", inner)


def _substitution(text: str, at: int) -> int:
    """Position behind `$(...)` or a pair of backticks."""
    if text[at] == "`":
        end = text.find("`", at + 1)
        return len(text) if end < 0 else end + 1
    depth = 0
    for place in range(at + 1, len(text)):
        depth += (text[place] == "(") - (text[place] == ")")
        if depth == 0:
            return place + 1
    return len(text)
