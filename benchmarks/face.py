"""What every benchmark's command line shares: `--json`, files, one error line, tables."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from shardwise.inputs import InputError

Result = dict[str, Any]

PIPE = 141
"""Exit code of a process whose output nobody reads further, as shells give it."""


def run(
    about: str,
    files: Sequence[str],
    measure: Callable[[list[str]], Result],
    text: Callable[[Result], str],
    arguments: Sequence[str] | None = None,
) -> int:
    """Parse `[--json] FILES`, print what `measure` finds; exit code 2 with one line for bad input.

    `files` are the names of the arguments; the last may end in "..." for one or more, "*" for any number.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    for name in files:
        if name.endswith(("...", "*")):
            parser.add_argument(name.rstrip(".*"), nargs="*" if name.endswith("*") else "+")
        else:
            parser.add_argument(name)
    parsed = vars(parser.parse_args(arguments))
    as_json = parsed.pop("json")
    given = [path for value in parsed.values() for path in (value if isinstance(value, list) else [value])]
    try:
        found = measure(given)
    except InputError as error:
        if as_json:
            tell(json.dumps({"error": {"code": error.code, "field": error.field, "message": error.message}}))
        print(error.message, file=sys.stderr)
        return 2
    tell(json.dumps(rounded(found), indent=1, sort_keys=True) if as_json else text(found))
    return 0


def tell(text: str) -> None:
    """Prints a result. A reader that has seen enough of it (``| head``) ends the process, without a word."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the flush at exit must not fail too
        raise SystemExit(PIPE) from None


def rounded(value: Any) -> Any:
    """`value` with floats to six significant digits, so that output is stable to read and compare."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: rounded(entry) for key, entry in value.items()}
    return [rounded(entry) for entry in value] if isinstance(value, list | tuple) else value


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Rows as columns of text: numbers to the right with two decimals, None as a dash."""
    cells = [list(head)] + [[_cell(value) for value in row] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    right = [
        bool(rows) and all(isinstance(row[i], int | float | None) for row in rows) for i in range(len(head))
    ]
    lines = [
        "  ".join(
            text.rjust(width) if aligned else text.ljust(width)
            for text, width, aligned in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in cells
    ]
    return "\n".join(lines)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if isinstance(value, float) else str(value)
