"""In which order and how many at once the shapes of a space are opened."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..costs.columns import Ints
from .space import Space

ROUND = 64
"""Shapes are opened in multiples of this."""

LEAN = 64
"""Shapes of little memory opened at first, whatever their bounds."""

FIRST, BATCH = 96, 2560
"""Shapes of least bound whose rows are opened at once: the first time, and later."""


def batches(found: Space, least: Ints) -> Iterator[Ints]:
    """Shapes by rising bound, but with the first some that use little memory: so a plan is known soon."""
    order = np.argsort(least, kind="stable")
    lean = found.lean(least)
    early = np.zeros(len(least), dtype=np.bool_)
    early[lean[np.argsort(least[lean], kind="stable")][:LEAN]] = True
    early[order[:FIRST]] = True
    yield order[early[order]]
    rest = order[~early[order]]
    for start in range(0, len(rest), BATCH):
        yield rest[start : start + BATCH]


def at_once(least: Ints) -> Iterator[Ints]:
    """Shapes by rising bound in large parts: a plan is known."""
    order = np.argsort(least, kind="stable")
    for start in range(0, len(order), 2 * BATCH):
        yield order[start : start + 2 * BATCH]


def rounded(batch: Ints, least: Ints, limit_ns: int) -> Ints:
    """Shapes of a batch (by rising bound) within the limit and a few more: limits nearby ask the same."""
    count = int((least[batch] <= limit_ns).sum())
    found: Ints = batch[: -(-count // ROUND) * ROUND]
    return found
