"""What repeats of one layout scatter by, and the rank correlation that leaves to a ledger without error."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import numpy as np

from .scores import spearman

DRAWS = 200
SEED = 0


def spread(repeats: Sequence[Sequence[float]]) -> float | None:
    """Standard deviation of the logarithm of a measurement, from lines of one layout; None without repeats.

    >>> round(spread([[1.0, 1.02], [5.0]]) or 0.0, 4)
    0.014
    """
    several = [np.log(np.array(lines)) for lines in repeats if len(lines) > 1]
    freedom = sum(len(lines) - 1 for lines in several)
    squares = sum(float(np.sum((lines - lines.mean()) ** 2)) for lines in several)
    return float(np.sqrt(squares / freedom)) if freedom else None


def ceiling(groups: Sequence[Sequence[float]], deviation: float) -> float:
    """Mean Spearman, over groups, of true times with measurements of them that scatter by `deviation`.

    The measured times stand for the true ones; the draws are the same in every run.

    >>> ceiling([[1.0, 2.0, 4.0]], 0.001)
    1.0
    """
    chance = np.random.default_rng(SEED)
    found = []
    for _ in range(DRAWS):
        for times in groups:
            again = np.array(times) * np.exp(chance.normal(0.0, deviation, len(times)))
            found.append(spearman(list(times), again.tolist()) or 0.0)
    return fmean(found)
