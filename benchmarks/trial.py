"""Other constants than the catalogue's, in force for a while: for fits and for left-out scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from shardwise.costs.cards import card_factors
from shardwise.costs.law import constants
from shardwise.costs.stacks import forget
from shardwise.models.stack import heirs, stacks

TABLES: dict[str, Callable[[], Any]] = {"stacks": stacks, "cards": card_factors, "law": constants}


def constant(path: str) -> float:
    """The value in force at `path`.

    >>> constant("law/risky_share/value")
    0.92
    """
    table, name, field = path.split("/")
    return float(getattr(_entries(table)[name], field))


def _entries(table: str) -> MutableMapping[str, Any]:
    entries: MutableMapping[str, Any] = TABLES[table]()
    return entries


@contextmanager
def in_force(changes: Mapping[str, float]) -> Iterator[None]:
    """`changes` ("stacks/NAME/FIELD", "cards/GPU/FIELD", "law/NAME/value") hold inside the block.

    What stacks inherit from the one that is named changes with it.

    >>> with in_force({"law/overlap_slowdown/value": 0.5}):
    ...     constants()["overlap_slowdown"].value
    0.5
    >>> constants()["overlap_slowdown"].value == 0.5
    False
    >>> from shardwise.costs.stacks import of_stacks
    >>> with in_force({"stacks/megatron-2023/gemm_factor": 9.0}):
    ...     float(of_stacks("gemm_factor").max())
    9.0
    >>> float(of_stacks("gemm_factor").max()) == 9.0
    False
    """
    kept: list[tuple[MutableMapping[str, Any], str, Any]] = []
    try:
        for path, value in changes.items():
            table, owner, field = path.split("/")
            entries = _entries(table)
            for name in (heirs(owner, field) if table == "stacks" else ()) or (owner,):
                kept.append((entries, name, entries[name]))
                entries[name] = replace(entries[name], **{field: value})
        forget()
        yield
    finally:
        for entries, name, entry in reversed(kept):
            entries[name] = entry
        forget()
