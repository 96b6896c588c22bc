"""Settings of a published run that its table leaves out and its authors' own scripts give.

``catalogue/settings.json`` has them with their source. A cell that the row gives is never changed.
"""

from __future__ import annotations

from typing import Any

from .facts import facts
from .record import Record


def completed(record: Record) -> tuple[Record, tuple[str, ...]]:
    """The row with blank cells filled, and notes of what filled them: none where no script is known."""
    for entry in facts("settings")["entries"]:
        if _is_of(record, entry["of"]):
            told = {column: str(value) for column, value in entry["told"].items() if not record.text(column)}
            notes = [f"{column} blank -> {value} ({entry['source']})" for column, value in told.items()]
            return Record({**record.cells, **told}), tuple(notes)
    return record, ()


def _is_of(record: Record, cells: dict[str, Any]) -> bool:
    framework = cells["framework"] in record.text("framework").lower()
    return framework and all(record.text(c) == str(v) for c, v in cells.items() if c != "framework")
