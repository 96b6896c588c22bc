"""Which of several moments may be the peak of a stage."""

from __future__ import annotations

from ..costs.sums import Sum


def binding(moments: list[Sum]) -> list[Sum]:
    """Moments that may be the peak of some stage: not outweighed by another, piece by piece."""
    kept: list[Sum] = []
    for index, one in enumerate(moments):
        others = [*kept, *moments[index + 1 :]]
        if not any(_outweighs(other, one) for other in others):
            kept.append(one)
    return kept


def _outweighs(heavy: Sum, light: Sum) -> bool:
    """Whether no piece of `light` weighs more, and what recompute and offload spare is no less."""
    return all(
        bool((one[piece] <= two[piece]).all())
        for one, two in ((light.stage, heavy.stage), (light.flight, heavy.flight))
        for piece in one
    )
