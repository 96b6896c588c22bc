"""How the context ranks of a row exchange keys and values.

Rules: the column `context_parallel_kind` where a file has it, else what the notes say behind "context
parallelism" or "cp_comm_type": all-to-all (a2a, Ulysses), a ring (point to point, p2p) or an all-gather.
Where nothing is said the kind is the backend's usual one.
"""

from __future__ import annotations

import re

from ..inputs import shorten
from ..models.context import CONTEXT_KINDS, ContextKind
from .record import Record
from .refusal import Refused
from .spellings import word_in

_SAID = re.compile(r"(?:context parallel\w*|\bcp_comm_type)[\s:=]*(?:(?:by|of|is)\s+)?([a-z0-9_\- ]+)")


def exchange_named(record: Record) -> ContextKind | None:
    """The kind that a row names, None where it names none; `Refused` where the column has another word."""
    if record.said("context_parallel_kind"):
        word = record.word("context_parallel_kind")
        if (kind := _known(word)) is None:
            raise Refused("unreadable", f"context_parallel_kind = {shorten(word)} is not known")
        return kind
    said = (
        _known(word_in("context_parallel_kind", found[1].strip())) for found in _SAID.finditer(record.notes)
    )
    return next((kind for kind in said if kind is not None), None)


def _known(word: str) -> ContextKind | None:
    return next((kind for kind in CONTEXT_KINDS if kind == word), None)
