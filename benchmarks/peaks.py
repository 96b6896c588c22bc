"""Published peaks as functions of the allocator's constant, and what is left of their errors by kind of run.

A caching allocator keeps blocks that no later request fits: a share of what is allocated in many sizes, one
constant for all runs under such an allocator. It is chosen on sources that measured what is reserved or the
whole process; a source that measured allocated tensors does not see it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, median
from typing import Any

from shardwise.costs import interval
from shardwise.costs.interval import ANY, Residuals, kinds_of, residuals
from shardwise.costs.law import law
from shardwise.costs.ledger import LEFT_OUT, View
from shardwise.models.stack import stack
from shardwise.runs.priced import Run
from shardwise.runs.views import GIB

from .fitting import LEAST_SOURCES, Constants
from .scores import percent

SHARE = "fragmentation_share"
SHARES = tuple(step / 200 for step in range(61))
"""Shares tried: 0 to 0.30."""


@dataclass(frozen=True)
class Spot:
    """One stage at one moment, GiB: what the view counts without holes, what leaves holes, the runtime."""

    counted: float
    holed: float
    runtime: float


@dataclass(frozen=True)
class Peak:
    """A row's measured peak, and what the ledger says of it at any share of holes.

    `kinds` are those of `costs.interval`, nearest first; frameworks that plan their memory are of no backend.
    """

    source: str
    name: str
    kinds: tuple[str, ...]
    view: View
    measured_gib: float
    spots: tuple[Spot, ...]
    usable_gib: float
    load_gib: float
    guessed: bool
    """Whether a rule filled its micro-batch or its recompute: no evidence of how far the ledger is off."""
    spread: tuple[float, float]
    """Least and greatest predicted peak over the readings of a row with blanks, over the one chosen."""

    @classmethod
    def of(cls, run: Run) -> Peak:
        """The peak of a priced row that has a measured one."""
        ledger, view, strategy = run.ledger, run.job.view, run.candidate.strategy
        caching = stack(strategy.software_stack).allocator == "caching"
        spots = [
            _spot(terms, view, caching) for stage in ledger.stages for terms in stage.moments_kib.values()
        ]
        runtime = max(stage.terms_kib.get("runtime", 0) for stage in ledger.stages)
        process = view == "process"
        return cls(
            source=run.job.record.text("source"),
            name=run.job.record.name,
            kinds=kinds_of(strategy.backend, strategy.pipeline_parallel) if caching else (ANY,),
            view=view,
            measured_gib=run.job.measured_gib or 0.0,
            spots=tuple(spots),
            usable_gib=(ledger.usable_kib - (0 if process else runtime)) / GIB,
            load_gib=(ledger.load_kib - (0 if process else runtime)) / GIB,
            guessed=bool({"micro_batch_seqs", "recompute"} & set(run.job.imputed)),
            spread=run.spread,
        )

    def gib(self, share: float) -> float:
        """The predicted peak."""
        peak = max(spot.counted + share * spot.holed for spot in self.spots)
        return max(peak if self.view == "allocated" else min(peak, self.usable_gib), self.load_gib)

    def error(self, share: float) -> float:
        """Percent off."""
        return percent(self.gib(share), self.measured_gib)


def _spot(terms: Mapping[str, int], view: View, caching: bool) -> Spot:
    left = LEFT_OUT[view]
    holes = terms.get("fragmentation", 0) / law(SHARE) if caching and view != "allocated" else 0.0
    counted = sum(kib for name, kib in terms.items() if name not in left and name != "fragmentation")
    return Spot(counted / GIB, holes / GIB, terms.get("runtime", 0) / GIB)


@dataclass(frozen=True)
class Peaks:
    """The memory part of a calibration."""

    peaks: tuple[Peak, ...]
    name: str = "memory"

    @cached_property
    def by_source(self) -> dict[str, list[Peak]]:
        """Rows by source, in order of their names."""
        found: dict[str, list[Peak]] = {}
        for peak in sorted(self.peaks, key=lambda peak: (peak.source, peak.name)):
            found.setdefault(peak.source, []).append(peak)
        return found

    def sources(self) -> list[str]:
        """All sources; those without holes are held to the constant as well."""
        return list(self.by_source)

    def now(self) -> Constants:
        """The catalogue's share."""
        return {SHARE: law(SHARE)}

    def fit(self, sources: Sequence[str]) -> Constants:
        """The share with the least mean over the sources of their mean error; the first of equals."""
        able = [s for s in sources if any(spot.holed for peak in self.by_source[s] for spot in peak.spots)]
        if len(able) < LEAST_SOURCES:
            return self.now()

        def off(share: float) -> float:
            return fmean(fmean(map(abs, self.errors(source, {SHARE: share}))) for source in able)

        return {SHARE: min(SHARES, key=off)}

    def errors(self, source: str, constants: Constants) -> list[float]:
        """Percent errors of a source's rows."""
        return [peak.error(constants[SHARE]) for peak in self.by_source[source]]

    def entry(self, constants: Constants, sources: Sequence[str], date: str) -> dict[str, Any]:
        """The catalogue's entry."""
        return {
            SHARE: {
                "value": constants[SHARE],
                "unit": "of allocated + pools, less recompute inputs and live layer",
                "grade": "M",
                "source": f"scripts/constants.py on {', '.join(sources)}",
                "date": date,
            }
        }

    def residuals(self, sources: Sequence[str], share: float) -> dict[str, Residuals]:
        """Quantiles of measured over predicted by kind of run; sources weigh alike, kinds rest on several."""
        rows: dict[str, dict[str, list[float]]] = {}
        for source in sources:
            for peak in (peak for peak in self.by_source[source] if not peak.guessed):
                for kind in peak.kinds:
                    ratio = peak.measured_gib / peak.gib(share)
                    rows.setdefault(kind, {}).setdefault(source, []).append(ratio)
        return {
            kind: Residuals.of(groups)
            for kind, groups in sorted(rows.items())
            if len(groups) >= interval.LEAST_SOURCES or kind == ANY
        }


def coverage(part: Peaks) -> dict[str, Any]:
    """How many rows of a source left out lie inside the interval that the others give, and its width.

    `catalogue` says the same of the intervals that plans show. With one source alone these stand for both.
    """
    left_out, shown = [], []
    for source in part.sources():
        others = [name for name in part.sources() if name != source]
        share = part.fit(others)[SHARE]
        known = part.residuals(others, share) if others else residuals()
        left_out += [_held(peak, share, known) for peak in part.by_source[source]]
        shown += [_held(peak, law(SHARE), residuals()) for peak in part.by_source[source]]
    names = [peak.source for rows in part.by_source.values() for peak in rows]
    return {
        **_share_held(left_out),
        "inside_by_source": {
            source: fmean(inside for name, (inside, _) in zip(names, left_out, strict=True) if name == source)
            for source in part.sources()
        },
        "catalogue": _share_held(shown),
    }


def _held(peak: Peak, share: float, known: Mapping[str, Residuals]) -> tuple[bool, float]:
    """Whether the measured peak lies inside the interval of the row's nearest kind; its width in percent."""
    ratio = next(known[kind] for kind in peak.kinds if kind in known)
    predicted = peak.gib(share)
    low, high = (predicted * s * r for s, r in zip(peak.spread, (ratio.low, ratio.high), strict=True))
    return low <= peak.measured_gib <= high, 100.0 * (high - low) / predicted


def _share_held(rows: Sequence[tuple[bool, float]]) -> dict[str, Any]:
    return {
        "rows": len(rows),
        "inside": fmean(inside for inside, _ in rows),
        "median_width_percent": median(width for _, width in rows),
    }
