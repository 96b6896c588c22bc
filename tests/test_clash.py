"""Why nothing fits: conflicts of which every member is needed, and cures that hold what they promise."""

from __future__ import annotations

from typing import Any

import pytest
from infeasible import INFEASIBLE

from shardwise import NoPlan, Plan, plan
from shardwise.plans.settings import parsed, settings_in
from shardwise.solver.clash import any_plan
from shardwise.solver.members import members

pytestmark = pytest.mark.slow


def changes(setting: str) -> dict[str, Any]:
    """The fields that a cure's ``--set`` changes."""
    return {field: value for field, value, _ in map(parsed, settings_in(setting))}


def test_there_are_sixty() -> None:
    """The list holds what it says, each request once."""
    assert len(INFEASIBLE) >= 60
    assert len({request.inputs_hash() for request in INFEASIBLE.values()}) == len(INFEASIBLE)


@pytest.mark.parametrize("name", INFEASIBLE)
def test_every_member_is_needed_and_every_cure_cures(name: str) -> None:
    """Without any one member the rest leaves a plan, all together none; each cure gives its step time."""
    request = INFEASIBLE[name]
    answer = plan(request)
    assert isinstance(answer, NoPlan)
    assert answer.reasons and answer.conflict

    everything = members(request)
    others = [member for member in everything if member not in answer.conflict]
    assert not any_plan(request, others), "the conflict alone leaves a plan"
    for member in answer.conflict:
        assert any_plan(request, [*others, member]), f"{member.limit} is not needed"

    assert answer.cures
    for cure in answer.cures:
        mended = plan(request.changed(changes(cure.set)))
        assert isinstance(mended, Plan), cure.set
        assert mended.time.step_seconds == cure.resulting_step_seconds, cure.set
    cards = [cure.new_gpus for cure in answer.cures]
    assert cards == sorted(cards)


@pytest.mark.parametrize("name", INFEASIBLE)
def test_numbers_and_origins_are_told(name: str) -> None:
    """Every member has a value and an origin, and the sentences name each member's origin."""
    answer = plan(INFEASIBLE[name])
    assert isinstance(answer, NoPlan)
    told = " ".join(answer.reasons)
    assert all(member.value and member.origin for member in answer.conflict)
    assert all(f"({member.origin})" in told for member in answer.conflict)
