"""What a model's shape divides: which degrees of parallelism cut it evenly, and why."""

from __future__ import annotations

from math import gcd, isqrt
from typing import Literal

from ..inputs import Frozen
from .transformer import Transformer

Axis = Literal["tensor_parallel", "expert_parallel", "expert_tensor_parallel", "pipeline_parallel"]
CutAxis = Literal["tensor_parallel", "expert_parallel"]


class Divisor(Frozen):
    """A number of the model that a degree should divide.

    `of` says what `number` counts; `reason` is the sentence for rules and errors. Where not
    `required`, an uneven degree is possible and only costs (padding, uneven stages).
    """

    axis: Axis
    of: str
    number: int
    reason: str
    required: bool = True


_TENSOR_REASONS = {
    "heads": "each rank of a tensor-parallel group computes whole query heads",
    "kv_heads": "each rank holds whole key-value heads; a larger group would have to replicate them",
    "ffn_width": "the feed-forward is cut into equal columns over the tensor-parallel group",
    "shared_width": "the shared experts are cut into equal columns over the tensor-parallel group",
}


def divisors(transformer: Transformer) -> tuple[Divisor, ...]:
    """Every divisor of `transformer`, one a distinct (axis, of, number), in order of depth."""
    found: list[Divisor] = []
    for kind in transformer.kinds:
        forward = kind.feed_forward
        tensor = {"heads": kind.attention.heads, "kv_heads": kind.attention.kv_heads}
        if not forward.experts:
            tensor["ffn_width"] = forward.width
        elif forward.shared_width:
            tensor["shared_width"] = forward.shared_width
        found += [
            Divisor(axis="tensor_parallel", of=of, number=number, reason=_TENSOR_REASONS[of])
            for of, number in tensor.items()
        ]
        if forward.experts:
            found += _experts(forward.experts, forward.width)
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
    return tuple(dict.fromkeys(found))


def _experts(experts: int, width: int) -> list[Divisor]:
    whole = "each rank of an expert-parallel group holds the same number of whole experts"
    cut = "each expert is cut into equal columns over the expert-tensor-parallel group"
    return [
        Divisor(axis="expert_parallel", of="experts", number=experts, reason=whole),
        Divisor(axis="expert_tensor_parallel", of="expert_width", number=width, reason=cut),
    ]


def legal_degrees(transformer: Transformer, axis: CutAxis) -> list[int]:
    """Degrees of `axis` that divide every required number, ascending; [1] for a model without experts.

    >>> from shardwise.models import Transformer
    >>> legal_degrees(Transformer.preset("llama-3.1-8b"), "tensor_parallel")
    [1, 2, 4, 8]
    """
    numbers = [d.number for d in divisors(transformer) if d.axis == axis and d.required]
    return divisors_of(gcd(*numbers)) if numbers else [1]


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
