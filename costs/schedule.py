"""From stage times to the step: the pipeline formula."""

from __future__ import annotations

import numpy as np

from ..inputs.record import dataclass
from .columns import Bools, Ints


@dataclass(frozen=True)
class Step:
    """Step times of n strategies and where they come from, nanoseconds."""

    total: Ints
    bubble: Ints
    slowest: Ints
    """Index of the stage whose chunk is slowest (the first of equals)."""
    tail_stage: Ints
    """Index of the stage with the longest work once a step."""


def step(chunk: Ints, tail: Ints, held: Bools, passes: Ints) -> Step:
    """Step = (m v - 1) max U + sum U + max tail.

    `chunk` U and `tail` are (n, stages), `passes` = m v chunks of each stage. The slowest stage works
    m v U; the bubble is the fill and drain over the other stages, sum U - max U. It is at or above the
    simulated 1F1B makespan, 0-4 % when stages are near balance.
    """
    chunk = np.where(held, chunk, 0)
    tail = np.where(held, tail, -1)
    slowest = chunk.argmax(axis=1)
    most = chunk.max(axis=1)
    bubble = chunk.sum(axis=1) - most
    total = passes * most + bubble + tail.max(axis=1)
    return Step(total, bubble, slowest, tail.argmax(axis=1))
