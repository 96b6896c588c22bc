"""What is free under the degrees of a row: schedules of its micro-batches, and where its states lie."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TypeVar

import numpy as np

from ..costs.columns import Bools, Ints, code
from ..models.divisors import EIGHT_BIT
from ..models.overlap import DATA_KNOBS, TENSOR_KNOB
from ..plans import Request
from .axes import Core, alike, batches, chunks, offloads, orders, sequence_parallel, shards, zero_stages
from .exchanges import Coded
from .overlapping import tensor_overlapping
from .software import Software

SCHEDULE = (
    "sequence_parallel",
    TENSOR_KNOB,
    "micro_batch_size",
    "gradient_accumulation_steps",
    "context_parallel_kind",
    "ulysses_group_size",
    "virtual_pipeline",
)

VARIANT = (
    "zero_stage",
    "shard_group_size",
    "secondary_shard_group_size",
    "reshard_after_forward",
    *DATA_KNOBS,
    "offload_optimizer",
    "offload_params",
    "rank_order",
)


Value = TypeVar("Value")

Part = Sequence[tuple[int, ...]]
"""A table to be crossed with others, as rows of numbers."""


class CoreTables:
    """Schedules and variants of the cores of some software; what a degree does not change is found once."""

    def __init__(self, request: Request, software: Software) -> None:
        self.request, self.software, self.known = request, software, software.backend
        self.unit = EIGHT_BIT.get(software.precision, 1)
        self.stages = zero_stages(request, software)
        self._splits: dict[tuple[int, ...], Part] = {}

    def schedules(self, cores: Sequence[Core], usual: Sequence[Coded]) -> list[Ints]:
        """Columns `SCHEDULE` of each core, context ranks exchanging as `usual`; experts make no difference.

        Chunks need rounds of whole pipelines; 8-bit arithmetic needs multiples of its unit of tokens.
        """
        keys = [(core.tensor, core.context, core.pipeline, core.data) for core in cores]
        first = _first(keys, list(zip(cores, usual, strict=True)))
        found, place = crossed(self._scheduled(first.values()), SCHEDULE)
        tensor, context, stages, _ = np.array(list(first), dtype=np.int64).reshape(-1, 4)[place].T
        kept = (found["virtual_pipeline"] == 1) | (found["gradient_accumulation_steps"] % stages == 0)
        if self.unit > 1:
            split = context * np.where(found["sequence_parallel"] == 1, tensor, 1)
            tokens = found["micro_batch_size"] * self.request.training.sequence_length
            kept &= tokens % (split * self.unit) == 0
        known = dict(zip(first, self._held(found, place, kept, len(first)), strict=True))
        return [known[key] for key in keys]

    def _scheduled(self, some: Iterable[tuple[Core, Coded]]) -> tuple[list[Part], ...]:
        """Of some cores with their usual exchange: splits of the sequence, batches, chunks."""
        batched: dict[tuple[int, Coded], Part] = {}
        chunked: dict[int, Part] = {}
        parts: tuple[list[Part], ...] = ([], [], [])
        for core, exchange in some:
            key = core.data, exchange
            if key not in batched:
                batched[key] = [(*batch, *exchange) for batch in batches(self.request, core)]
            if core.pipeline not in chunked:
                chunked[core.pipeline] = [(value,) for value in chunks(self.request, self.known, core)]
            for part, one in zip(
                parts, (self._split(core), batched[key], chunked[core.pipeline]), strict=True
            ):
                part.append(one)
        return parts

    def _split(self, core: Core) -> Part:
        """Whether tensor ranks split the sequence, and whether they overlap."""
        key = core.tensor, *sequence_parallel(self.request, self.known, core)
        if key not in self._splits:
            self._splits[key] = [
                (split, beside)
                for split in key[1:]
                for beside in tensor_overlapping(self.request, self.software, core.tensor, split)
            ]
        return self._splits[key]

    def variants(self, cores: Sequence[Core]) -> list[Ints]:
        """Columns `VARIANT` of each core, offload from its least ZeRO stage on; no degree of tensors matters.

        Weights that leave the card have no second copy on it.
        """
        keys = [(core.data, core.context, core.pipeline > 1, core.expert == 1, alike(core)) for core in cores]
        first = _first(keys, cores)
        axes = (
            [shards(self.request, self.known, core, self.stages) for core in first.values()],
            [offloads(self.request, self.known)] * len(first),
            [[(value,) for value in orders(self.request, core)] for core in first.values()],
        )
        found, place = crossed(axes, (*VARIANT[:-1], "least", VARIANT[-1]))
        stays = found["offload_params"] == code("offload_params", "none")
        kept = (found["zero_stage"] >= found["least"]) & (stays | (found["secondary_shard_group_size"] == 1))
        tables = self._held({name: found[name] for name in VARIANT}, place, kept, len(first))
        known = dict(zip(first, tables, strict=True))
        return [known[key] for key in keys]

    def _held(self, columns: dict[str, Ints], place: Ints, kept: Bools, places: int) -> list[Ints]:
        """The kept rows of each place as a table, of these such as the way of training is held to."""
        for knob, values in self.known.held_to(self.request.training).items():
            if knob in columns:
                codes = [code(knob, value) if isinstance(value, str) else value for value in values]
                kept = kept & np.isin(columns[knob], codes)
        table = np.stack([column[kept] for column in columns.values()], axis=1)
        edges = np.searchsorted(place[kept], np.arange(places + 1)).tolist()
        return [table[start:end] for start, end in pairwise(edges)]


def _first(keys: Sequence[tuple[int, ...]], values: Sequence[Value]) -> dict[tuple[int, ...], Value]:
    """The distinct keys in their order, with the value of the first of each."""
    found: dict[tuple[int, ...], Value] = {}
    for key, value in zip(keys, values, strict=True):
        found.setdefault(key, value)
    return found


def crossed(axes: Sequence[Sequence[Part]], names: Sequence[str]) -> tuple[dict[str, Ints], Ints]:
    """The products of the tables of every place as columns, and the place of each row.

    `axes[k][i]` is the k-th table of place i; a table that several places have is one object.

    >>> columns, place = crossed(([[(1, 2)], [(3, 4)]], [[(5,), (6,)], [(7,)]]), ("a", "b", "c"))
    >>> columns["a"].tolist(), columns["c"].tolist(), place.tolist()
    ([1, 1, 3], [5, 6, 7], [0, 0, 1])
    """
    sizes = np.array([[len(part) for part in axis] for axis in axes], dtype=np.int64)
    counts = sizes.prod(axis=0)
    if not counts.sum():
        return {name: np.zeros(0, dtype=np.int64) for name in names}, np.zeros(0, dtype=np.int64)
    place = np.repeat(np.arange(len(counts)), counts)
    left = np.arange(len(place)) - np.repeat(np.cumsum(counts) - counts, counts)
    found: list[Ints] = []
    for axis, size in zip(reversed(axes), sizes[::-1], strict=True):
        rows, starts = _end_to_end(axis)
        left, index = np.divmod(left, size[place])
        found[:0] = rows[starts[place] + index].T
    return dict(zip(names, found, strict=True)), place


def _end_to_end(axis: Sequence[Part]) -> tuple[Ints, Ints]:
    """The tables of all places, equal objects once, and where that of each place starts."""
    starts: dict[int, int] = {}
    rows: list[tuple[int, ...]] = []
    for part in axis:
        if id(part) not in starts:
            starts[id(part)] = len(rows)
            rows += part
    return np.array(rows, dtype=np.int64), np.array([starts[id(part)] for part in axis], dtype=np.int64)
