"""Errors of predictions against measurements, in percent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean, median
from typing import Any


def percent(predicted: float, measured: float) -> float:
    """Signed error.

    >>> percent(110.0, 100.0)
    10.0
    """
    return round((predicted / measured - 1.0) * 100.0, 9)


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of `values` lies, linear between neighbours."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def ranks(values: Sequence[float]) -> list[float]:
    """Rank of each value; equal ones share the mean of their ranks."""
    ordered = sorted(values)
    return [(2 * ordered.index(v) + ordered.count(v) - 1) / 2 for v in values]


def spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Rank correlation; None below three pairs or where one side is constant.

    >>> spearman([1, 2, 3], [10, 30, 20])
    0.5
    """
    if len(first) < 3:
        return None
    a, b = ranks(first), ranks(second)
    mean = (len(first) - 1) / 2
    across = sum((x - mean) * (y - mean) for x, y in zip(a, b, strict=True))
    spread = sum((x - mean) ** 2 for x in a) * sum((y - mean) ** 2 for y in b)
    return round(across / spread**0.5, 9) if spread else None


def summary(pairs: Sequence[tuple[float, float]]) -> dict[str, Any]:
    """Scores of (predicted, measured) pairs: rows, mape, median_ape, p90_ape, bias, spearman."""
    errors = [percent(predicted, measured) for predicted, measured in pairs]
    sizes = [abs(error) for error in errors]
    return {
        "rows": len(pairs),
        "mape": fmean(sizes),
        "median_ape": median(sizes),
        "p90_ape": quantile(sizes, 0.9),
        "bias": fmean(errors),
        "spearman": spearman(*zip(*pairs, strict=True)),
    }


def by_source(pairs: Iterable[tuple[str, float, float]]) -> dict[str, Any]:
    """Scores over (source, predicted, measured): by source, mean of the sources' mape, and over all rows."""
    groups: dict[str, list[tuple[float, float]]] = {}
    for source, predicted, measured in pairs:
        groups.setdefault(source, []).append((predicted, measured))
    every = [pair for group in groups.values() for pair in group]
    found = {source: summary(group) for source, group in sorted(groups.items())}
    if not every:
        return {"rows": 0, "mape_by_source_mean": None, "median_ape": None, "by_source": {}}
    return {
        "mape_by_source_mean": fmean(score["mape"] for score in found.values()),
        **summary(every),
        "by_source": found,
    }
