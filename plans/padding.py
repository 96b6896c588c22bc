"""Sequences that no layout of a request can cut evenly are rounded up, and that is told."""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm

from ..models.divisors import EIGHT_BIT, RING, padded
from .beside import Notice
from .request import Request

FIELD = "training.sequence_length"


def padded_request(
    request: Request, contexts: Sequence[int], precisions: Sequence[str]
) -> tuple[Request, tuple[Notice, ...]]:
    """`request` with the least sequence length that one of `contexts` and all arithmetic can cut, and why.

    Context ranks of a zig-zag ring hold 2 equal parts each; where every precision allowed is of 8 bits,
    a part is a multiple of its block of tokens too. The tokens of a step then count the padding.
    """
    length = request.training.sequence_length
    block = min((EIGHT_BIT.get(word, 1) for word in precisions), default=1)
    found = min((padded(length, _unit(degree, block)) for degree in contexts), default=length)
    if found == length:
        return request, ()
    reasons = [RING] if any(degree > 1 for degree in contexts) else []
    reasons += [f"8-bit products take tokens in multiples of {block}"] if block > 1 else []
    notice = Notice(
        code="padding",
        message=f"sequences of {length:,} tokens are padded to {found:,}: {' and '.join(reasons)}",
        hint=f"{100 * (1 - length / found):.2g} % of the tokens are padding, and counted in tokens a second",
    )
    return request.changed({FIELD: found}, origin=f"{request.origin(FIELD)}, padded"), (notice,)


def _unit(context: int, block: int) -> int:
    """What a sequence must be a multiple of over `context` ranks, in blocks of tokens."""
    return lcm(2 * context if context > 1 else 1, block * context)
