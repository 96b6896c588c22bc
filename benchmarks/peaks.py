"""Published peaks as functions of the allocator's constant, and what is left of their errors.

A caching allocator keeps blocks that no later request fits: a share of what is allocated in many sizes, one
constant for all runs under such an allocator. It is chosen on sources that measured what is reserved or the
whole process; a source that measured allocated tensors does not see it. `ends` says how an interval is drawn
of what is left: of the files that the ledger was not made with, of rows that are trusted, with neither
micro-batch nor recompute guessed. Of the others each stack's saved sets and losses were chosen to fit, so
they lie nearer than the next source will.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from math import exp, log
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np

from shardwise.costs.interval import Residuals, peak_interval
from shardwise.costs.law import law
from shardwise.costs.ledger import LEFT_OUT, View
from shardwise.models.stack import stack
from shardwise.runs.priced import Run
from shardwise.runs.views import GIB

from .ends import Pool
from .fit import trusted
from .fitting import LEAST_SOURCES, Constants
from .scores import percent

FILE = Path(__file__).parent / "data" / "left_out_peaks.json"
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
    """A row's measured peak, and what the ledger says of it at any share of holes."""

    source: str
    name: str
    view: View
    measured_gib: float
    spots: tuple[Spot, ...]
    usable_gib: float
    load_gib: float
    guessed: bool
    """Whether it is doubtful, or a rule filled its micro-batch or its recompute: no evidence of how far the
    ledger is off."""
    spread: tuple[float, float]
    """Least and greatest predicted peak over the readings of a row with blanks, over the one chosen."""

    @classmethod
    def of(cls, run: Run) -> Peak:
        """The peak of a priced row that has a measured one."""
        ledger, view, strategy = run.seen, run.job.view, run.candidate.strategy
        caching = stack(strategy.software_stack).allocator == "caching"
        spots = [
            _spot(terms, view, caching) for stage in ledger.stages for terms in stage.moments_kib.values()
        ]
        runtime = max(stage.terms_kib.get("runtime", 0) for stage in ledger.stages)
        process = view == "process"
        return cls(
            source=run.job.record.text("source"),
            name=run.job.record.name,
            view=view,
            measured_gib=run.job.measured_gib or 0.0,
            spots=tuple(spots),
            usable_gib=(ledger.usable_kib - (0 if process else runtime)) / GIB,
            load_gib=(ledger.load_kib - (0 if process else runtime)) / GIB,
            guessed=not trusted(run.job.record)
            or bool({"micro_batch_seqs", "recompute"} & set(run.job.imputed)),
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

    def pool(self, share: float) -> Pool:
        """ln(measured / predicted) of the rows in which nothing that decides memory was guessed."""
        return Pool.of(
            (peak.source, log(peak.measured_gib / peak.gib(share))) for peak in self.peaks if not peak.guessed
        )


def residuals_of(pool: Pool, without: str | None = None) -> Residuals:
    """The interval of a pool, or of its other sources."""
    left = [pool.names.index(without)] if without in pool.names else []
    low, high = pool.drawn(left)
    return Residuals(
        low=round(exp(low), 4),
        high=round(exp(high), 4),
        rows=int((~np.isin(pool.sources, left)).sum()),
        sources=len(pool.names) - len(left),
    )


@cache
def residuals_without() -> dict[str, Residuals]:
    """By source, the interval that the others give."""
    found = json.loads(FILE.read_text(encoding="utf-8"))["sources"]
    return {source: Residuals(**entry) for source, entry in found.items()}


def coverage(part: Peaks) -> dict[str, Any]:
    """How many rows of each source lie inside the interval that the others give, and its width.

    The share of holes is the catalogue's.
    """
    held = {
        source: [_held(peak, residuals_without().get(source, peak_interval())) for peak in rows]
        for source, rows in part.by_source.items()
    }
    every = [one for rows in held.values() for one in rows]
    by_source = {source: fmean(inside for inside, _ in rows) for source, rows in held.items()}
    return {
        "rows": len(every),
        "inside": fmean(inside for inside, _ in every),
        "inside_by_source": by_source,
        "inside_by_source_mean": fmean(by_source.values()),
        "median_width_percent": median(width for _, width in every),
    }


def _held(peak: Peak, ratio: Residuals) -> tuple[bool, float]:
    """Whether a measured peak lies inside, readings that differ widening it; and the width in percent."""
    predicted = peak.gib(law(SHARE))
    low, high = (predicted * s * r for s, r in zip(peak.spread, (ratio.low, ratio.high), strict=True))
    return low <= peak.measured_gib <= high, 100.0 * (high - low) / predicted
