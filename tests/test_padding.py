"""Sequences, vocabularies and 8-bit sizes that a layout cannot cut: padded and told, or refused by number."""

from __future__ import annotations

from typing import Any

import pytest

from shardwise import Cluster, NoPlan, Plan, Request, Training, plan
from shardwise.models import parse_config
from shardwise.plans import read_strategy
from shardwise.solver import check


def request(length: int, width: int = 1024, **choose: Any) -> Request:
    """A small dense model on one node of eight H100, 32 sequences a step."""
    keys = {"model_type": "llama", "hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8}
    keys |= {"intermediate_size": width, "vocab_size": 32001}
    return Request(
        model=parse_config(keys, "x"),
        cluster=Cluster.preset("dgx-h100"),
        training=Training(global_batch_size=32, sequence_length=length),
        choose={name: [value] for name, value in choose.items()},
    )


@pytest.mark.parametrize(
    ("length", "choose", "padded"),
    [
        (4097, {"context_parallel": 8}, 4112),
        (4104, {"context_parallel": 4}, None),
        (1001, {"precision": "fp8"}, 1008),
        (1001, {"precision": "mxfp8", "context_parallel": 2}, None),
        (1001, {}, None),
    ],
)
def test_a_sequence_is_padded_where_no_layout_could_cut_it(
    length: int, choose: dict[str, Any], padded: int | None
) -> None:
    """Only where the request leaves no other way, to the least length that works; the answer tells."""
    found = plan(request(length, **choose))

    told = [w.message for w in getattr(found, "warnings", ()) if w.code == "padding"]
    assert [f"{length:,}" in word and f"{padded:,}" in word for word in told] == [True] * (padded is not None)
    if isinstance(found, Plan):
        assert found.request.training.sequence_length == (padded or length)


def test_a_padded_layout_is_the_layout_of_the_padded_length() -> None:
    """Nothing but the words differs from asking for the longer sequence outright."""
    short, long = (plan(request(length, context_parallel=8)) for length in (4097, 4112))

    assert isinstance(short, Plan)
    assert isinstance(long, Plan)
    assert short.time == long.time
    assert short.memory == long.memory


def test_a_given_strategy_is_padded_too() -> None:
    """No breach for a sequence that padding cures."""
    strategy = {"backend": "megatron", "context_parallel": 8, "micro_batch_size": 1}
    asked = request(4097)
    shape = read_strategy(strategy, asked.model, "x", asked.training, asked.cluster.gpus)
    found = check(asked, shape)

    assert [w.code for w in found.warnings][0] == "padding"
    assert not [b for b in found.breaches if b.rule == "context_parallel"]


@pytest.mark.parametrize(("width", "tensor", "runs"), [(712, 1, False), (720, 1, True), (720, 2, False)])
def test_eight_bit_sizes_are_refused_by_number(width: int, tensor: int, runs: bool) -> None:
    """A width that is no multiple of 16 once it is cut: no layout, and the reason names it."""
    found = plan(request(1024, width, precision="fp8", tensor_parallel=tensor))

    assert isinstance(found, NoPlan) is not runs
    if isinstance(found, NoPlan):
        assert f"ffn_width {width}" in found.reasons[0]
        assert "multiples of 16" in found.reasons[0]


def test_a_padded_vocabulary_is_told() -> None:
    """Megatron-LM pads to 128 a rank: 32,001 over two ranks are 32,256."""
    found = plan(request(1024, backend="megatron", tensor_parallel=2))

    assert isinstance(found, Plan)
    assert any("32,001 is padded to 32,256" in warning.message for warning in found.warnings)


def test_degrees_that_no_backend_runs_are_refused_by_backend() -> None:
    """Each backend's own reason, in place of a word on the batch."""
    vision = {"model_type": "siglip_vision_model", "hidden_size": 64, "num_hidden_layers": 1}
    vision |= {"num_attention_heads": 4, "intermediate_size": 64, "image_size": 28, "patch_size": 14}
    text = {"model_type": "llama", "hidden_size": 512, "num_attention_heads": 8, "num_hidden_layers": 2}
    keys = {"model_type": "llava", "text_config": text, "vision_config": vision}
    asked = request(1024, tensor_parallel=2).model_copy(update={"model": parse_config(keys, "x")})
    found = plan(asked)

    assert isinstance(found, NoPlan)
    assert found.reasons[0].startswith("deepspeed: ")
    assert found.reasons[1].startswith("fsdp: the written tensor-parallel plan knows")
