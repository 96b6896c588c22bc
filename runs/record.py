"""One line of a CSV file of published runs: cells by name, blank cells as None."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Mapping
from functools import cached_property

from ..inputs import InputError, nearest, read_text
from ..inputs.record import dataclass
from .refusal import Refused


def words(text: str) -> tuple[str, ...]:
    """Names that stand in one string."""
    return tuple(text.split())


COLUMNS = words(
    """
    id source year gpu gpus gpus_per_node inter_link framework params_b layers hidden heads kv_heads
    ffn_hidden ffn_type vocab tied_embeddings experts experts_topk seq_len global_batch_seqs micro_batch_seqs
    tp sp pp vpp cp ep dp zero_stage hsdp_replicas recompute offload precision optimizer flash_attention
    grad_accum_dtype step_time_s tokens_per_s_per_gpu mfu_pct peak_mem_gib mem_kind notes
    """
)
"""Columns that a file of runs must have; others are ignored."""


@dataclass(frozen=True)
class Record:
    """The cells of one line."""

    cells: Mapping[str, str]

    def text(self, column: str) -> str:
        """The cell without spaces around it; "" where blank."""
        return (self.cells.get(column) or "").strip()

    def number(self, column: str) -> float | None:
        """The cell as a finite number of at least 0, None where blank; else `Refused`."""
        text = self.text(column)
        if not text:
            return None
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0 <= value < float("inf"):
            raise Refused("unreadable", f"{column} = {text} is not a number of at least 0")
        return value

    def integer(self, column: str) -> int | None:
        """The cell as a whole number of at least 0, None where blank; else `Refused`."""
        value = self.number(column)
        if value is not None and value != int(value):
            raise Refused("unreadable", f"{column} = {self.text(column)} is not a whole number")
        return None if value is None else int(value)

    def needed(self, column: str) -> int:
        """A whole number of at least 1 that no rule can fill; else `Refused`."""
        value = self.integer(column)
        if not value:
            raise Refused(f"no-{column.replace('_', '-')}", f"{column} is blank or 0 and has no rule")
        return value

    @cached_property
    def notes(self) -> str:
        """The notes in lower case."""
        return self.text("notes").lower()

    @cached_property
    def year(self) -> int:
        """Year of the publication; 2024 where blank."""
        return self.integer("year") or 2024

    @property
    def name(self) -> str:
        """The line's id."""
        return self.text("id") or "(no id)"


def read_records(path: str | os.PathLike[str], columns: Iterable[str] = COLUMNS) -> list[Record]:
    """The lines of the CSV file `path`; `InputError` where a column of `columns` is missing."""
    name = os.fspath(path)
    lines = csv.DictReader(read_text(name, "file").splitlines())
    names = list(lines.fieldnames or [])
    for column in columns:
        if column not in names:
            raise InputError("column", column, name, "is missing", legal=nearest(column, names or ["id"]))
    found = []
    for line in lines:
        if None in line or None in line.values():
            raise InputError("line", lines.line_num, name, "has not as many cells as the head")
        found.append(Record(line))
    return found
