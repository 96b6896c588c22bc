"""How far measured step times lie from predicted ones: by kind of run, and about their own source."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import expm1, log
from typing import Any, Literal

from ..inputs.data import data
from ..inputs.listed import Entries, Listed
from ..inputs.record import dataclass
from .interval import ANY, runs_of

StepKind = Literal["near", "far", "new-card"]
"""What is known before a run of how well its step is: whether the fit knew its card, and, where it did, how
near the step is told to be to what the cards can do at all."""
NEAR = 0.3
"""The least share of the physical limit, in the card's own arithmetic, that is near.

Nearer than this a step is mostly products at speeds that were measured, and the share itself tells little
more. Below, hosts, links, latencies and kernels that nobody timed take the greater part. Of cuts from 0.2 to
0.45 this one makes the intervals that score best on sources they were drawn without, whichever source the
choice leaves out; any from 0.3 to 0.4 does better than none.
"""
KIND_WORDS: dict[StepKind, str] = {
    "near": f"at {100 * NEAR:.0f} % of the physical limit or more",
    "far": f"below {100 * NEAR:.0f} % of the physical limit",
    "new-card": "on cards that no other source of the fit had",
}


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


def step_kind(limit_fraction: float, measured: bool) -> StepKind:
    """The kind of a step told to be at `limit_fraction` of the physical limit, on cards `measured` or not.

    >>> step_kind(0.4, True), step_kind(0.2, True), step_kind(0.4, False)
    ('near', 'far', 'new-card')
    """
    if not measured:
        return "new-card"
    return "near" if limit_fraction >= NEAR else "far"


def pair_scatter(alike: bool, kind: StepKind) -> PairScatter:
    """That of two plans, `alike` of one software on the same cards; `kind` is that of the less known."""
    found = _found()["pairs"]["alike" if alike else "apart"]
    return PairScatter.listed(**found.get(kind, found[ANY]))


def step_scatter(kind: StepKind) -> Scatter:
    """That of a plan of a kind; a kind of few sources has that of all runs."""
    return scatters()[kind if kind in scatters() else ANY]
