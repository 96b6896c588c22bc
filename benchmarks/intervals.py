"""Intervals of step times from runs whose source was left out of the fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, median
from typing import Any

from shardwise.costs.interval import OUTSIDE, Residuals, step_kinds_of
from shardwise.runs.priced import Run


def kinds_of_run(run: Run) -> tuple[str, ...]:
    """Kinds of a run, nearest first."""
    return step_kinds_of(any(kind.feed_forward.experts for kind in run.job.transformer.kinds))


def residuals_of(runs: Iterable[Run]) -> dict[str, Residuals]:
    """Measured over predicted by kind; sources weigh alike."""
    rows: dict[str, dict[str, list[float]]] = {}
    for run in runs:
        source = run.job.record.text("source")
        for kind in kinds_of_run(run):
            ratio = (run.measured_seconds or 0.0) / run.seconds
            rows.setdefault(kind, {}).setdefault(source, []).append(ratio)
    return {kind: Residuals.of(groups, outside(len(groups))) for kind, groups in sorted(rows.items())}


def outside(sources: int) -> float:
    """Share of known rows beyond each end, so that one more source, like the known ones, is held.

    The next source is one of n + 1 alike, so (n + 1) 0.8 / n of the known must lie inside.

    >>> round(outside(12), 4), outside(3)
    (0.0667, 0.0)
    """
    return max((1.0 - (1.0 - 2.0 * OUTSIDE) * (sources + 1) / sources) / 2.0, 0.0)


def step_coverage(left_out: Sequence[Run]) -> dict[str, Any]:
    """Share of left-out runs inside the interval that other sources give, and the interval's width."""
    inside, widths = [], []
    for source in dict.fromkeys(run.job.record.text("source") for run in left_out):
        others = [run for run in left_out if run.job.record.text("source") != source]
        known = residuals_of(others or left_out)
        for run in (run for run in left_out if run.job.record.text("source") == source):
            entry = _nearest(run, known)
            ratio = (run.measured_seconds or 0.0) / run.seconds
            inside.append(entry.low <= ratio <= entry.high)
            widths.append(100.0 * (entry.high - entry.low))
    return {"rows": len(inside), "inside": fmean(inside), "median_width_percent": median(widths)}


def _nearest(run: Run, known: Mapping[str, Residuals]) -> Residuals:
    return next(known[kind] for kind in kinds_of_run(run) if kind in known)
