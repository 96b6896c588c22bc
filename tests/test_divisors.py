"""What a model's shape divides, and the degrees that follow."""

from __future__ import annotations

import pytest

from shardwise.models import Mixer, Transformer, divisors, legal_degrees, parse_config
from shardwise.models.divisors import misaligned, padded_vocabulary


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

    assert [(d.axis, d.of, d.number, d.required) for d in found if d.axis != "precision"] == [
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


def test_a_state_is_cut_by_its_heads_and_a_bare_feed_forward_by_its_width() -> None:
    """Of a hybrid stack the state heads count too; a layer without a mixer asks nothing of heads."""
    keys = {
        "model_type": "nemotron_h",
        "vocab_size": 512,
        "hidden_size": 64,
        "hybrid_override_pattern": "M-*-",
        "num_hidden_layers": 4,
        "mamba_num_heads": 12,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "intermediate_size": 96,
    }
    model = parse_config(keys, "x")
    asked = [(d.of, d.number) for d in divisors(model) if d.axis == "tensor_parallel" and d.required]

    assert [type(kind.attention) is Mixer for kind in model.kinds] == [True, True, False]
    assert asked == [("state_heads", 12), ("ffn_width", 96), ("heads", 16), ("kv_heads", 8)]
    assert legal_degrees(model, "tensor_parallel") == [1, 2, 4]


def test_eight_bit_arithmetic_asks_multiples_of_sixteen_of_every_share() -> None:
    """A width of 712 is none; 4864 is one, and stays one when four ranks cut it, but not when 19 do."""
    base = {"model_type": "llama", "vocab_size": 64, "hidden_size": 896, "num_hidden_layers": 1}
    base |= {"num_attention_heads": 7, "num_key_value_heads": 7, "head_dim": 128}
    odd, even = (parse_config(base | {"intermediate_size": width}, "x") for width in (712, 4864))

    assert [(d.of, d.number, d.unit) for d in misaligned(odd, "fp8", 1)] == [("ffn_width", 712, 16)]
    assert misaligned(even, "fp8", 1) == ()
    assert [d.of for d in misaligned(even, "fp8", 7)] == ["ffn_width"]
    assert not any(d.required for d in divisors(odd) if d.axis == "precision")


def test_a_vocabulary_is_padded_to_whole_shares() -> None:
    """32001 entries over two ranks with shares in multiples of 128 or 64; one that fits stays."""
    assert padded_vocabulary(32001, 2) == 32256
    assert padded_vocabulary(32001, 2, 64) == 32128
    assert padded_vocabulary(128256, 2) == 128256
