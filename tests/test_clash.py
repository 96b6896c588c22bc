"""Why nothing fits: conflicts of which every member is needed, and cures that hold what they promise."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from infeasible import INFEASIBLE

from shardwise import Cluster, NoPlan, Request, Training, plan
from shardwise.plans.choose import Choose
from shardwise.plans.report import seconds
from shardwise.plans.settings import parsed, settings_in
from shardwise.solver.clash import any_plan
from shardwise.solver.members import members
from shardwise.solver.points import searched

pytestmark = pytest.mark.slow


def changes(setting: str) -> dict[str, Any]:
    """The fields that a cure's ``--set`` changes."""
    return {field: value for field, value, _ in map(parsed, settings_in(setting))}


def test_there_are_sixty() -> None:
    """The list holds what it says, each request once."""
    assert len(INFEASIBLE) >= 60
    assert len({request.inputs_hash() for request in INFEASIBLE.values()}) == len(INFEASIBLE)


@cache
def answered(name: str) -> NoPlan:
    """The answer to one of the requests."""
    answer = plan(INFEASIBLE[name])
    assert isinstance(answer, NoPlan)
    return answer


@pytest.mark.parametrize("name", INFEASIBLE)
def test_every_member_is_needed(name: str) -> None:
    """The conflict alone leaves no plan; without any one member the rest leaves one."""
    request, answer = INFEASIBLE[name], answered(name)
    everything = members(request)
    others = [member for member in everything if member not in answer.conflict]

    assert answer.conflict
    assert not any_plan(request, others), "the conflict alone leaves a plan"
    for member in answer.conflict:
        assert any_plan(request, [*others, member]), f"{member.limit} is not needed"


@pytest.mark.parametrize("name", INFEASIBLE)
def test_every_cure_cures(name: str) -> None:
    """Each cure, set on the request, gives a plan with the step it promised; no new cards come first."""
    request, answer = INFEASIBLE[name], answered(name)

    assert answer.cures
    for cure in answer.cures:
        outcome = searched(request.changed(changes(cure.set)))
        assert outcome.best is not None, cure.set
        assert seconds(outcome.best.step_ns) == cure.resulting_step_seconds, cure.set
    cards = [cure.new_gpus for cure in answer.cures]
    assert cards == sorted(cards)


@pytest.mark.parametrize("name", INFEASIBLE)
def test_numbers_and_origins_are_told(name: str) -> None:
    """Every member has a value and an origin, and the sentences name each member's origin."""
    answer = answered(name)
    told = " ".join(answer.reasons)

    assert all(member.value and member.origin for member in answer.conflict)
    assert all(f"({member.origin})" in told for member in answer.conflict)


def test_the_nearest_degree_is_offered() -> None:
    """Of a degree that divides no heads the nearest that works is a cure, beside the best when left free."""
    request = Request(
        model="llama-30b",
        cluster=Cluster.preset("dgx-a100-80gb", nodes=4),
        training=Training(global_batch_size=256, sequence_length=2048),
        choose=Choose(tensor_parallel=(8,)),
    )
    answer = plan(request)

    assert isinstance(answer, NoPlan)
    assert "choose.tensor_parallel=4" in {cure.set for cure in answer.cures}
    assert len({cure.set for cure in answer.cures}) == len(answer.cures)


def test_a_backend_that_knows_no_such_layers_is_named() -> None:
    """Where no backend cuts the tensors of a model, each says why."""
    request = Request(
        model="llama-3.2-11b-vision",
        cluster=Cluster.preset("dgx-h100", nodes=1),
        training=Training(global_batch_size=64, sequence_length=2048),
        choose=Choose(tensor_parallel=(2,)),
    )
    answer = plan(request)

    assert isinstance(answer, NoPlan)
    for name in ("deepspeed", "fsdp", "megatron"):
        assert any(reason.startswith(name) for reason in answer.reasons)
