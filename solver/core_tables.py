"""What is free under the degrees of a row: schedules of its micro-batches, and where its states lie."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ..costs.columns import Ints, code
from ..models.backend import Backend
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


Part = tuple[tuple[int, ...], ...]
"""A table to be crossed with others, as rows of numbers."""


class CoreTables:
    """Schedules and variants of the cores of some software; what a degree does not change is found once."""

    def __init__(self, request: Request, software: Software) -> None:
        self.request, self.software, self.known = request, software, software.backend
        self.unit = EIGHT_BIT.get(software.precision, 1)
        self.stages = zero_stages(request, software)
        self.offloads = tuple(offloads(request, software.backend))
        self._schedules: dict[tuple[int, ...], Ints] = {}
        self._variants: dict[tuple[int, int, bool, bool, bool], Ints] = {}
        self._splits: dict[tuple[int, int], Part] = {}
        self._batches: dict[tuple[int, Coded], Part] = {}
        self._chunks: dict[int, Part] = {}

    def schedules(self, core: Core, usual: Coded) -> Ints:
        """Columns `SCHEDULE`, context ranks exchanging as `usual`; experts make no difference."""
        key = core.tensor, core.context, core.pipeline, core.data
        if key not in self._schedules:
            self._schedules[key] = self._scheduled(core, usual)
        return self._schedules[key]

    def _scheduled(self, core: Core, usual: Coded) -> Ints:
        """Chunks need rounds of whole pipelines; 8-bit arithmetic needs multiples of its unit of tokens."""
        tensor, context, data, pipeline = core.tensor, core.context, core.data, core.pipeline
        if (tensor, context) not in self._splits:
            self._splits[tensor, context] = self._split(core)
        if (data, usual) not in self._batches:
            self._batches[data, usual] = tuple((*batch, *usual) for batch in batches(self.request, core))
        if pipeline not in self._chunks:
            self._chunks[pipeline] = tuple((value,) for value in chunks(self.request, self.known, core))
        parts = self._splits[tensor, context], self._batches[data, usual], self._chunks[pipeline]
        found = _in_rounds(parts, core.pipeline)
        if self.unit > 1:
            split = core.context * np.where(
                found[:, SCHEDULE.index("sequence_parallel")] == 1, core.tensor, 1
            )
            tokens = found[:, SCHEDULE.index("micro_batch_size")] * self.request.training.sequence_length
            found = found[tokens % (split * self.unit) == 0]
        return _held(self.request, self.known, SCHEDULE, found)

    def _split(self, core: Core) -> Part:
        """Whether tensor ranks split the sequence, and whether they overlap."""
        return tuple(
            (split, beside)
            for split in sequence_parallel(self.request, self.known, core)
            for beside in tensor_overlapping(self.request, self.software, core.tensor, split)
        )

    def variants(self, core: Core) -> Ints:
        """Columns `VARIANT`, offload from its least ZeRO stage on; no degree of tensors matters."""
        key = core.data, core.context, core.pipeline > 1, core.expert == 1, alike(core)
        if key not in self._variants:
            parts = (
                tuple(shards(self.request, self.known, core, self.stages)),
                self.offloads,
                tuple((value,) for value in orders(self.request, core)),
            )
            self._variants[key] = _held(self.request, self.known, VARIANT, _offloaded(parts))
        return self._variants[key]


def _held(request: Request, known: Backend, columns: tuple[str, ...], table: Ints) -> Ints:
    """Rows of a table with values of knobs that the way of training is held to."""
    for knob, values in known.held_to(request.training).items():
        if knob in columns:
            codes = [code(knob, value) if isinstance(value, str) else value for value in values]
            table = table[np.isin(table[:, columns.index(knob)], codes)]
    return table


@lru_cache(maxsize=1024)
def _in_rounds(parts: tuple[Part, ...], pipeline: int) -> Ints:
    """Schedules whose chunks go in rounds of whole pipelines; many cores have the same."""
    found = _crossed(parts, len(SCHEDULE))
    steps, chunked = (SCHEDULE.index(name) for name in ("gradient_accumulation_steps", "virtual_pipeline"))
    whole: Ints = found[(found[:, chunked] == 1) | (found[:, steps] % pipeline == 0)]
    return whole


@lru_cache(maxsize=1024)
def _offloaded(parts: tuple[Part, ...]) -> Ints:
    """Variants whose ZeRO stage is at least that from which their states are offloaded.

    Weights that leave the card have no second copy on it.
    """
    found = _crossed(parts, len(VARIANT) + 1)
    params = VARIANT.index("offload_params")
    least = params + 1
    second = found[:, VARIANT.index("secondary_shard_group_size")] > 1
    kept = (found[:, 0] >= found[:, least]) & ~(second & (found[:, params] != code("offload_params", "none")))
    return np.delete(found[kept], least, axis=1)


def _crossed(parts: tuple[Part, ...], width: int) -> Ints:
    """The product of tables as one table of `width` columns."""
    rows: list[tuple[int, ...]] = [()]
    for part in parts:
        rows = [(*row, *more) for row in rows for more in part]
    return np.array(rows, dtype=np.int64).reshape(-1, width)
