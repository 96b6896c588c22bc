"""How many optimizer steps a run takes."""

from __future__ import annotations

from ..models import Training

FIRST_STEPS = 50
"""Steps where the request names no number of tokens: enough to see memory and speed."""


def steps_of(training: Training) -> int:
    """Steps for all tokens of the training, or the first ones.

    >>> steps_of(Training(global_batch_size=512, sequence_length=4096, total_tokens=10**10))
    4769
    """
    return -(-training.total_tokens // training.tokens) if training.total_tokens else FIRST_STEPS
