"""The reader of model files against published parameter counts: ``python -m benchmarks.configs DIR``

DIR holds config.json files and index.csv: file, the model card's count in 1e9 (`params_billion_published`
or `published_billion`), and where known the exact count (`parameters`). Right: the unique parameters (tied
copies once, multi-token-prediction layers apart) equal the exact count, or agree with the card's to half of
its last printed digit or 1 %, whichever is more. Refused: the reader names what it cannot read. Wrong:
anything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shardwise.inputs import InputError
from shardwise.models import count, read_config
from shardwise.runs.record import Record, read_records

from .face import Result, run, table
from .scores import percent

PUBLISHED = ("params_billion_published", "published_billion")
TOLERANCE = 0.01


def half_digit(printed: str) -> float:
    """Half of the last printed digit of a number.

    >>> half_digit("8.03")
    0.005
    """
    return 0.5 * 10.0 ** -len(printed.partition(".")[2])


def measure(files: Sequence[str]) -> Result:
    """Verdicts on all files of the index."""
    folder = Path(files[0])
    index = folder / "index.csv"
    records = read_records(index, ["file"])
    column = next((name for name in PUBLISHED if records and name in records[0].cells), None)
    if column is None:
        raise InputError("column", PUBLISHED[0], str(index), "is missing", legal=PUBLISHED)
    lines = [_line(folder, record, column) for record in records]
    lines.sort(key=lambda line: (("wrong", "refused", "right").index(line["verdict"]), line["file"]))
    verdicts = [line["verdict"] for line in lines]
    return {
        "files": len(lines),
        **{v: verdicts.count(v) for v in ("right", "refused", "wrong")},
        "lines": lines,
    }


def _line(folder: Path, record: Record, column: str) -> dict[str, Any]:
    name, printed, published = record.text("file"), record.text(column), record.number(column) or 0.0
    line: dict[str, Any] = {"file": name, "published_billion": published, "billion": None, "error": None}
    try:
        total = count(read_config(folder / name)).total
    except InputError as error:
        return {**line, "verdict": "refused", "why": error.message}
    billion, exact = total / 1e9, record.integer("parameters")
    room = max(half_digit(printed), TOLERANCE * published)
    right = total == exact if exact else abs(billion - published) <= room
    return {
        **line,
        "billion": billion,
        "error": percent(billion, published) if published else None,
        "verdict": "right" if right else "wrong",
        "why": "",
    }


def text(found: Result) -> str:
    """The result as a table."""
    keys = ("file", "verdict", "published_billion", "billion", "error", "why")
    head = ("file", "verdict", "published e9", "counted e9", "error %", "why")
    counts = ", ".join(f"{key} {found[key]}" for key in ("files", "right", "refused", "wrong"))
    return table(head, [[line[key] for key in keys] for line in found["lines"]]) + f"\n\n{counts}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    return run((__doc__ or "").splitlines()[0], ["DIR"], measure, text, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
