"""How far measured peaks lie from predicted ones, by kind of run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

from ..inputs import Frozen

ANY = "any"
"""The kind that all runs are of."""
OUTSIDE = 0.1
"""Share of runs below, and share above, an interval."""
LEAST_SOURCES = 3
"""A kind of fewer sources has no interval of its own: its runs take that of the next wider kind."""


class Residuals(Frozen):
    """Measured over predicted peak of the runs of one kind: an 80 % interval, and what it rests on."""

    low: float
    high: float
    rows: int
    sources: int

    @classmethod
    def of(cls, by_source: Mapping[str, Sequence[float]]) -> Residuals:
        """Quantiles over all rows, each source with the same weight; the prediction itself lies inside.

        >>> Residuals.of({"a": [0.9, 1.0, 1.1], "b": [1.0]})
        Residuals(low=0.9, high=1.1, rows=4, sources=2)
        """
        weighed = sorted((ratio, 1.0 / len(rows)) for rows in by_source.values() for ratio in rows)
        mirrored = [(-ratio, weight) for ratio, weight in reversed(weighed)]
        beyond = OUTSIDE * len(by_source)
        return cls(
            low=round(min(_reached(weighed, beyond), 1.0), 4),
            high=round(max(-_reached(mirrored, beyond), 1.0), 4),
            rows=len(weighed),
            sources=len(by_source),
        )


def _reached(weighed: Sequence[tuple[float, float]], weight: float) -> float:
    """The first value at which the weights up to it reach `weight`."""
    total = 0.0
    for value, each in weighed:
        total += each
        if total >= weight:
            return value
    return weighed[-1][0]


def kinds_of(backend: str, stages: int) -> tuple[str, ...]:
    """Kinds a run is of, nearest first."""
    return (f"{backend}-pipeline", backend, ANY) if stages > 1 else (f"{backend}-flat", backend, ANY)


@cache
def residuals() -> dict[str, Residuals]:
    """Residuals by kind (scripts/constants.py writes them)."""
    text = (files(__package__) / "catalogue" / "peak_residuals.json").read_text(encoding="utf-8")
    return {kind: Residuals(**entry) for kind, entry in json.loads(text)["kinds"].items()}


def peak_interval(backend: str, stages: int) -> tuple[str, Residuals]:
    """The nearest kind with residuals, and these."""
    kind = next(kind for kind in kinds_of(backend, stages) if kind in residuals())
    return kind, residuals()[kind]
