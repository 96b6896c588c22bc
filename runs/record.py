"""One line of a CSV file of published runs: cells by name, blank cells as None."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterable, Mapping
from functools import cached_property

from ..inputs import InputError, nearest, read_text, shorten
from ..inputs.record import dataclass
from .refusal import Refused
from .spellings import is_blank, number_in, word_in


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
"""Columns that a file of runs must have. Others are ignored, but for `mem_stage`, which it may have: the
pipeline stage, counted from 0, whose cards `peak_mem_gib` was read on; blank: the fullest."""


MOST = 10**15
"""No count is larger."""


@dataclass(frozen=True)
class Record:
    """The cells of one line."""

    cells: Mapping[str, str]

    def text(self, column: str) -> str:
        """The cell without spaces around it; "" where blank."""
        return (self.cells.get(column) or "").strip()

    def said(self, column: str) -> str:
        """The cell, "" where it is blank or says in words that nothing is known."""
        text = self.text(column)
        return "" if is_blank(text) else text

    def word(self, column: str) -> str:
        """The cell as the word it is a spelling of, in lower case; "" where blank."""
        said = self.said(column)
        return word_in(column, said) if said else ""

    def flag(self, column: str) -> bool | None:
        """The cell as yes or no, None where blank; else `Refused`."""
        said = self.said(column)
        word = word_in("flag", said) if said else ""
        if word not in ("", "0", "1"):
            raise Refused("unreadable", f"{column} = {shorten(said)} is neither yes nor no")
        return word == "1" if word else None

    def number(self, column: str) -> float | None:
        """The cell as a finite number of at least 0, None where blank; else `Refused`."""
        said = self.said(column)
        if not said or said.lower() == "none":
            return None
        value = number_in(said)
        if value is None or not value < float("inf"):
            raise Refused("unreadable", f"{column} = {shorten(said)} is not a number of at least 0")
        return value

    def integer(self, column: str) -> int | None:
        """The cell as a whole number of at least 0, None where blank; else `Refused`."""
        value = self.number(column)
        if value is not None and (value != int(value) or value > MOST):
            said = shorten(self.text(column))
            raise Refused("unreadable", f"{column} = {said} is not a whole number up to {MOST:,}")
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
        """Year of the publication, wherever in the cell; 2024 where blank; `Refused` where there is none."""
        said = self.said("year")
        found = re.search(r"(?<!\d)(19|20)\d\d(?!\d)", said)
        if said and not found:
            raise Refused("unreadable", f"year = {shorten(said)} has no year")
        return int(found[0]) if found else 2024

    @property
    def name(self) -> str:
        """The line's id."""
        return self.text("id") or "(no id)"


def read_records(path: str | os.PathLike[str], columns: Iterable[str] = COLUMNS) -> list[Record]:
    """The lines of the CSV file `path`; `InputError` where a column of `columns` is missing."""
    name = os.fspath(path)
    lines = csv.DictReader(io.StringIO(read_text(name, "file"), newline=""))
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
