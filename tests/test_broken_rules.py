"""Contradictions among choices: a search and a check of a strategy say why in the same sentences."""

from __future__ import annotations

from typing import Any

import pytest

from shardwise import Cluster, InputError, NoPlan, Request, Training, plan
from shardwise.plans import Choose, read_strategy
from shardwise.solver.legal import breaches
from shardwise.solver.planner import check

BROKEN: dict[str, tuple[str, dict[str, Any]]] = {
    "gathers of DeepSpeed": ("llama-3.1-8b", {"backend": "deepspeed", "overlap_parameter_gather": True}),
    "stages of Megatron": ("llama-3.1-8b", {"backend": "megatron", "zero_stage": 3}),
    "tensor overlap on one rank": (
        "llama-3.1-8b", {"backend": "megatron", "tensor_parallel": 1, "overlap_tensor_parallel": True},
    ),
    "an expert's columns of a dense model": (
        "llama-3.1-8b", {"backend": "megatron", "expert_tensor_parallel": 2},
    ),
    "experts of a dense model": ("llama-3.1-8b", {"backend": "megatron", "expert_parallel": 2}),
    "uneven columns": ("mixtral-8x7b", {"backend": "megatron", "expert_tensor_parallel": 3}),
    "a second copy": ("llama-3.1-8b", {"backend": "fsdp", "secondary_shard_group_size": 8}),
}  # fmt: skip


def request(model: str, **choose: Any) -> Request:
    """A job on 16 cards."""
    return Request(
        model=model,
        cluster=Cluster.preset("dgx-h100", nodes=2),
        training=Training(global_batch_size=128, sequence_length=4096),
        choose=Choose.model_validate(choose),
    )


@pytest.mark.parametrize("name", BROKEN)
def test_a_search_and_a_check_give_the_same_reason(name: str) -> None:
    """What no backend runs is no bare list of fields: each reason is one that `check` has."""
    model, chosen = BROKEN[name]
    asked = request(model, **chosen)
    answer = plan(asked)
    assert isinstance(answer, NoPlan)

    strategy = read_strategy(chosen, asked.model, "s.json", asked.training, 16)
    known = [breach.reason for breach in breaches(request(model), strategy)]
    told = answer.reasons[:-1]
    assert told and all(any(reason in sentence for reason in known) for sentence in told)
    assert answer.reasons[-1].endswith("no layout is left")


def test_a_batch_that_does_not_divide_is_told_as_check_tells_it() -> None:
    """What a strategy of the chosen values is refused for is told too."""
    answer = plan(request("llama-3.1-8b", data_parallel=3))

    assert isinstance(answer, NoPlan)
    told = "data_parallel 3 x micro_batch_size 1 = 3 does not divide training.global_batch_size = 128"
    assert answer.reasons[0] == told


@pytest.mark.parametrize(
    ("model", "columns", "experts", "field", "legal"),
    [
        ("mixtral-8x7b", 3, 1, "expert_tensor_parallel", ["2", "4", "1"]),
        ("mixtral-8x7b", 1, 3, "expert_parallel", ["2", "4", "1"]),
        ("mixtral-8x7b", 3, 8, "expert_tensor_parallel", ["2", "1"]),
        ("mixtral-8x7b", 4, 8, "expert_parallel", ["4", "2", "1"]),
        ("llama-3.1-8b", 3, 1, "expert_tensor_parallel", ["1"]),
    ],
)
def test_the_degree_that_does_not_fit_is_to_blame(
    model: str, columns: int, experts: int, field: str, legal: list[str]
) -> None:
    """Of the two degrees of experts the one that was set wrongly, with what would fit, nearest first."""
    asked = request(model)
    degrees = {"expert_tensor_parallel": columns, "expert_parallel": experts}
    strategy = read_strategy({"backend": "megatron", **degrees}, asked.model, "s.json", asked.training, 16)
    with pytest.raises(InputError) as caught:
        check(asked, strategy)
    assert (caught.value.field, caught.value.legal) == (f"strategy.{field}", legal)
