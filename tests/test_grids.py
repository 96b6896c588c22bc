"""Grids of experts: which cuts of an expert are legal, which are searched, and that they are told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from shardwise import Cluster, Plan, Request, Training
from shardwise.inputs import InputError
from shardwise.models import Strategy
from shardwise.models.backend import backend
from shardwise.plans import read_strategy
from shardwise.solver import check, plan
from shardwise.solver.axes import cores
from shardwise.solver.grids import left_aside
from shardwise.solver.search import Search
from shardwise.solver.space import rows

EVERY = [1, 2, 4, 8, 16]


def asked(model: str = "mixtral-8x7b", nodes: int = 2, preset: str = "dgx-h100", **choose: Any) -> Request:
    return Request(
        model=model,
        cluster=Cluster.preset(preset, nodes=nodes),
        training=Training(global_batch_size=64, sequence_length=4096),
        choose={"backend": "megatron", **choose},
    )


def grids(request: Request) -> set[tuple[int, int]]:
    return {(core.expert, core.expert_tensor) for core in cores(request, backend("megatron"))}


def test_every_cut_that_lies_evenly_is_offered_to_who_asks() -> None:
    """Of 16 ranks with 8 experts of width 14,336: every pair whose product divides a stage's ranks."""
    every = {(e, et) for e in (1, 2, 4, 8) for et in EVERY if e * et <= 16}
    assert grids(asked(expert_tensor_parallel=EVERY)) == every


def test_a_cut_does_not_depend_on_tensor_parallel() -> None:
    request = asked(tensor_parallel=1, expert_tensor_parallel=4)
    found = rows(request)
    assert len(found) and set(found.tensor_parallel.tolist()) == {1}
    assert set(found.expert_tensor_parallel.tolist()) == {4}


def test_unasked_a_grid_has_as_many_whole_experts_as_can_be_or_none_apart() -> None:
    """Sizes 1 to 8 as whole experts, or cut over a machine; 16 ranks are more than there are experts."""
    whole = {(1, 1), (2, 1), (4, 1), (8, 1), (8, 2)}
    assert grids(asked()) == whole | {(1, 2), (1, 4), (1, 8)}


@pytest.mark.parametrize("rule", ["expert_parallel <= 4", "expert_tensor_parallel >= 2"])
def test_a_rule_on_grids_searches_all_of_them(rule: str) -> None:
    """What is left aside might be all that a rule allows."""
    assert grids(asked(rules=[rule])) == grids(asked(expert_tensor_parallel=EVERY))
    assert left_aside(asked(rules=[rule])) == ""


def test_a_chosen_spread_keeps_every_cut_of_a_machine() -> None:
    assert grids(asked(expert_parallel=2)) == {(2, 1), (2, 2), (2, 4), (2, 8)}


def test_a_dense_model_has_no_grid_and_other_backends_no_cut_of_their_own() -> None:
    assert grids(asked("llama-3.1-8b")) == {(1, 1)} and left_aside(asked("llama-3.1-8b")) == ""
    request = asked(backend="fsdp", expert_tensor_parallel=2)
    assert not list(cores(request, backend("fsdp")))


def test_the_answer_says_what_was_left_aside() -> None:
    answer = plan(asked(nodes=1))
    assert isinstance(answer, Plan)
    assert "expert_tensor_parallel=1,2,4,8 searches all" in answer.proof.statement
    whole = plan(asked(nodes=1, expert_tensor_parallel="1..8"))
    assert isinstance(whole, Plan)
    assert "expert_tensor_parallel" not in whole.proof.statement


def questions() -> Iterator[tuple[Request, Request]]:
    for model, nodes, preset in (
        ("mixtral-8x7b", 2, "dgx-h100"),
        ("mixtral-8x22b", 8, "dgx-a100-80gb"),
        ("mixtral-8x7b", 4, "ws-8x-rtx-4090"),
    ):
        yield asked(model, nodes, preset), asked(model, nodes, preset, expert_tensor_parallel=EVERY)


@pytest.mark.parametrize(("usual", "whole"), list(questions()))
def test_what_is_left_aside_is_not_faster(usual: Request, whole: Request) -> None:
    least, best = Search(usual).run(), Search(whole).run()
    assert least.tally.rows < best.tally.rows
    assert least.best is not None and best.best is not None
    assert least.best.step_ns == best.best.step_ns


def strategy(**choices: Any) -> Strategy:
    request = asked(nodes=1)
    known = {"backend": "megatron", "micro_batch_size": 1, "expert_parallel": 2, **choices}
    return read_strategy(known, request.model, "test", request.training, request.cluster.gpus)


def test_a_cut_fills_the_ranks_of_a_stage() -> None:
    """Two experts apart on 8 cards: 4 ranks each is the most."""
    assert not check(asked(nodes=1), strategy(expert_tensor_parallel=4)).breaches
    with pytest.raises(InputError, match="expert_tensor_parallel 8 does not fill the 8 cards"):
        check(asked(nodes=1), strategy(expert_tensor_parallel=8))


def test_a_cut_divides_an_expert() -> None:
    """Experts of 14,336 columns make no equal columns on 3 cards, and do on 4."""
    request = asked(nodes=3).changed({"training.global_batch_size": 48})
    for cut, wrong in ((3, True), (4, False)):
        known = {"backend": "megatron", "precision": "bf16", "micro_batch_size": 1, "expert_parallel": 2}
        known["expert_tensor_parallel"] = cut
        found = read_strategy(known, request.model, "test", request.training, request.cluster.gpus)
        rules = {breach.rule for breach in check(request, found).breaches}
        assert ("expert_tensor_parallel" in rules) == bool(rules) == wrong


def test_a_backend_without_a_grid_cuts_experts_as_the_rest() -> None:
    request = asked(backend="fsdp", nodes=1)
    known = {"backend": "fsdp", "expert_tensor_parallel": 2, "micro_batch_size": 1}
    cut = read_strategy(known, request.model, "test", request.training, request.cluster.gpus)
    assert "expert_tensor_parallel" in {breach.rule for breach in check(request, cut).breaches}
