"""What a model's shape divides: which degrees of parallelism cut it evenly, and why."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import gcd, isqrt
from typing import Literal

from ..inputs import Frozen
from .mixers import Attention, Mixer
from .transformer import Block, FeedForward, Transformer

Axis = Literal[
    "tensor_parallel", "expert_parallel", "expert_tensor_parallel", "pipeline_parallel", "precision"
]
CutAxis = Literal["tensor_parallel", "expert_parallel", "expert_tensor_parallel"]

EIGHT_BIT = {"fp8": 16, "mxfp8": 32}
"""Sizes of an 8-bit product are multiples of this (Transformer Engine, torchao: rows of 16 bytes; a block
of 32 shares one scale under mxfp8)."""

RING = "a zig-zag ring cuts the sequence into 2 * context_parallel equal parts"


ALIGNED = (
    "8-bit products need sizes that are multiples of 16 (mxfp8: 32), also after tensor parallel cut them"
)


class Divisor(Frozen):
    """A number of the model that a degree should divide, each share a multiple of `unit`.

    `of` says what `number` counts; `reason` is the sentence for rules and errors. Where not
    `required`, an uneven degree is possible and only costs (padding, uneven stages). The axis
    "precision" lists what 8-bit arithmetic asks of a width after tensor parallel has cut it.
    """

    axis: Axis
    of: str
    number: int
    reason: str
    required: bool = True
    unit: int = 1


_TENSOR_REASONS = {
    "heads": "each rank of a tensor-parallel group computes whole query heads",
    "kv_heads": "each rank holds whole key-value heads; a larger group would have to replicate them",
    "state_heads": "each rank of a tensor-parallel group holds the whole state of its heads",
    "ffn_width": "the feed-forward is cut into equal columns over the tensor-parallel group",
    "shared_width": "the shared experts are cut into equal columns over the tensor-parallel group",
}


@lru_cache(maxsize=64)
def divisors(transformer: Transformer) -> tuple[Divisor, ...]:
    """Every divisor of `transformer`, one a distinct (axis, of, number), in order of depth."""
    found: list[Divisor] = []
    for kind in transformer.kinds:
        found += [
            Divisor(axis="tensor_parallel", of=of, number=number, reason=_TENSOR_REASONS[of])
            for of, number in _tensor(kind)
        ]
        if kind.feed_forward.experts:
            found += _experts(kind.feed_forward)
    found.append(
        Divisor(
            axis="tensor_parallel",
            of="vocab_size",
            number=transformer.vocab_size,
            reason="embedding and head are cut by vocabulary, which is padded up to a multiple of the degree",
            required=False,
        )
    )
    found.append(
        Divisor(
            axis="pipeline_parallel",
            of="layers",
            number=transformer.layers,
            reason="stages are equal only when pipeline_parallel * virtual_pipeline divides the layers",
            required=False,
        )
    )
    return tuple(dict.fromkeys([*found, *_eight_bit(transformer)]))


def _tensor(kind: Block) -> Iterator[tuple[str, int]]:
    """(what, number) that tensor parallel cuts in a layer."""
    for mixer in (kind.attention, *kind.beside):
        if isinstance(mixer, Attention):
            yield "heads", mixer.heads
            yield "kv_heads", mixer.kv_heads
        elif mixer.mixer != "none":
            yield "state_heads", mixer.heads
    forward = kind.feed_forward
    if not forward.experts and forward.width:
        yield "ffn_width", forward.width
    elif forward.shared_width:
        yield "shared_width", forward.shared_width


def _experts(forward: FeedForward) -> list[Divisor]:
    whole = "each rank of an expert-parallel group holds the same number of whole experts"
    cut = "each expert is cut into equal columns over the expert-tensor-parallel group"
    return [
        Divisor(axis="expert_parallel", of="experts", number=forward.experts, reason=whole),
        Divisor(axis="expert_tensor_parallel", of="expert_width", number=forward.width, reason=cut),
    ]


def _eight_bit(transformer: Transformer) -> list[Divisor]:
    widths = [("hidden_size", transformer.hidden_size)]
    for kind in transformer.kinds:
        widths += _linear_widths(kind)
    return [
        Divisor(axis="precision", of=of, number=number, reason=ALIGNED, required=False, unit=EIGHT_BIT["fp8"])
        for of, number in widths
        if number
    ]


def _linear_widths(kind: Block) -> Iterator[tuple[str, int]]:
    """Widths of the products of a layer beside the hidden size."""
    for mixer in (kind.attention, *kind.beside):
        state = isinstance(mixer, Mixer)
        yield "state_input_width" if state else "query_width", mixer.query_width
        yield "kv_width", mixer.kv_width
        yield "state_output_width" if state else "output_width", mixer.output_width
    forward = kind.feed_forward
    yield "expert_width" if forward.experts else "ffn_width", forward.width
    yield "shared_width", forward.shared_width


def legal_degrees(transformer: Transformer, axis: CutAxis) -> list[int]:
    """Degrees of `axis` that divide every required number, ascending; [1] for a model without experts.

    >>> from shardwise.models import Transformer
    >>> legal_degrees(Transformer.preset("llama-3.1-8b"), "tensor_parallel")
    [1, 2, 4, 8]
    """
    numbers = [d.number for d in divisors(transformer) if d.axis == axis and d.required]
    return divisors_of(gcd(*numbers)) if numbers else [1]


def misaligned(
    transformer: Transformer, precision: str, tensor_parallel: int, expert_tensor_parallel: int = 1
) -> tuple[Divisor, ...]:
    """Widths that arithmetic of an 8-bit `precision` would pad or refuse under these degrees.

    The hidden size is not cut, experts are by expert_tensor_parallel, all others by tensor_parallel;
    empty where every product runs in 8 bits, and for other precisions.

    >>> from shardwise.models import Transformer
    >>> [found.of for found in misaligned(Transformer.preset("qwen2.5-0.5b"), "fp8", 2)]
    []
    """
    unit = EIGHT_BIT.get(precision, 1)
    cuts = {"hidden_size": 1, "expert_width": expert_tensor_parallel}
    widths = (found for found in divisors(transformer) if found.axis == "precision")
    return tuple(found for found in widths if found.number % (unit * cuts.get(found.of, tensor_parallel)))


def padded_vocabulary(vocab_size: int, tensor_parallel: int, multiple: int = 128) -> int:
    """Entries of embedding and head once each rank's share is a multiple of `multiple` (Megatron-LM's 128).

    >>> padded_vocabulary(32001, 2)
    32256
    """
    return padded(vocab_size, multiple * tensor_parallel)


def padded(number: int, unit: int) -> int:
    """`number` rounded up to a multiple of `unit`: tokens over ranks that split a sequence, 8-bit sizes.

    >>> padded(4097, 8)
    4104
    """
    return -(-number // unit) * unit


def divisors_of(number: int) -> list[int]:
    """All divisors of `number`, ascending.

    >>> divisors_of(12)
    [1, 2, 3, 4, 6, 12]
    """
    small = [k for k in range(1, isqrt(number) + 1) if number % k == 0]
    return small + [number // k for k in reversed(small) if k * k != number]


def nearest_divisors(number: int, wanted: int, most: int = 3) -> list[int]:
    """Up to `most` divisors of `number`, nearest to `wanted` first.

    >>> nearest_divisors(4096, 30)
    [32, 16, 8]
    """
    return sorted(divisors_of(number), key=lambda k: (abs(k - wanted), k))[:most]
