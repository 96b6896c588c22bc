"""Arithmetic in 8 bits: which kinds cards have, and what the step time cannot tell of them."""

from __future__ import annotations

from collections.abc import Iterator

from ..models import Strategy
from ..models.strategy import Precision
from ..plans import Notice, Request

KINDS: tuple[Precision, ...] = ("fp8", "mxfp8")

PROVE = "8-bit linears change the numerics; prove convergence on a short run first"

AHEAD_PERCENT = (7.5, 11.8)
"""By how much fp8 was ahead of mxfp8 where runs were published of both in one layout: Megatron Bridge 26.06,
70B on GB200 and GB300. The products that mxfp8 is priced by were measured in other kernels."""

ALIKE = (
    f"fp8 and mxfp8 are not told apart: published runs of both in one layout had fp8 {AHEAD_PERCENT[0]:g} to "
    f"{AHEAD_PERCENT[1]:g} % ahead (Megatron Bridge 26.06)"
)


def kinds(request: Request) -> tuple[Precision, ...]:
    """The kinds that all cards of a request have."""
    cards = [pool.node.gpu for pool in request.cluster.pools]
    return tuple(kind for kind in KINDS if all(card.peak_flops_per_s(kind) is not None for card in cards))


def before(kind: Precision) -> str:
    """What to know before arithmetic of that kind is taken."""
    return f"{PROVE}; {ALIKE}" if kind == "mxfp8" else PROVE


def chosen_among_both(request: Request, strategy: Strategy) -> Iterator[Notice]:
    """That one kind was chosen where the other was allowed too."""
    if strategy.precision in KINDS and set(KINDS) <= set(request.choose.precision or ()):
        hint = "run both for 50 steps: --set precision=fp8, --set precision=mxfp8"
        yield Notice(code="eight-bits", message=ALIKE, hint=hint)
