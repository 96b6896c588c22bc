"""The side-by-side table: what each ZeRO stage keeps, moves, and from how many cards it fits."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import numpy as np

from ..inputs import Frozen, InputError
from ..models.optimizer import named_recipe
from ..models.recipe import Recipe
from . import buffers, held
from .crossings import passes_of, wire_of
from .law import law
from .sharding import sharded_from

NAMES = ("DP", "ZeRO-1", "ZeRO-2", "ZeRO-3")

BY_PRECISION = {
    "bf16": "zero-paper",
    "fp16": "zero-paper",
    "fp32": "fp32-adamw",
    "fp8": "megatron-fp8-adamw",
    "mxfp8": "megatron-mxfp8-adamw",
}
"""Recipe a precision stands for where none is named."""

MOST_CARDS = 2**24
"""Cards beyond which "fits from" says never."""


class FitsFrom(Frozen):
    """The least number of cards with which the states fit a card; None: never."""

    any: int | None
    whole_nodes: int | None
    powers_of_two: int | None


class Scheme(Frozen):
    """One column of the table, before activations. P counts parameters; traffic is one card's in a step."""

    name: str
    bytes_per_parameter: float
    bytes_per_card: int
    step_bytes_per_card: int
    """Alive at the optimizer step, where the recipe brings a copy then."""
    floor_bytes_per_parameter: float
    floor_bytes_per_card: int
    """What no number of cards lowers."""
    buffer_bytes_per_card: int
    """Communication buckets or gathered window beside the states."""
    traffic_parameters: float
    """Multiple of P that crosses the wire in a step, before (N-1)/N."""
    traffic_bytes_per_card: int
    traffic_parameters_accumulated: float
    traffic_bytes_per_card_accumulated: int
    """The same with `accumulated_micro_batches` micro-batches a step."""
    fits_from: FitsFrom
    host_bytes_per_node: int


class SideBySide(Frozen):
    """The table with the convention behind it."""

    parameters: int
    gpus: int
    gpus_per_node: int
    card_bytes: int
    recipe: Recipe
    offload: str
    micro_batches: int
    accumulated_micro_batches: int
    schemes: tuple[Scheme, ...]


def side_by_side(
    parameters: int,
    gpus: int,
    *,
    card_bytes: int,
    recipe: str | None = None,
    precision: str | None = None,
    micro_batches: int = 1,
    offload: str = "none",
    gpus_per_node: int | None = None,
) -> SideBySide:
    """DP and ZeRO 1-3 for `parameters` on `gpus` cards of `card_bytes` bytes.

    DeepSpeed's sharding: optimizer from stage 1, gradients from 2, weights from 3; offload takes the
    optimizer (and parameters with gradients) off the card. Raises `InputError` for an unknown recipe.

    >>> table = side_by_side(30_000_000_000, 8, card_bytes=80_000_000_000)
    >>> [scheme.bytes_per_parameter for scheme in table.schemes]
    [16.0, 5.5, 3.75, 2.0]
    """
    known = _recipe(recipe, precision)
    per_node = gpus_per_node or min(gpus, 8)
    again = max(8, micro_batches)
    schemes = tuple(
        _scheme(zero, parameters, gpus, card_bytes, known, micro_batches, again, offload, per_node)
        for zero in range(4)
    )
    return SideBySide(
        parameters=parameters,
        gpus=gpus,
        gpus_per_node=per_node,
        card_bytes=card_bytes,
        recipe=known,
        offload=offload,
        micro_batches=micro_batches,
        accumulated_micro_batches=again,
        schemes=schemes,
    )


def _recipe(name: str | None, precision: str | None) -> Recipe:
    if name is None:
        return named_recipe(BY_PRECISION[precision or "bf16"])
    if precision is not None and BY_PRECISION[precision] != name:
        reason = f"contradicts --recipe {name}, which fixes the bytes"
        raise InputError("precision", precision, "--precision", reason, code="contradiction")
    return named_recipe(name)


def _resident(zero: int, known: Recipe, offload: str) -> list[tuple[float, bool]]:
    """(bytes a parameter, sharded) of weights, gradients and optimizer on the card."""
    flags = sharded_from(np.array(zero), 3, 2)
    sizes = [known.weights_bytes, known.gradients_bytes, known.optimizer_bytes]
    gone = {"none": (), "optimizer": (2,), "optimizer+params": (0, 1, 2)}[offload]
    return [
        (0.0 if i in gone and zero >= 1 else size, bool(flag))
        for i, (size, flag) in enumerate(zip(sizes, flags, strict=True))
    ]


def _per_card(parts: list[tuple[float, bool]], parameters: int, ranks: int) -> int:
    """Bytes of the parts on one of `ranks` cards."""
    return round(sum(size * float(held.divided(parameters, sharded, ranks)) for size, sharded in parts))


def _traffic(zero: int, known: Recipe, micro_batches: int) -> tuple[float, float]:
    """(parameters, bytes a parameter) one card sends in a step, before (N-1)/N."""
    stage = np.array(zero)
    weights, gradients, _ = sharded_from(stage, 3, 2)
    gather, reduce, gather_once, reduce_once = (float(v) for v in passes_of(stage, weights, gradients))
    gathers = gather * micro_batches + gather_once
    reduces = reduce * micro_batches + reduce_once
    gathered, reduced = wire_of(stage, known.wire_gather_bytes, known.wire_reduce_bytes)
    return gathers + reduces, gathers * float(gathered) + reduces * float(reduced)


def _scheme(
    zero: int,
    parameters: int,
    gpus: int,
    card_bytes: int,
    known: Recipe,
    micro_batches: int,
    again: int,
    offload: str,
    per_node: int,
) -> Scheme:
    parts = _resident(zero, known, offload)
    step = [*parts, (0.0 if offload != "none" and zero else known.step_bytes, zero >= 1)]
    floor = sum(size for size, sharded in parts if not sharded)
    count, moved = _traffic(zero, known, micro_batches)
    count_again, moved_again = _traffic(zero, known, again)
    share = (gpus - 1) / gpus
    card = _per_card(parts, parameters, gpus)
    return Scheme(
        name=NAMES[zero],
        bytes_per_parameter=sum(size * float(held.divided(1.0, sharded, gpus)) for size, sharded in parts),
        bytes_per_card=card,
        step_bytes_per_card=_per_card(step, parameters, gpus),
        floor_bytes_per_parameter=floor,
        floor_bytes_per_card=round(floor * parameters),
        buffer_bytes_per_card=_buffers(zero, card_bytes, parameters),
        traffic_parameters=count,
        traffic_bytes_per_card=round(moved * parameters * share),
        traffic_parameters_accumulated=count_again,
        traffic_bytes_per_card_accumulated=round(moved_again * parameters * share),
        fits_from=_fits_from(parts, parameters, card_bytes, per_node),
        host_bytes_per_node=_host(zero, parameters, gpus, per_node, offload),
    )


def _buffers(zero: int, card_bytes: int, parameters: int) -> int:
    if zero == 3:
        return round(2.0 * min(law("live_parameters"), parameters))
    size = buffers.bucket_bytes(buffers.bucket_of(card_bytes, np.array(float(parameters))))
    return round(float(size)) if zero else 0


def _host(zero: int, parameters: int, gpus: int, per_node: int, offload: str) -> int:
    if offload == "none" or zero == 0:
        return 0
    each = law("host_state_bytes") * law("host_pinned_factor")
    return round(each * float(held.divided(parameters, True, gpus)) * per_node)


def _fits_from(parts: list[tuple[float, bool]], parameters: int, card_bytes: int, per_node: int) -> FitsFrom:
    """Least N with floor P + sharded P / N <= card, by exact fractions."""
    floor = sum((Fraction(size) for size, sharded in parts if not sharded), Fraction(0)) * parameters
    shared = sum((Fraction(size) for size, sharded in parts if sharded), Fraction(0)) * parameters
    room = card_bytes - floor
    if room < 0 or (room == 0 and shared > 0):
        return FitsFrom(any=None, whole_nodes=None, powers_of_two=None)
    least = max(1, ceil(shared / room)) if shared else 1
    if least > MOST_CARDS:
        return FitsFrom(any=None, whole_nodes=None, powers_of_two=None)
    return FitsFrom(
        any=least,
        whole_nodes=-(-least // per_node) * per_node,
        powers_of_two=1 << (least - 1).bit_length(),
    )
