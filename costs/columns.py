"""Strategies as columns: one numpy array a knob."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..inputs import InputError, nearest
from ..inputs.record import dataclass
from ..models.backend import backend
from ..models.context import CONTEXT_KINDS
from ..models.overlap import DATA_SWITCHES, Switch, knob
from ..models.recipe import losses
from ..models.schedule import SCHEDULES
from ..models.stack import stack_names
from ..models.strategy import (
    BACKENDS,
    GRADIENT_DTYPES,
    PLACES,
    PRECISIONS,
    RANK_ORDERS,
    Strategy,
)

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

WORDS: dict[str, tuple[str, ...]] = {
    "backend": BACKENDS,
    "software_stack": tuple(stack_names()),
    "context_parallel_kind": CONTEXT_KINDS,
    "precision": PRECISIONS,
    "gradient_dtype": GRADIENT_DTYPES,
    "loss_kernel": tuple(sorted(losses())),
    "offload_optimizer": PLACES,
    "offload_params": PLACES,
    "rank_order": RANK_ORDERS,
    "pipeline_schedule": SCHEDULES,
}
"""Columns that hold words: the column carries the index into this tuple."""


def distinct(values: Ints) -> Ints:
    """The distinct whole numbers of an array, ascending; `numpy.unique` would load masked arrays for it.

    >>> distinct(np.array([3, 1, 3])).tolist()
    [1, 3]
    """
    ordered = np.sort(values, axis=None)
    fresh = np.ones(len(ordered), dtype=np.bool_)
    fresh[1:] = ordered[1:] != ordered[:-1]
    found: Ints = ordered[fresh]
    return found


def numbered(values: Ints) -> tuple[Ints, Ints, Ints]:
    """The distinct whole numbers of a column, ascending, the first place of each, and which each value is.

    As `numpy.unique` tells them, which sorts the places too: several times as long.

    >>> [part.tolist() for part in numbered(np.array([3, 1, 3]))]
    [[1, 3], [1, 0], [1, 0, 1]]
    """
    found = distinct(values)
    place = np.searchsorted(found, values)
    first = np.empty_like(found)
    first[place[::-1]] = np.arange(len(values) - 1, -1, -1)  # of values given to one place the last stays
    return found, first, place


FLAGS = (
    "reshard_after_forward",
    "overlap_gradient_reduce",
    "overlap_parameter_gather",
    "sequence_parallel",
    "overlap_tensor_parallel",
)


def code(column: str, word: str) -> int:
    """The integer that stands for `word` in `column`; `InputError` for a word without one."""
    known = WORDS[column]
    if word not in known:
        reason, legal = "is not a known choice", nearest(word, known)
        raise InputError(f"strategy.{column}", word, "strategy", reason, legal=legal)
    return known.index(word)


def usual_schedules(stages: Ints, chunks: Ints) -> Ints:
    """Codes of the schedules that run where nothing else is said (`usual_schedule`)."""
    chunked = np.where(
        chunks > 1, code("pipeline_schedule", "interleaved"), code("pipeline_schedule", "1f1b")
    )
    return np.where(stages > 1, chunked, code("pipeline_schedule", "none"))


@cache
def _of_backends(name: str) -> Ints:
    """The integer fact `name` of each backend, by its code."""
    return np.array([int(getattr(backend(word), name)) for word in BACKENDS], dtype=np.int64)


@cache
def _gather_switches() -> Ints:
    """Which of `DATA_SWITCHES` the gathers of every micro-batch follow under each backend, by its code."""
    return np.array(
        [DATA_SWITCHES.index(backend(word).overlap.zero3_gather) for word in BACKENDS], dtype=np.int64
    )


@cache
def _gather_shares() -> Floats:
    """`Overlap.gather_exposed` of each backend by its code, nan where it says none."""
    said = [backend(word).overlap.gather_exposed for word in BACKENDS]
    return np.array([np.nan if share is None else share for share in said])


@dataclass(frozen=True)
class Strategies:
    """Equal-length columns named as the fields of `Strategy`, without the stages."""

    backend: Ints
    software_stack: Ints
    data_parallel: Ints
    tensor_parallel: Ints
    pipeline_parallel: Ints
    context_parallel: Ints
    context_parallel_kind: Ints
    ulysses_group_size: Ints
    expert_parallel: Ints
    expert_tensor_parallel: Ints
    virtual_pipeline: Ints
    zero_stage: Ints
    shard_group_size: Ints
    secondary_shard_group_size: Ints
    reshard_after_forward: Ints
    overlap_gradient_reduce: Ints
    overlap_parameter_gather: Ints
    sequence_parallel: Ints
    overlap_tensor_parallel: Ints
    micro_batch_size: Ints
    gradient_accumulation_steps: Ints
    precision: Ints
    gradient_dtype: Ints
    loss_kernel: Ints
    offload_optimizer: Ints
    offload_params: Ints
    rank_order: Ints
    pipeline_schedule: Ints

    def __post_init__(self) -> None:
        if len({len(getattr(self, name)) for name in NAMES}) > 1:
            raise ValueError("columns differ in length")

    def __len__(self) -> int:
        return len(self.backend)

    def is_(self, column: str, word: str) -> Bools:
        """Mask of rows whose `column` holds `word`."""
        mask: Bools = getattr(self, column) == code(column, word)
        return mask

    def away(self, column: str) -> Bools:
        """Mask of rows whose states of `column` leave the card, to host memory or on to NVMe."""
        return ~self.is_(column, "none")

    def by_backend(self, name: str) -> Ints:
        """A column of the integer fact `name` of each row's backend."""
        return _of_backends(name)[self.backend]

    def overlaps(self, switch: Switch) -> Bools:
        """Mask of rows that hide the communication of a switch behind compute."""
        on: Bools = getattr(self, knob(switch)) > 0
        return on

    @property
    def overlaps_zero3_gather(self) -> Bools:
        """Mask of rows that hide the gathers of every micro-batch, by the switch that their backend has."""
        on = np.stack([self.overlaps(switch) for switch in DATA_SWITCHES])
        found: Bools = on[_gather_switches()[self.backend], np.arange(len(self))]
        return found

    @property
    def gather_exposed(self) -> Floats:
        """What a row's backend says of gathers after a step with nothing beside them; nan: nothing."""
        found: Floats = _gather_shares()[self.backend]
        return found

    def take(self, rows: Bools | Ints) -> Strategies:
        """The rows of a mask or of an index array."""
        return Strategies(**{name: getattr(self, name)[rows] for name in NAMES})

    @property
    def unchunked(self) -> Strategies:
        """The rows as if each interleaved one ran 1F1B over one chunk a stage."""
        chunked = self.is_("pipeline_schedule", "interleaved")
        one = np.where(chunked, code("pipeline_schedule", "1f1b"), self.pipeline_schedule)
        return replace(
            self, virtual_pipeline=np.where(chunked, 1, self.virtual_pipeline), pipeline_schedule=one
        )

    @property
    def alike(self) -> tuple[Ints, Ints]:
        """(The first of equal rows, which of these each row is)."""
        key, size = np.zeros(len(self), dtype=np.int64), 1
        for name in NAMES:
            column = getattr(self, name)
            low = int(column.min(initial=0))
            span = int(column.max(initial=low)) - low + 1
            if span == 1:
                continue
            if size * span >= 2**62:
                key, size = numbered(key)[2], len(self)
            key, size = key * span + (column - low), size * span
        return numbered(key)[1:]

    def row(self, index: int) -> dict[str, Any]:
        """Row `index` as keyword arguments of `Strategy` (without stages)."""
        found: dict[str, Any] = {}
        for name in NAMES:
            value = int(getattr(self, name)[index])
            found[name] = WORDS[name][value] if name in WORDS else bool(value) if name in FLAGS else value
        return found

    def key(self, index: int) -> tuple[int, ...]:
        """The row tuple, which breaks the last tie."""
        return tuple(int(getattr(self, name)[index]) for name in NAMES)

    @classmethod
    def of(cls, strategies: Sequence[Strategy]) -> Strategies:
        """Columns of a list of strategies."""
        rows = [strategy.row() for strategy in strategies]
        return cls.of_rows({name: [row[name] for row in rows] for name in NAMES})

    @classmethod
    def of_rows(cls, columns: dict[str, Sequence[Any]]) -> Strategies:
        """Columns of lists of words, flags and integers."""
        return cls(
            **{
                name: np.array(
                    [code(name, v) if name in WORDS else int(v) for v in columns[name]], dtype=np.int64
                )
                for name in NAMES
            }
        )

    @classmethod
    def partial(cls, columns: Mapping[str, Ints]) -> Strategies:
        """Rows of which only some columns are known; whoever reads another gets an AttributeError."""
        found = object.__new__(cls)
        for name, values in columns.items():
            object.__setattr__(found, name, values)
        return found

    @classmethod
    def join(cls, parts: Sequence[Strategies]) -> Strategies:
        """Rows of all parts, in order."""
        return cls(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in NAMES})


NAMES: tuple[str, ...] = tuple(field.name for field in fields(Strategies))
