"""A price as a limit and cards as an objective, against the exhaustive search."""

from __future__ import annotations

from typing import Any

import pytest
from oracle.brute import brute
from oracle.requests import request
from oracle.ways import trained

import shardwise
from shardwise.hardware import Cluster
from shardwise.inputs import InputError
from shardwise.models import Training
from shardwise.plans import NoPlan, OutOfTime, Plan, Request
from shardwise.solver.fewest import fewest, least_cards, sizes
from shardwise.solver.search import Search
from shardwise.solver.tables import Tables

pytestmark = pytest.mark.slow

SEEDS = range(2000, 2014)
HOURLY = 24.0


def priced(seed: int, **limits: Any) -> Request:
    """The request of a seed on machines of 24 dollars an hour."""
    asked = request(seed).changed({"cluster.node.usd_per_hour": HOURLY})
    return asked.changed({f"limits.{name}": value for name, value in limits.items()})


def small(nodes: int = 4, **rest: Any) -> Request:
    """An 8B model on up to four nodes of H100 that have a price."""
    return Request(
        model="llama-3.1-8b",
        cluster=Cluster.preset("p5.48xlarge", nodes=nodes),
        training=Training(global_batch_size=64, sequence_length=4096),
        **rest,
    )


def test_a_price_only_refuses() -> None:
    """At the cluster's price the optimum is as without a limit, below it there is nothing."""
    found = 0
    for seed in SEEDS:
        hourly = priced(seed).cluster.usd_per_hour
        assert hourly is not None
        for price, holds in ((hourly, True), (hourly - 1e-6, False)):
            asked = priced(seed, max_usd_per_hour=price)
            least = brute(asked).step_ns
            best = Search(asked).run().best
            assert (best.step_ns if best else None) == least
            assert least == (brute(priced(seed)).step_ns if holds else None)
            found += least is not None
    assert found >= 10


def test_fewest_cards_is_the_least_number_with_a_plan() -> None:
    """Number by number against the exhaustive search, with deadlines missed, just met and easily met."""
    chosen = set()
    for seed in SEEDS:
        asked = priced(seed)
        cards = asked.cluster.gpus
        own = brute(asked).step_ns
        if own is None:
            continue
        for step in (own - 1, own, 4 * own):
            limit = {"limits.max_step_seconds": (step + 0.5) / 1e9}
            dated = asked.changed({**limit, "objective.minimize": "gpus"})
            sized, outcome = fewest(dated, None, Tables())
            want = next(filter(None, (exhaustive(dated, count) for count in range(1, cards + 1))), None)
            assert outcome.proved
            got = (sized.cluster.gpus, outcome.best.step_ns) if outcome.best else None
            assert got == want, seed
            assert sum(outcome.tally.excluded().values()) + (got is not None) == outcome.tally.rows
            chosen.add(None if got is None else got[0] == cards)
    assert chosen == {None, True, False}


def needed(asked: Request) -> tuple[int, int] | None:
    """(cards without which none is looked at for the request's own best step, its cards)."""
    best = Search(asked).run().best
    if best is None:
        return None
    step = {"max_step_seconds": best.step_ns / 1e9}
    dated = asked.model_copy(update={"limits": asked.limits.model_copy(update=step)})
    return least_cards(dated), asked.cluster.gpus


def test_cards_that_are_skipped_have_no_plan() -> None:
    """Where a plan takes a step of t on n cards, no more than n are called needed for t; many are skipped."""
    found = [needed(made(seed)) for made in (request, trained) for seed in range(60)]
    found += [needed(small(nodes)) for nodes in (1, 2, 4)]

    assert all(one is None or one[0] <= one[1] for one in found)
    assert all(one is not None and one[0] > one[1] / 4 for one in found[-3:])


def test_a_deadline_no_machine_meets_is_told_at_once() -> None:
    """A tenth of a second of a 70B model on up to 256 nodes: one number of cards is looked at."""
    asked = small(256, objective={"minimize": "gpus"}, limits={"max_step_seconds": 0.1})
    asked = asked.changed({"model": "llama-3.1-70b", "training.global_batch_size": 2048})
    looked_at = [one.cluster.gpus for one in sizes(asked)]
    assert least_cards(asked) > 8 * 256 and looked_at == [8 * 256]


def exhaustive(asked: Request, cards: int) -> tuple[int, int] | None:
    """(cards, least step) where the exhaustive search finds a plan on so many."""
    try:
        step = brute(asked.changed({"cluster.gpus": cards})).step_ns
    except InputError:
        return None
    return None if step is None else (cards, step)


def test_fewest_cards_of_a_deadline() -> None:
    """The step of two nodes as the deadline takes two nodes; a nanosecond less takes more."""
    two = shardwise.plan(small(2))
    assert isinstance(two, Plan)
    step = two.time.step_seconds
    just = shardwise.plan(small(objective={"minimize": "gpus"}, limits={"max_step_seconds": step + 1e-10}))
    less = shardwise.plan(small(objective={"minimize": "gpus"}, limits={"max_step_seconds": step - 1e-9}))

    assert isinstance(just, Plan) and isinstance(less, Plan)
    assert (just.request.cluster.gpus, just.strategy) == (16, two.strategy)
    assert less.request.cluster.gpus == 24 and less.status == "optimal"
    assert "no smaller number of cards" in just.proof.statement
    again = shardwise.plan(just.request)
    assert isinstance(again, Plan) and again.strategy == just.strategy


def test_what_cannot_be_paid_is_a_conflict() -> None:
    """The clash names the price; each cure makes a plan."""
    hourly = small().cluster.usd_per_hour
    assert hourly is not None
    asked = small(limits={"max_usd_per_hour": hourly - 1.0})
    answer = shardwise.plan(asked)

    assert isinstance(answer, NoPlan)
    assert {member.limit for member in answer.conflict} == {"limits.max_usd_per_hour", "cluster.gpus"}
    assert any("dollars an hour" in reason for reason in answer.reasons)
    assert {cure.set.partition("=")[0] for cure in answer.cures} >= {
        "cluster.nodes",
        "limits.max_usd_per_hour",
    }
    for cure in answer.cures:
        field, _, value = cure.set.partition("=")
        number = float(value) if field == "limits.max_usd_per_hour" else int(value)
        assert isinstance(shardwise.plan(asked.changed({field: number})), Plan)


def test_fewest_cards_keep_to_the_price() -> None:
    """Cards that cost too much are not taken: a deadline that needs them has no plan."""
    two = shardwise.plan(small(2))
    assert isinstance(two, Plan) and two.cost.usd_per_hour is not None
    limits = {"max_step_seconds": two.time.step_seconds - 1e-9, "max_usd_per_hour": two.cost.usd_per_hour}
    answer = shardwise.plan(small(objective={"minimize": "gpus"}, limits=limits))

    assert isinstance(answer, NoPlan)
    assert "limits.max_step_seconds" in {member.limit for member in answer.conflict}


def test_fewest_cards_out_of_time() -> None:
    """Without time nothing is said to be the least."""
    assert isinstance(shardwise.plan(small(objective={"minimize": "gpus"}), time_limit=1e-9), OutOfTime)


def test_a_price_nobody_knows_is_refused() -> None:
    """Machines without a list price cannot keep a limit on it."""
    node = small().cluster.node.model_copy(update={"usd_per_hour": None})
    asked = small().model_copy(update={"cluster": small().cluster.model_copy(update={"node": node})})
    with pytest.raises(InputError, match="price"):
        asked.changed({"limits.max_usd_per_hour": 100.0})
