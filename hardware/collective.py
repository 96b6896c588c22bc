"""Seconds of one collective inside a machine: a table over sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from ..inputs.listed import Listed
from ..inputs.record import dataclass
from .curves import Array, Grade

Kind = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all"]
KINDS: tuple[Kind, ...] = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
"""Collectives that have curves."""


def bus_share(kind: Kind, ranks: int) -> float:
    """Bytes each rank moves for a byte of the full tensor (the bus convention of nccl-tests).

    >>> bus_share("all_gather", 8), bus_share("all_reduce", 8)
    (0.875, 1.75)
    """
    return (ranks - 1) / ranks * (2.0 if kind == "all_reduce" else 1.0)


def knots_of(bus_bytes: Sequence[float], seconds: Sequence[float]) -> dict[str, Any]:
    """The knots of a `CollectiveCurve` from times by rising sizes, and its rate.

    No size takes longer than a larger one (the tuner changed protocol late, or it is noise). The rate is what
    the bytes above a quarter of the last size took: two sizes lower, lest one reading decide.

    >>> knots_of([1.0, 2.0, 4.0, 8.0], [1.2, 1.0, 2.0, 4.0])
    {'bus_bytes': (1.0, 2.0, 4.0, 8.0), 'knot_seconds': (1.0, 1.0, 2.0, 4.0), 'rate_bytes_per_s': 2.0}
    """
    level = np.minimum.accumulate(seconds[::-1])[::-1]
    first = next(index for index, moved in enumerate(bus_bytes) if moved >= bus_bytes[-1] / 4)
    rate = float((bus_bytes[-1] - bus_bytes[first]) / (level[-1] - level[first]))
    return {"bus_bytes": tuple(bus_bytes), "knot_seconds": tuple(level.tolist()), "rate_bytes_per_s": rate}


@dataclass(frozen=True, kw_only=True)
class CollectiveCurve(Listed):
    """Seconds of one collective among `ranks` cards of one island or machine, by measured sizes.

    Linear in logarithms between the knots (`bus_bytes`, `knot_seconds`), the first below them, and beyond the
    last one ``rate_bytes_per_s`` for each further byte: the bus rate large messages approach. With in-switch
    reduction it may exceed the link, so it is no wire speed.
    """

    gpu: str
    ranks: Annotated[int, Field(ge=1)]
    kind: Kind
    link: Literal["island", "pcie"]
    bus_bytes: Annotated[tuple[float, ...], Field(min_length=1)]
    knot_seconds: Annotated[tuple[float, ...], Field(min_length=1)]
    rate_bytes_per_s: Annotated[float, Field(gt=0)]
    grade: Grade
    source: str

    @cached_property
    def _knots(self) -> tuple[Array, Array]:
        """Logarithms of the knots."""
        return np.log(self.bus_bytes), np.log(self.knot_seconds)

    def seconds(self, bus_bytes: npt.ArrayLike) -> Array:
        """Seconds to move `bus_bytes` a rank; 0 where nothing moves."""
        moved = np.asarray(bus_bytes, dtype=np.float64)
        last = self.bus_bytes[-1]
        within = np.log(np.minimum(np.maximum(moved, self.bus_bytes[0]), last))
        seconds = np.exp(np.interp(within, *self._knots))
        seconds = seconds + np.maximum(moved - last, 0.0) / self.rate_bytes_per_s
        return np.where(moved > 0, seconds, 0.0)

    def at_rate(self, rate_bytes_per_s: float, source: str) -> CollectiveCurve:
        """The same curve where large messages approach another rate: all but its latency scales."""
        floor, slower = self.knot_seconds[0], self.rate_bytes_per_s / rate_bytes_per_s
        scaled = tuple(floor + (seconds - floor) * slower for seconds in self.knot_seconds)
        return replace(self, rate_bytes_per_s=rate_bytes_per_s, knot_seconds=scaled, grade="A", source=source)
