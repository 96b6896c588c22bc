"""Limits on what stages do, against the exhaustive search: shown communication, traffic of uplinks."""

from __future__ import annotations

from typing import Any

import pytest
from oracle.brute import brutes, faults
from oracle.requests import request

from shardwise.costs import Ledger
from shardwise.hardware import Cluster
from shardwise.inputs import InputError
from shardwise.models import Training
from shardwise.plans import NoPlan, Plan, Request
from shardwise.plans.report import price
from shardwise.solver import check, plan
from shardwise.solver.search import Search

pytestmark = pytest.mark.slow

SEEDS = {
    "max_comm_fraction": (*range(3000, 3030), *range(3073, 3673, 60)),
    "max_uplink_bytes_per_step": (*range(3000, 3060), *range(3073, 3673, 30)),
}
"""Of every theme in turn, once or twice as fewer optima send much; then of interleaved chunks alone."""
SHARES = 10_000


def limited(asked: Request, **limits: Any) -> Request:
    """The request with other limits."""
    return asked.changed({f"limits.{name}": value for name, value in limits.items()})


def best_of(asked: Request) -> Ledger | None:
    """The ledger of the optimum."""
    best = Search(asked).run().best
    return price(asked, [best.strategy])[0] if best else None


def share(ledger: Ledger) -> int:
    """Shown communication in ten-thousandths of the step, rounded up."""
    return -(-SHARES * ledger.comm_ns // ledger.step_ns)


def tightened(asked: Request, ledger: Ledger, what: str) -> list[Request]:
    """The request with limits its optimum just keeps, just breaks, and breaks by far."""
    if what == "max_comm_fraction":
        units = share(ledger)
        shares = (n for n in (units, units - 1, units // 2) if n >= 0)
        return [limited(asked, max_comm_fraction=n / SHARES) for n in shares]
    sent = ledger.uplink_bytes
    return [limited(asked, max_uplink_bytes_per_step=n) for n in (sent, sent - 1, sent // 2) if n > 0]


@pytest.mark.parametrize("what", ["max_comm_fraction", "max_uplink_bytes_per_step"])
def test_the_search_equals_an_exhaustive_one(what: str) -> None:
    """Same step or no plan; the plan keeps the limit; some limits move the optimum, some leave none.

    Some plans that keep one have several chunks a stage.
    """
    moved = lost = chunked = 0
    for seed in SEEDS[what]:
        asked = request(seed)
        ledger = best_of(asked)
        if ledger is None:
            continue
        limits = tightened(asked, ledger, what)
        for one, answer in zip(limits, brutes(limits), strict=True):
            outcome = Search(one).run()
            found = outcome.best
            assert (found.step_ns if found else None) == answer.step_ns, (seed, one.limits)
            assert outcome.proved and outcome.tally.rows - outcome.tally.rule == len(answer.rows)
            assert sum(outcome.tally.excluded().values()) + (found is not None) == outcome.tally.rows
            if found is not None:
                assert faults(one, found.strategy, found.step_ns) == []
                moved += found.step_ns > ledger.step_ns
                chunked += found.strategy.virtual_pipeline > 1
            lost += found is None
    assert moved >= 5 and lost >= 3 and chunked >= 3


def asked_of(nodes: int, backend: str, **limits: Any) -> Request:
    """An 8B model over some nodes."""
    return Request(
        model="llama-3.1-8b",
        cluster=Cluster.preset("dgx-h100", nodes=nodes),
        training=Training(global_batch_size=256, sequence_length=4096),
        choose={"backend": backend},
        limits=limits,
    )


@pytest.mark.parametrize(
    ("what", "backend"), [("max_comm_fraction", "fsdp"), ("max_uplink_bytes_per_step", "megatron")]
)
def test_a_tighter_limit_is_kept_and_costs_time(what: str, backend: str) -> None:
    """Four fifths of what the free plan shows or sends: kept, told, and slower."""
    free = plan(asked_of(4, backend))
    assert isinstance(free, Plan)
    less = {
        "max_comm_fraction": round(free.time.comm_fraction * 0.8, 4),
        "max_uplink_bytes_per_step": int(free.uplink_bytes_per_step * 0.8),
    }
    answer = plan(asked_of(4, backend, **{what: less[what]}))
    assert isinstance(answer, Plan) and answer.status == "optimal"
    assert answer.time.step_seconds > free.time.step_seconds
    kept = {"max_comm_fraction": answer.time.comm_fraction}
    kept["max_uplink_bytes_per_step"] = answer.uplink_bytes_per_step
    assert 0 < kept[what] <= less[what]
    told = check(asked_of(4, backend, **{what: less[what]}), free.strategy).breaches
    assert [breach.rule for breach in told] == [f"limits.{what}"]


@pytest.mark.parametrize("part", [0.8, 0.65])
def test_communication_that_shows_is_bounded(part: float) -> None:
    """Even plans that keep a part of the free share lower the limit, floors of what shows leave few rows."""
    free = plan(asked_of(4, "megatron"))
    assert isinstance(free, Plan)
    share = round(free.time.comm_fraction * part, 4)
    outcome = Search(asked_of(4, "megatron", max_comm_fraction=share)).run()

    assert outcome.proved and outcome.best is not None
    assert outcome.tally.leaves <= 15 and outcome.tally.deterministic_time < 0.6


def test_no_traffic_at_all_leaves_no_plan() -> None:
    """Machines that may not talk: the limit is in the clash, and a cure lets them."""
    answer = plan(asked_of(2, "fsdp", max_uplink_bytes_per_step=1))
    assert isinstance(answer, NoPlan)
    assert "limits.max_uplink_bytes_per_step" in {member.limit for member in answer.conflict}
    assert any(cure.set.startswith("limits.max_uplink_bytes_per_step=") for cure in answer.cures)


@pytest.mark.parametrize("limit", [{"max_comm_fraction": 1.5}, {"max_uplink_bytes_per_step": "a lot"}])
def test_what_is_no_limit(limit: dict[str, Any]) -> None:
    """Told with the field."""
    with pytest.raises(InputError, match=next(iter(limit))):
        limited(asked_of(1, "fsdp"), **limit)
