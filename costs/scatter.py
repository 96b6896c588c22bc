"""How far measured step times lie from predicted ones, by kind of run."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import exp
from statistics import fmean

from ..inputs.data import data
from ..inputs.listed import Entries, Listed
from ..inputs.record import dataclass
from .interval import ANY

ALIKE = 3
"""Runs or sources as which the wider kind's scatter counts among those of a kind."""


@dataclass(frozen=True, kw_only=True)
class Scatter(Listed):
    """The scatter of one kind of runs around their predictions, and what it rests on.

    `scale` is the mean of abs(ln(measured / predicted)); 80 % of runs lie within exp(+-`reach`).

    >>> found = Scatter(scale=0.1, reach=0.16, rows=40, sources=5)
    >>> round(found.low, 3), round(found.high, 3)
    (0.852, 1.174)
    """

    scale: float
    reach: float
    rows: int
    sources: int

    @property
    def low(self) -> float:
        """Least measured over predicted of the middle 80 %."""
        return exp(-self.reach)

    @property
    def high(self) -> float:
        """Greatest measured over predicted of the middle 80 %."""
        return exp(self.reach)

    @property
    def told(self) -> str:
        """What it rests on, in words."""
        sources = "one source" if self.sources == 1 else f"{self.sources} sources"
        return f"{self.rows} published runs of {sources} left out of the fit"


def drawn(sizes: Sequence[float], scale: float) -> float:
    """The mean of `sizes`, as if `ALIKE` more had been seen of the size `scale`.

    Few are held to scatter as wider kinds do, many speak for themselves.

    >>> drawn([], 0.25)
    0.25
    >>> round(drawn([0.02] * 9, 0.1), 3)
    0.04
    """
    return fmean([*sizes, *[scale] * ALIKE])


@cache
def scatters() -> Entries[Scatter]:
    """Scatter of step times by kind, of runs whose source was left out of the fit.

    ``scripts/step_constants.py --intervals`` writes them.
    """
    told = data(__package__, "catalogue", "step_scatter.json")["kinds"]
    return Entries(told, lambda kind, entry: Scatter.listed(**entry))


def step_kind(routed: bool) -> str:
    """The kind a run is of as to its time.

    >>> step_kind(routed=False)
    'dense'
    """
    return "moe" if routed else "dense"


def step_scatter(routed: bool) -> Scatter:
    """That of the run's kind, or of all runs where its kind has none."""
    kind = step_kind(routed)
    return scatters()[kind if kind in scatters() else ANY]
