"""Strategies as people write them, completed."""

from __future__ import annotations

from typing import Any

import pytest

from shardwise.inputs import InputError
from shardwise.models import Training, Transformer
from shardwise.models.backend import backend
from shardwise.plans import Choose, read_strategy
from shardwise.plans.saved import answer_of

MODEL = Transformer.preset("llama-3.1-8b")
JOB = Training(global_batch_size=64, sequence_length=4096)


def test_a_backend_is_enough() -> None:
    """What is missing comes from the backend, the model and the job."""
    strategy = read_strategy({"backend": "deepspeed", "data_parallel": 8}, MODEL, "s.json", JOB)
    assert strategy.software_stack == backend("deepspeed").default_stack
    assert strategy.gradient_accumulation_steps == 8
    assert [stage.layers for stage in strategy.stages] == [32]
    assert strategy.recompute == "none"


@pytest.mark.parametrize("word", ["none", "selective", "full"])
def test_the_word_recompute_holds_for_every_layer(word: str) -> None:
    """Without stages, recompute is a word for all layers."""
    data = {"backend": "megatron", "pipeline_parallel": 4, "recompute": word, "offload_optimizer": "cpu"}
    strategy = read_strategy(data, MODEL, "s.json")
    assert strategy.recompute == word
    assert all(stage.layers == stage.offloaded_layers == 8 for stage in strategy.stages)
    assert {stage.recompute_full_layers for stage in strategy.stages} == {8 if word == "full" else 0}


def test_layers_that_do_not_divide_go_first() -> None:
    """32 layers on 3 stages are 11, 11, 10."""
    strategy = read_strategy({"backend": "megatron", "pipeline_parallel": 3}, MODEL, "s.json")
    assert [stage.layers for stage in strategy.stages] == [11, 11, 10]


def test_sharded_states_default_to_one_group() -> None:
    """Under ZeRO the states are divided over all data-parallel cards unless said otherwise."""
    data: dict[str, Any] = {"backend": "deepspeed", "data_parallel": 8, "zero_stage": 3}
    assert read_strategy(data, MODEL, "s.json").shard_group_size == 8
    assert read_strategy(data, MODEL, "s.json").reshard_after_forward is True
    assert read_strategy(data | {"zero_stage": 0}, MODEL, "s.json").shard_group_size == 1


def test_an_answer_reads_back() -> None:
    """The strategy of an answer, derived words and all, is the strategy."""
    data = {"backend": "fsdp", "data_parallel": 8, "recompute": "full"}
    strategy = read_strategy(data, MODEL, "s.json", JOB)
    written = answer_of(strategy)

    assert (written["recompute"], written["pipeline_schedule"]) == ("full", "none")
    assert read_strategy(written, MODEL, "s.json") == strategy


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({}, "strategy.backend"),
        ({"backend": "jax"}, "strategy.backend"),
        ({"backend": 3}, "strategy.backend"),
        ({"backend": "fsdp", "tensor_parallel": 0}, "strategy.tensor_parallel"),
        ({"backend": "fsdp", "tensor_parallel": "two"}, "strategy.tensor_parallel"),
        ({"backend": "fsdp", "tensor_paralel": 2}, "strategy.tensor_paralel"),
        ({"backend": "fsdp", "recompute": "some"}, "strategy.recompute"),
        ({"backend": "fsdp", "precision": ["bf16"]}, "strategy.precision"),
        ({"backend": "fsdp", "zero_stage": 4}, "strategy.zero_stage"),
        ({"backend": "fsdp", "offload_optimizer": "disk"}, "strategy.offload_optimizer"),
        ({"backend": "fsdp", "stages": [{"layers": 31}]}, "strategy.stages"),
        ({"backend": "fsdp", "stages": []}, "strategy.stages"),
        (
            {"backend": "megatron", "pipeline_parallel": 2, "pipeline_schedule": "zb-v"},
            "strategy.pipeline_schedule",
        ),
        (
            {
                "backend": "megatron",
                "context_parallel": 4,
                "context_parallel_kind": "ulysses+ring",
                "ulysses_group_size": 3,
            },
            "strategy.context_parallel_kind",
        ),
        ({"backend": "fsdp", "stages": 3}, "strategy.stages"),
        ({"backend": "fsdp", "stages": [{"layers": -1}]}, "strategy.stages.0.layers"),
        ({"backend": "fsdp", "stages": [{"layers": 32}], "recompute": "full"}, "strategy.recompute"),
        ({"backend": "megatron", "pipeline_parallel": 64}, "strategy.pipeline_parallel"),
        ({"backend": "fsdp", "data_parallel": 7}, "strategy.data_parallel"),
        ({"backend": "fsdp", "micro_batch_size": 10**30}, "strategy.micro_batch_size"),
        ({"backend": "megatron", "sequence_parallel": "yes"}, "strategy.sequence_parallel"),
        ({"backend": "megatron", "sequence_parallel": 1}, "strategy.sequence_parallel"),
        ({"backend": "fsdp", "reshard_after_forward": 0.0}, "strategy.reshard_after_forward"),
        ({"backend": "fsdp", "tensor_parallel": True}, "strategy.tensor_parallel"),
        ({"backend": "fsdp", "zero_stage": "3"}, "strategy.zero_stage"),
        ({"backend": "fsdp", "micro_batch_size": 1.0}, "strategy.micro_batch_size"),
        ({"backend": "fsdp", "stages": [{"layers": True}]}, "strategy.stages.0.layers"),
        ({"backend": "fsdp", "overlap": {"zero3_gather": "banana"}}, "strategy.overlap.zero3_gather"),
        ({"backend": "fsdp", "overlap": {"zero3_gather": False}}, "strategy.overlap.zero3_gather"),
        ({"backend": "fsdp", "overlap": {"gradient_reduce": 0}}, "strategy.overlap.gradient_reduce"),
    ],
)
def test_bad_strategies_are_refused(data: dict[str, Any], field: str) -> None:
    """Each refusal names the field and the file."""
    with pytest.raises(InputError) as caught:
        read_strategy(data, MODEL, "s.json", JOB)
    assert (caught.value.field, caught.value.origin) == (field, "s.json")


def test_null_is_a_word_left_out() -> None:
    """As other programs write what they do not say."""
    assert read_strategy({"backend": "fsdp", "recompute": None}, MODEL, "s.json").recompute == "none"


def test_an_error_names_the_line_where_it_is_known() -> None:
    """The place of a field wins over that of the file."""
    places = {"strategy": "s.json", "strategy.zero_stage": "s.json:7"}
    with pytest.raises(InputError) as caught:
        read_strategy({"backend": "fsdp", "zero_stage": "3"}, MODEL, "s.json", JOB, None, places)
    assert caught.value.origin == "s.json:7" and caught.value.reason == "must be a whole number, not text"


def test_what_a_request_leaves_one_value_fills_blanks() -> None:
    """A knob with one value stands where the strategy is silent; what the strategy says stands."""
    asked = {"precision": "fp8", "tensor_parallel": 2, "micro_batch_size": [1, 2], "recompute": "full"}
    choose = Choose.model_validate(asked)
    strategy = read_strategy({"backend": "megatron"}, MODEL, "s.json", JOB, 8, choose=choose)
    own = read_strategy({"backend": "megatron", "precision": "bf16"}, MODEL, "s.json", JOB, 8, choose=choose)

    assert (strategy.precision, strategy.tensor_parallel, strategy.recompute) == ("fp8", 2, "full")
    assert (strategy.data_parallel, strategy.micro_batch_size) == (4, 1)
    assert own.precision == "bf16"


def test_degrees_that_do_not_divide_the_cards_are_named() -> None:
    """The axis to blame, the cards, and degrees that do; no word of a batch that follows from them."""
    with pytest.raises(InputError) as caught:
        read_strategy({"backend": "megatron", "tensor_parallel": 3}, MODEL, "s.json", JOB, 16)

    assert caught.value.field == "strategy.tensor_parallel"
    assert "does not divide the 16 cards" in str(caught.value)
    assert set(caught.value.legal) == {"1", "2", "4", "8", "16"}
