"""The reader of topology dumps against what is known of the machines: ``python -m benchmarks.topologies DIR``

DIR holds texts of ``nvidia-smi topo -m`` and index.csv: file, gpus_per_node, nics, completeness. Right: cards
and network cards as the index says, and as many whole rows of cards as its completeness tells ("full" and
"GPU rows full": all; "truncated after GPU3": 4; "GPU rows 0-6": 7), every missing row named in a note.
Refused: the reader says why it cannot read the text. Wrong: anything else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shardwise.hardware.topology import Islands, sighting_of
from shardwise.inputs import InputError, read_text
from shardwise.runs.record import Record, read_records

from .face import Result, run, table

COLUMNS = ["file", "gpus_per_node", "nics", "completeness"]
VERDICTS = ("wrong", "refused", "right")


def whole_rows(completeness: str, cards: int) -> int:
    """Whole rows of cards that a word of the index promises.

    >>> whole_rows("GPU rows full; NIC rows 0-2 only", 8), whole_rows("truncated after GPU3", 8)
    (8, 4)
    >>> whole_rows("GPU rows 0-6", 8)
    7
    """
    cut = re.search(r"(?:after GPU|GPU rows \d+-)(\d+)", completeness)
    return int(cut[1]) + 1 if cut else cards


def measure(files: Sequence[str]) -> Result:
    """Verdicts on all files of the index."""
    folder = Path(files[0])
    lines = [_line(folder, record) for record in read_records(folder / "index.csv", COLUMNS)]
    lines.sort(key=lambda line: (VERDICTS.index(line["verdict"]), line["file"]))
    verdicts = [line["verdict"] for line in lines]
    counts = {word: verdicts.count(word) for word in reversed(VERDICTS)}
    return {"files": len(lines), **counts, "lines": lines}


def _line(folder: Path, record: Record) -> dict[str, Any]:
    name = record.text("file")
    told = {key: record.integer(key) for key in ("gpus_per_node", "nics")}
    line: dict[str, Any] = {"file": name, **told, "completeness": record.text("completeness")}
    try:
        sighting = sighting_of(read_text(folder / name, "file"), name)
    except InputError as error:
        return {**line, "verdict": "refused", "why": error.message}
    matrix = sighting.machines[0].matrix
    if matrix is None:
        return {**line, "verdict": "wrong", "why": f"read as {sighting.format}"}
    found = Islands(matrix=matrix)
    rows = whole_rows(line["completeness"], told["gpus_per_node"] or 0)
    seen = {"gpus_per_node": matrix.cards, "nics": len(matrix.nics)}
    named = matrix.complete or any("missing" in note for note in matrix.notes)
    return {
        **line,
        "verdict": "right" if seen == told and len(matrix.rows) == rows and named else "wrong",
        "read_gpus": matrix.cards,
        "read_nics": len(matrix.nics),
        "whole_rows": len(matrix.rows),
        "link": found.shape,
        "weakest_nvlinks": found.weakest,
        "islands": [list(group) for group in found.cliques],
        "rails": [list(rail) for rail in found.rails],
        "why": "; ".join(found.notes()),
    }


def text(found: Result) -> str:
    """The result as a table."""
    keys = ("file", "verdict", "read_gpus", "read_nics", "whole_rows", "link", "weakest_nvlinks", "why")
    head = ("file", "verdict", "cards", "NICs", "rows", "link", "NV", "notes")
    counts = ", ".join(f"{key} {found[key]}" for key in ("files", "right", "refused", "wrong"))
    return table(head, [[line.get(key) for key in keys] for line in found["lines"]]) + f"\n\n{counts}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    return run((__doc__ or "").splitlines()[0], ["DIR"], measure, text, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
