"""The ledger is written once: patch one term, and everything that tells of it moves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import shardwise
from shardwise.costs import buffers
from shardwise.costs.scheme import side_by_side
from shardwise.hardware import Cluster
from shardwise.launch import emit
from shardwise.models import Strategy, Training
from shardwise.plans import Plan, Request
from shardwise.solver import check

GIB = 2**30


def request(**choose: Any) -> Request:
    """A small DeepSpeed question whose plan keeps buckets (ZeRO-1 or -2)."""
    return Request(
        model="qwen2.5-1.5b",
        cluster=Cluster.preset("dgx-a100-80gb"),
        training=Training(global_batch_size=64, sequence_length=2048),
        choose={"backend": "deepspeed", "zero_stage": [1, 2], **choose},
    )


def told() -> dict[str, Any]:
    """What the side-by-side table, the check, the plan and the launch file say of the bucket."""
    question = request()
    answer = shardwise.plan(question)
    assert isinstance(answer, Plan)
    strategy = Strategy.model_validate(answer.strategy.model_dump())
    judged = check(question, strategy)
    written = json.loads(emit(answer, "deepspeed")["ds_config.json"])
    table = side_by_side(10**10, 8, card_bytes=80 * GIB).schemes[1]
    return {
        "ledger": table.buffer_bytes_per_card,
        "check": judged.memory.stages[0].terms_bytes.get("buckets"),
        "plan": answer.memory.stages[0].terms_bytes.get("buckets"),
        "plan_seconds": answer.time.terms_seconds["data_comm_exposed"],
        "emit": written["zero_optimization"]["reduce_bucket_size"],
    }


@pytest.fixture
def halved(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The bucket law at a tenth of its value, wherever it is read."""
    honest = buffers.bucket_of

    def tenth(card_bytes: int, parameters: Any) -> Any:
        return np.ceil(honest(card_bytes, parameters) / 10)

    monkeypatch.setattr(buffers, "bucket_of", tenth)
    yield


def test_one_patched_term_moves_ledger_check_plan_and_emit(request: pytest.FixtureRequest) -> None:
    """`ledger`, `check`, `plan` (bytes and seconds) and the bucket in ds_config.json read one formula."""
    before = told()
    request.getfixturevalue("halved")
    after = told()

    assert before.keys() == after.keys()
    unmoved = [name for name in before if before[name] == after[name]]
    assert not unmoved
    assert after["ledger"] == pytest.approx(before["ledger"] / 10)
    assert after["emit"] == -(-before["emit"] // 10)


def test_a_patched_state_moves_the_plans_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Halving what a rank holds of sharded states halves them in the table and lowers the priced peak."""
    from shardwise.costs import held

    question = request(zero_stage=[2], micro_batch_size=[1])
    before, table = shardwise.plan(question), side_by_side(10**10, 8, card_bytes=80 * GIB)
    honest = held.divided
    monkeypatch.setattr(held, "divided", lambda n, sharded, ranks: honest(n, sharded, ranks) / 2)
    after, halved = shardwise.plan(question), side_by_side(10**10, 8, card_bytes=80 * GIB)

    assert halved.schemes[3].bytes_per_card == table.schemes[3].bytes_per_card // 2
    assert isinstance(before, Plan) and isinstance(after, Plan)
    for term in ("weights", "optimizer"):
        assert after.memory.terms_bytes[term] == pytest.approx(before.memory.terms_bytes[term] / 2, rel=1e-3)
