"""Plain text in 80 columns: tables, lines of items, paragraphs."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from textwrap import wrap

WIDTH, WIDEST = 80, 120
"""Columns of a page without a terminal, and of the widest one."""


def width() -> int:
    """Columns to write in: those of the terminal (or COLUMNS), from 60 to `WIDEST`; `WIDTH` in a pipe."""
    asked = os.environ.get("COLUMNS", "")
    if not asked.isdecimal() and not sys.stdout.isatty():
        return WIDTH
    columns = int(asked) if asked.isdecimal() else shutil.get_terminal_size((WIDTH, 24)).columns
    return min(max(columns, 60), WIDEST)


_NUMERIC = re.compile(r"[-+]?[\d,]*\.?\d+(?:[eE][+-]?\d+)?(?:%|P| [A-Za-z/]+)?|-|never")


def table(header: Sequence[str], rows: Iterable[Sequence[object]], indent: str = "") -> str:
    """`rows` under `header`, columns two spaces apart; columns of numbers stand to the right.

    >>> print(table(["name", "GiB"], [["a", 1.5], ["bb", 10]]))
    name  GiB
    a     1.5
    bb     10
    """
    cells = [[clean(str(cell)) for cell in row] for row in rows]
    widths = [max(len(row[c]) for row in [list(header), *cells]) for c in range(len(header))]
    right = [bool(cells) and all(_NUMERIC.fullmatch(row[c]) for row in cells) for c in range(len(header))]
    lines = []
    for row in [list(header), *cells]:
        parts = [
            text.rjust(width) if to_right else text.ljust(width)
            for text, width, to_right in zip(row, widths, right, strict=True)
        ]
        lines.append((indent + "  ".join(parts)).rstrip())
    return "\n".join(lines)


def items(parts: Iterable[str], indent: str = "  ", gap: str = "   ") -> str:
    """`parts` side by side, as many a line as `width` holds.

    >>> items(["tp 8", "pp 2"])
    '  tp 8   pp 2'
    """
    lines: list[str] = []
    columns = width()
    for part in parts:
        if lines and len(lines[-1]) + len(gap) + len(part) <= columns:
            lines[-1] += gap + part
        else:
            lines.append(indent + part)
    return "\n".join(lines)


def paragraph(text: str, first: str = "", rest: str = "") -> str:
    """`text` wrapped at `width`, its first line after `first` and the others after `rest`."""
    wrapped = wrap(
        clean(text), width(), initial_indent=first, subsequent_indent=rest, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip
    return "\n".join(wrapped) or first.rstrip()


def clean(text: str) -> str:
    """`text` on one line without control characters: names may come from strange files."""
    return "".join(c if c.isprintable() else "?" for c in text)
