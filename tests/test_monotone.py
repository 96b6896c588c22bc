"""More of anything never hurts: memory of cards and hosts, bandwidth, cards that may be left idle."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from oracle.requests import request

from shardwise.hardware import Cluster
from shardwise.models import Training
from shardwise.plans import Plan, Request
from shardwise.solver import Planner, plan
from shardwise.solver.search import Search

NEVER = 2**62
"""Nanoseconds of a request that has no plan."""

SEEDS = range(30)
"""Of every theme one."""
HOSTED = (104, 121, 128)
"""Of the few whose optimum offloads to hosts that are full, beside two of the first."""
TIMES = (1, 2, 4)
"""How often the amount of the first request."""


def steps(asked: list[Request]) -> list[int]:
    """The optimum of each request, ns."""
    found = [Search(one).run().best for one in asked]
    return [NEVER if best is None else best.step_ns for best in found]


def with_node(asked: Request, **fields: Any) -> Request:
    """The request on machines with some fields changed."""
    cluster = asked.cluster.model_copy(update={"node": asked.cluster.node.model_copy(update=fields)})
    return asked.model_copy(update={"cluster": cluster})


def more(asked: Request, what: str) -> list[Request]:
    """The request with more and more of one thing."""
    node = asked.cluster.node
    if what == "share of card memory":
        margins = [{"memory_margin": margin} for margin in (0.3, 0.15, 0.0)]
        return [asked.model_copy(update={"limits": asked.limits.model_copy(update=m)}) for m in margins]
    amounts = {
        "host memory": ("host_memory_bytes", node.host_memory_bytes // 4),
        "network": ("nic_bytes_per_s", node.nic_bytes_per_s / 2),
        "island": ("island_bus_bytes_per_s", 50e9),
    }
    field, least = amounts[what]
    return [with_node(asked, **{field: least * times}) for times in TIMES]


@pytest.mark.parametrize("what", ["share of card memory", "host memory", "network", "island"])
def test_the_optimum_never_rises(what: str) -> None:
    """On random small requests, infeasible ones among them; and it falls on some."""
    fell = 0
    for seed in (*SEEDS, *HOSTED):
        found = steps(more(request(seed), what))
        assert all(after <= before for before, after in pairwise(found)), (seed, found)
        fell += found[-1] < found[0]
    assert fell >= 3


def asked_of(model: str, nodes: int, **fields: Any) -> Request:
    """A job on some nodes."""
    training = Training(global_batch_size=96, sequence_length=4096)
    return Request(model=model, cluster=Cluster.preset("dgx-h100", nodes=nodes), training=training, **fields)


@pytest.mark.parametrize("model", ["llama-3.1-8b", "mixtral-8x7b"])
def test_more_cards_that_may_stay_idle_never_hurt(model: str) -> None:
    """Tokens a second of at most N cards rise with N, up to what the best count within gives."""
    asked = asked_of(model, 1)
    curve = Planner(asked.cluster).curve(asked, [4, 8, 16, 24, 32], envelope=True)
    rates = {row.gpus: row.tokens_per_second or 0.0 for row in curve.rows}
    best = [rates[row.envelope_gpus] if row.envelope_gpus else 0.0 for row in curve.rows]

    assert best == [max(rate for gpus, rate in rates.items() if gpus <= row.gpus) for row in curve.rows]
    assert best == sorted(best) and best[-1] > best[0]


@pytest.mark.parametrize("model", ["llama-3.1-8b", "mixtral-8x7b"])
def test_a_later_deadline_never_takes_more_cards(model: str) -> None:
    """The fewest cards fall as the deadline moves away, and each meets its own."""
    cards = []
    for deadline in (2.0, 4.0, 8.0, 16.0):
        limits, objective = {"max_step_seconds": deadline}, {"minimize": "gpus"}
        answer = plan(asked_of(model, 8, limits=limits, objective=objective))
        assert isinstance(answer, Plan) and answer.time.step_seconds <= deadline
        cards.append(answer.request.cluster.gpus)
    assert cards == sorted(cards, reverse=True) and cards[-1] < cards[0]
