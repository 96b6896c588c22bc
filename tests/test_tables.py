"""A planner keeps what it has found; its answers are those of `plan`, whoever asks in between."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from shardwise.hardware import Cluster
from shardwise.models import Training
from shardwise.plans import Plan, Request
from shardwise.solver import Planner, plan
from shardwise.solver.search import Search
from shardwise.solver.tables import Tables

CLUSTER = Cluster.preset("dgx-h100", nodes=2)


def asked(batch: int = 128, **limits: Any) -> Request:
    """An 8B model on two nodes."""
    training = Training(global_batch_size=batch, sequence_length=8192)
    return Request(model="llama-3.1-8b", cluster=CLUSTER, training=training, limits=limits)


def found(answer: object) -> str:
    """An answer in full."""
    assert isinstance(answer, Plan)
    return answer.model_dump_json()


@pytest.mark.parametrize(
    "limits",
    [{"memory_margin": 0.3}, {"memory_margin": 0.0}, {"tensor_parallel_within": "island"}],
    ids=["less memory", "more memory", "reach"],
)
def test_a_changed_limit_is_answered_as_if_asked_alone(limits: dict[str, Any]) -> None:
    """Byte by byte, certificate and all."""
    planner = Planner(CLUSTER)
    planner.plan(asked())

    assert found(planner.plan(asked(**limits))) == found(plan(asked(**limits)))


def test_warm_tables_do_not_price_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same question a second time lists no shapes and bounds none."""
    tables = Tables()
    first = Search(asked(), tables=tables).run()

    def never(*_: object) -> None:
        raise AssertionError("made again")

    for name in ("space", "shape_bounds", "priced"):
        monkeypatch.setattr(f"shardwise.solver.tables.{name}", never)
    again = Search(asked(), tables=tables).run()
    assert first.best is not None and again.best == first.best


def test_tables_are_bounded() -> None:
    """The oldest go first."""
    tables = Tables(most=3)
    for batch in (32, 64, 128):
        Search(asked(batch), tables=tables).run()

    assert len(tables._kept) == 3


def test_threads_share_a_planner() -> None:
    """Eight questions at once, two kinds: each as if asked alone."""
    planner = Planner(CLUSTER)
    margins = [0.08, 0.2] * 4
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda margin: found(planner.plan(asked(memory_margin=margin))), margins))

    assert len(set(answers)) == 2
    assert answers[0] == found(plan(asked(memory_margin=0.08)))


def test_a_check_searches_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The best that a check is held against is kept with the planner, also from a plan asked before."""
    planner = Planner(CLUSTER)
    first = planner.plan(asked())
    assert isinstance(first, Plan)

    def never(*_: object) -> None:
        raise AssertionError("searched again")

    monkeypatch.setattr(Search, "run", never)
    checked, again = planner.check(asked(), first.strategy), planner.plan(asked())

    assert checked.best is not None and checked.best.strategy == first.strategy
    assert checked.loss_percent == 0.0
    assert isinstance(again, Plan) and again.strategy == first.strategy
