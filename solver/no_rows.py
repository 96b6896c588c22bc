"""Why a request has no row at all: what shape, backends, cards and batch refuse, with the field to blame."""

from __future__ import annotations

from collections.abc import Iterator
from math import log2

from ..models import divisors
from ..models.backend import backend
from ..models.divisors import ALIGNED, CutAxis, legal_degrees, misaligned
from ..models.strategy import BACKENDS
from ..plans import Request
from .software import refusals, untold

NEAREST = 4
"""Legal degrees told of an axis whose chosen ones are not, nearest first."""


def no_rows(request: Request) -> Iterator[tuple[str, str]]:
    """(field of the request, reason), what is nearest to the user's words first."""
    yield from _uneven(request)
    yield from _unaligned(request)
    yield from _uncut(request)
    yield from refusals(request)
    cards, batch = request.cluster.gpus, request.training.global_batch_size
    spread = (
        f"the degrees must multiply to exactly {cards:,} cards, and data_parallel x micro_batch_size must "
        f"divide {batch:,} sequences"
    )
    yield "cluster.gpus", spread
    yield "training.global_batch_size", spread


def _uneven(request: Request) -> Iterator[tuple[str, str]]:
    """(field, reason) of each axis all of whose chosen degrees the model's shape refuses."""
    axes: tuple[CutAxis, ...] = ("tensor_parallel", "expert_parallel")
    for axis in axes:
        chosen = getattr(request.choose, axis)
        rules = [d for d in divisors(request.model) if d.axis == axis and d.required]
        broken = [[d for d in rules if d.number % degree] for degree in chosen or ()]
        if broken and all(broken):
            first = broken[0][0]
            legal = sorted(legal_degrees(request.model, axis), key=lambda d: (abs(log2(d / chosen[0])), d))
            near = ", ".join(str(degree) for degree in legal[:NEAREST])
            text = (
                f"{axis} {chosen[0]} does not divide {first.of} {first.number}: {first.reason}; legal: {near}"
            )
            yield f"choose.{axis}", text


def _unaligned(request: Request) -> Iterator[tuple[str, str]]:
    """(field, reason) where only 8-bit arithmetic is allowed and no degree gives it whole multiples."""
    words = request.choose.precision or ()
    degrees = request.choose.tensor_parallel or (1,)
    broken = [misaligned(request.model, word, degree) for word in words for degree in degrees]
    if broken and all(broken):
        first = broken[0][0]
        yield "choose.precision", f"{first.of} {first.number} at tensor_parallel {degrees[0]}: {ALIGNED}"


def _uncut(request: Request) -> Iterator[tuple[str, str]]:
    """(field, reason) of each axis whose chosen degrees no backend runs for this model, one a backend."""
    choose, model = request.choose, request.model
    allowed = [backend(name) for name in choose.backend or BACKENDS]
    known = [one for one in allowed if one.knows(model)]
    for axis in ("tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel"):
        chosen = getattr(choose, axis) or ()
        reasons = [one.refuses(axis, chosen, model) for one in known] if chosen else []
        if reasons and all(reasons):
            yield from (
                (f"choose.{axis}", f"{one.name}: {why}") for one, why in zip(known, reasons, strict=True)
            )
            yield from ((f"choose.{axis}", untold(one, model)) for one in allowed if one not in known)
