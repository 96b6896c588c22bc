"""Rows too large for a card tell of others of the same exchange alone."""

from __future__ import annotations

from collections import Counter

import numpy as np
from oracle.brute import brute
from oracle.requests import exchanging
from oracle.rows import Row

from shardwise.plans import Request
from shardwise.solver.bounds import can_fit
from shardwise.solver.coefficients import Coefficients
from shardwise.solver.hosts import host_can_hold
from shardwise.solver.large import TooLarge
from shardwise.solver.search import Search
from shardwise.solver.space import Space, space

SEEDS = range(12)


class OfAnyExchange(TooLarge):
    """A mutation: what is too large in one exchange is taken to be so in all."""

    def __init__(self, found: Space, kinds: int) -> None:
        super().__init__(found, kinds)
        self.kin = 4 * found.core


def told(asked: Request, kind: type[TooLarge]) -> tuple[int, int]:
    """(rows called too large by all that are, those of them that hold a plan) over every exchange."""
    found = space(asked).spelled()
    every = np.arange(len(found.kind))
    columns, large = found.rows(every), kind(found, len(asked.model.kinds))
    places, costs = large.rows(every), Coefficients(asked, columns)
    tight = np.flatnonzero(~can_fit(costs))
    large.learn(places.take(tight), host_can_hold(costs.take(tight)))
    exact = {least.row: least.step_ns for least in brute(asked).rows}
    known = [Row(**columns.row(row)) for row in np.flatnonzero(large.known(places)).tolist()]
    return len(known), sum(exact.get(row) is not None for row in known)


def test_no_row_of_another_exchange_is_called_too_large() -> None:
    """None that holds a plan; taken over from one exchange to the others, some would be."""
    real, mutated = Counter[str](), Counter[str]()
    for seed in SEEDS:
        for found, kind in ((real, TooLarge), (mutated, OfAnyExchange)):
            number, wrong = told(exchanging(seed), kind)
            found.update(told=number, wrong=wrong)
    assert real["told"] >= 200 and real["wrong"] == 0
    assert mutated["wrong"] >= 1


def test_the_search_over_several_exchanges_equals_an_exhaustive_one() -> None:
    """On cards that bind: the same step, or nothing fits in both; more than one kind is optimal somewhere."""
    optimal = set()
    for seed in SEEDS:
        asked = exchanging(seed)
        best = Search(asked).run().best
        assert (best.step_ns if best else None) == brute(asked).step_ns, seed
        optimal.add(best.strategy.context_parallel_kind if best else "nothing fits")
    assert len(optimal) >= 3
