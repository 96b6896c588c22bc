"""Arithmetic in 8 bits: which kinds cards have, and what the step time cannot tell of them."""

from __future__ import annotations

from collections.abc import Iterator

from ..costs.eight_bits import alike
from ..models import Strategy
from ..models.strategy import Precision
from ..plans import Notice, Request

KINDS: tuple[Precision, ...] = ("fp8", "mxfp8")

PROVE = "8-bit linears change the numerics; prove convergence on a short run first"


def kinds(request: Request) -> tuple[Precision, ...]:
    """The kinds that all cards of a request have."""
    cards = [pool.node.gpu for pool in request.cluster.pools]
    return tuple(kind for kind in KINDS if all(card.peak_flops_per_s(kind) is not None for card in cards))


def before(kind: Precision) -> str:
    """What to know before arithmetic of that kind is taken."""
    return f"{PROVE}; {alike()}" if kind == "mxfp8" else PROVE


def not_told_apart(request: Request, strategy: Strategy) -> Iterator[Notice]:
    """That a plan in one kind, on cards that have both, may be slower than in the other."""
    if strategy.precision in KINDS and set(KINDS) == set(kinds(request)):
        hint = "run both for 50 steps: --set precision=fp8, --set precision=mxfp8"
        yield Notice(code="eight-bits", message=alike(), hint=hint)
