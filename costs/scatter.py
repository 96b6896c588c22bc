"""How far measured step times lie from predicted ones: by kind of run, and about their own source."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache
from math import expm1, log
from typing import Any, Literal

from ..inputs.data import data
from ..inputs.listed import Entries, Listed
from ..inputs.record import dataclass
from .interval import ANY, runs_of

StepKind = Literal["told", "told-new-card", "in-part", "moe"]
"""Dense models told in full, on a card that runs of the fit measured or on another; told in part; experts."""


@dataclass(frozen=True, kw_only=True)
class Scatter(Listed):
    """The scatter of one kind of runs around their predictions, and what it rests on.

    80 % of measured over predicted lie between `low` and `high`.

    >>> found = Scatter(low=0.8, high=1.2, rows=40, sources=5)
    >>> round(found.reach, 3), found.told
    (0.203, '40 published runs of 5 sources left out of the fit')
    """

    low: float
    high: float
    rows: int
    sources: int

    @property
    def reach(self) -> float:
        """Half the distance of the ends, ln."""
        return log(self.high / self.low) / 2.0

    @property
    def width_percent(self) -> float:
        """The distance of the ends in percent of the prediction."""
        return 100.0 * (self.high - self.low)

    @property
    def told(self) -> str:
        """What it rests on, in words."""
        return runs_of(self.rows, self.sources)


@dataclass(frozen=True, kw_only=True)
class PairScatter(Listed):
    """How far the ratio of two runs of one source lies from the predicted one.

    80 % of pairs lie within exp(+-`reach`).

    >>> found = PairScatter(reach=0.1, rows=40, sources=5)
    >>> round(found.percent, 2), found.told
    (10.52, '40 pairs of runs of 5 sources')
    """

    reach: float
    rows: int
    sources: int

    @property
    def percent(self) -> float:
        """By how much the one must be predicted slower than the other, percent, to be so in 9 of 10 cases."""
        return 100.0 * expm1(self.reach)

    @property
    def told(self) -> str:
        """What it rests on, in words."""
        return f"{self.rows:,} pairs of runs of {self.sources} sources"


@dataclass(frozen=True, kw_only=True)
class OwnScatter(Listed):
    """How far runs of one source lie from where its other runs say, abs(ln).

    `scale` is its mean over sources; `alike` is the variance within sources over that between them. 80 % of
    further runs of a source lie within exp(+-`times` x its scale).
    """

    scale: float
    alike: float
    times: float
    rows: int
    sources: int

    def reach(self, sizes: Sequence[float]) -> float:
        """Within what, ln, 80 % of further runs lie of a source whose runs are off by `sizes`.

        >>> OwnScatter(scale=0.1, alike=3.0, times=1.5, rows=40, sources=5).reach([])
        0.15000000000000002
        """
        return self.times * drawn(sizes, self.scale, self.alike)


def drawn(sizes: Sequence[float], scale: float, alike: float) -> float:
    """The mean of `sizes` as if `alike` more had been seen of the size `scale`.

    The credibility of n runs is n / (n + alike), where alike is the variance within sources over that between
    them (Bühlmann, Experience rating and credibility, ASTIN Bulletin 4, 1967).

    >>> round(drawn([], 0.1, 3.0), 3), round(drawn([0.02] * 9, 0.1, 3.0), 3)
    (0.1, 0.04)
    """
    return (sum(sizes) + alike * scale) / (len(sizes) + alike)


@cache
def _found() -> dict[str, Any]:
    """The file that ``scripts/step_constants.py --intervals`` writes."""
    found: dict[str, Any] = data(__package__, "catalogue", "step_scatter.json")
    return found


@cache
def scatters() -> Entries[Scatter]:
    """Scatter of step times by kind, of runs whose source was left out of the fit."""
    return Entries(_found()["kinds"], lambda kind, entry: Scatter.listed(**entry))


@cache
def own_scatter() -> OwnScatter:
    """Scatter of runs about their own source."""
    return OwnScatter.listed(**_found()["own"])


@cache
def measured_cards() -> frozenset[str]:
    """Cards that runs of the fit were measured on."""
    return frozenset(_found()["cards"])


def _kind(routed: bool, gpus: Collection[str]) -> StepKind:
    """The kind of a plan."""
    return "moe" if routed else "told" if measured_cards().issuperset(gpus) else "told-new-card"


def pair_scatter(alike: bool, routed: bool, gpus: Collection[str]) -> PairScatter:
    """That of two plans: `alike` of one software on the same cards, either with experts, on cards `gpus`."""
    found = _found()["pairs"]["alike" if alike else "apart"]
    return PairScatter.listed(**found.get(_kind(routed, gpus), found[ANY]))


def step_scatter(routed: bool, gpus: Collection[str]) -> Scatter:
    """That of a plan, which tells all of its run, of a model with experts or without, on cards `gpus`."""
    kind = _kind(routed, gpus)
    return scatters()[kind if kind in scatters() else ANY]
