"""What stands beside a plan is searched for when it is looked at, and is the same then."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest

from shardwise import Cluster, Plan, Request, Training
from shardwise.inputs.later import Later
from shardwise.plans import as_json
from shardwise.plans.saved import plan_from
from shardwise.solver import answering, plan

SMALL = Request(
    model="qwen2.5-0.5b",
    cluster=Cluster.preset("dgx-h100"),
    training=Training(global_batch_size=64, sequence_length=2048),
)


def made_plan() -> Plan:
    """A plan of a small request."""
    found = plan(SMALL)
    assert isinstance(found, Plan)
    return found


def test_values_are_made_once_and_only_when_looked_at() -> None:
    made: list[int] = []

    def make() -> tuple[int, ...]:
        made.append(1)
        return (3, 4)

    values = Later(make)
    assert not made

    assert values == (3, 4) and values != (3,) and values == (3, 4)
    assert [*values, values[0], len(values)] == [3, 4, 3, 2]
    assert values + (5,) == (3, 4, 5) and (2,) + values == (2, 3, 4)  # noqa: RUF005
    assert hash(values) == hash((3, 4)) and repr(values) == "(3, 4)"
    assert isinstance(copy.deepcopy(values), tuple) and pickle.loads(pickle.dumps(values)) == (3, 4)
    assert made == [1]


def test_who_asks_for_the_plan_alone_does_not_wait_for_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def noted(name: str) -> Callable[..., tuple[()]]:
        def make(*_: object) -> tuple[()]:
            asked.append(name)
            return ()

        return make

    for name in ("alternatives", "offers", "ladder"):
        monkeypatch.setattr(answering, name, noted(name))
    found = made_plan()
    assert found.time.step_seconds > 0 and not asked

    assert found.alternatives == () and asked == ["alternatives"]
    assert found.whole().offers == () and asked == ["alternatives", "offers", "ladder"]


def test_a_plan_writes_equals_and_travels_as_one_with_everything() -> None:
    lazy, whole = made_plan(), made_plan().whole()

    assert type(whole.alternatives) is tuple and whole.alternatives and whole.ladder
    assert as_json(lazy) == as_json(whole)
    assert lazy == whole and hash(lazy.alternatives) == hash(whole.alternatives)
    assert pickle.loads(pickle.dumps(made_plan())) == whole
    assert Plan.model_validate(made_plan().model_dump()) == whole
    assert plan_from(lazy.model_dump(mode="json", by_alias=True), "here") == whole
