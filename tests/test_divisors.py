"""What a model's shape divides, and the degrees that follow."""

from __future__ import annotations

import pytest

from shardwise.models import Transformer, divisors, legal_degrees


@pytest.mark.parametrize(
    ("name", "degrees"),
    [
        ("llama-3.1-70b", [1, 2, 4, 8]),
        ("qwen2.5-0.5b", [1, 2]),
        ("gpt3-175b", [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 96]),
        ("smollm-135m", [1, 3]),
        ("gemma-2b", [1]),
        ("gpt2-xl", [1, 5, 25]),
        ("mixtral-8x7b", [1, 2, 4, 8]),
        ("qwen1.5-moe-a2.7b", [1, 2, 4, 8, 16]),
    ],
)
def test_tensor_parallel_divides_heads_kv_heads_and_widths(name: str, degrees: list[int]) -> None:
    """A degree must divide all of them, in every kind of layer."""
    assert legal_degrees(Transformer.preset(name), "tensor_parallel") == degrees


@pytest.mark.parametrize(
    ("name", "degrees"),
    [
        ("llama-3.1-8b", [1]),
        ("mixtral-8x7b", [1, 2, 4, 8]),
        ("qwen1.5-moe-a2.7b", [1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 60]),
    ],
)
def test_expert_parallel_divides_the_experts(name: str, degrees: list[int]) -> None:
    """A model without experts has degree 1 only."""
    assert legal_degrees(Transformer.preset(name), "expert_parallel") == degrees


def test_every_divisor_has_a_number_and_a_reason() -> None:
    """A mixed stack names the widths of both kinds and the experts; vocabulary and layers advise."""
    found = divisors(Transformer.preset("deepseek-v3"))

    assert [(d.axis, d.of, d.number, d.required) for d in found] == [
        ("tensor_parallel", "heads", 128, True),
        ("tensor_parallel", "kv_heads", 128, True),
        ("tensor_parallel", "ffn_width", 18432, True),
        ("tensor_parallel", "shared_width", 2048, True),
        ("expert_parallel", "experts", 256, True),
        ("expert_tensor_parallel", "expert_width", 2048, True),
        ("tensor_parallel", "vocab_size", 129280, False),
        ("pipeline_parallel", "layers", 61, False),
    ]
    assert all(len(d.reason.split()) > 5 for d in found)
    assert len(set(found)) == len(found)
