"""How far measured peaks lie from predicted ones, by kind of run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from ..inputs.data import data
from ..inputs.listed import Entries, Listed
from ..inputs.record import dataclass

ANY = "any"
"""The kind that all runs are of."""
OUTSIDE = 0.1
"""Share of runs below, and share above, an interval."""
LEAST_SOURCES = 3
"""A kind of fewer sources has no interval of its own: its runs take that of the next wider kind."""


def runs_of(rows: int, sources: int) -> str:
    """What an interval rests on, in words.

    >>> runs_of(12, 1)
    '12 published runs of one source left out of the fit'
    """
    many = "one source" if sources == 1 else f"{sources} sources"
    return f"{rows} published runs of {many} left out of the fit"


@dataclass(frozen=True, kw_only=True)
class Residuals(Listed):
    """Measured over predicted, of the runs of one kind: an 80 % interval, and what it rests on."""

    low: float
    high: float
    rows: int
    sources: int

    @property
    def told(self) -> str:
        """What it rests on, in words."""
        return runs_of(self.rows, self.sources)

    @classmethod
    def of(cls, by_source: Mapping[str, Sequence[float]], outside: float = OUTSIDE) -> Residuals:
        """Quantiles over all rows, each source with the same weight, a share `outside` beyond each end.

        The prediction itself always lies inside.

        >>> Residuals.of({"a": [0.9, 1.0, 1.1], "b": [1.0]})
        Residuals(low=0.9, high=1.1, rows=4, sources=2)
        """
        weighed = sorted((ratio, 1.0 / len(rows)) for rows in by_source.values() for ratio in rows)
        mirrored = [(-ratio, weight) for ratio, weight in reversed(weighed)]
        beyond = outside * len(by_source)
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
def residuals() -> Entries[Residuals]:
    """Residuals of peaks by kind (``scripts/constants.py`` writes them)."""
    told = data(__package__, "catalogue", "peak_residuals.json")["kinds"]
    return Entries(told, lambda kind, entry: Residuals.listed(**entry))


def peak_interval(backend: str, stages: int) -> tuple[str, Residuals]:
    """The nearest kind with residuals, and these."""
    kind = next(kind for kind in kinds_of(backend, stages) if kind in residuals())
    return kind, residuals()[kind]
