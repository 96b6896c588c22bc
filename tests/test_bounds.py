"""Bounds against exact steps of every row; and that the comparison notices a wrong bound."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from random import Random
from typing import NamedTuple

import numpy as np
import pytest
from oracle.brute import Answer, brute
from oracle.machines import with_memory
from oracle.requests import request
from oracle.rows import Row

from shardwise.costs.columns import NAMES, Ints
from shardwise.hardware import Cluster
from shardwise.plans import Request
from shardwise.solver import batches, close, search, tables
from shardwise.solver.alone import least_alone, stand_alone
from shardwise.solver.bounds import can_fit, levels, within
from shardwise.solver.coefficients import Coefficients
from shardwise.solver.cuts import cut_by
from shardwise.solver.frontier import Frontier, frontier, row_bound
from shardwise.solver.hosts import host_can_hold
from shardwise.solver.large import TooLarge
from shardwise.solver.leaf import Leaf
from shardwise.solver.level import Level
from shardwise.solver.lower import NEVER, ShapeBounds, shape_bounds, time_bound
from shardwise.solver.options import RowOptions, row_options
from shardwise.solver.search import Search
from shardwise.solver.space import Space, rows, space
from shardwise.solver.uniform import uniform

pytestmark = pytest.mark.slow

SEEDS = range(1000, 1060)
UNEVEN = range(110, 155)
"""Requests of which some have an optimum in a row whose even plan does not fit."""
FAR = 2**61


class Known(NamedTuple):
    """The rows of a request as the search has them, and the exact least step of each (None: nothing fits)."""

    request: Request
    coefficients: Coefficients
    steps: list[int | None]


def undated(asked: Request) -> Request:
    """The request without a deadline: a row's own step is what bounds are about."""
    return asked.model_copy(update={"limits": asked.limits.model_copy(update={"max_step_seconds": None})})


@cache
def answered(seed: int) -> Answer:
    """Everything tried, without a deadline."""
    return brute(undated(request(seed)))


@cache
def known(seed: int) -> Known | None:
    """The rows of a seed with their exact steps; None where no row is legal."""
    asked = undated(request(seed))
    exact = {least.row: least.step_ns for least in answered(seed).rows}
    columns = rows(asked)
    keep = np.ones(len(columns), dtype=np.bool_)
    for mask in cut_by(asked, columns).values():
        keep &= mask
    columns = columns.take(keep)
    if not len(columns):
        return None
    return Known(
        asked, Coefficients(asked, columns), [exact[Row(**columns.row(i))] for i in range(len(columns))]
    )


def all_known() -> list[tuple[int, Known]]:
    """Seeds that have rows."""
    found = [(seed, known(seed)) for seed in SEEDS]
    return [(seed, one) for seed, one in found if one is not None]


def test_rows_have_the_same_names_on_both_sides() -> None:
    """A row of the search is a row of the exhaustive one, knob by knob."""
    assert set(NAMES) == set(Row._fields)


def test_the_time_bound_lies_below_every_row() -> None:
    """No layout of a row is faster than its bound."""
    for seed, one in all_known():
        for bound, step in zip(time_bound(one.coefficients).tolist(), one.steps, strict=True):
            assert step is None or 0 < bound <= step, seed


def test_the_uniform_plan_lies_above_every_row() -> None:
    """The uniform plan is a real one: never faster than the row's best, never there where nothing fits."""
    exact = 0
    for seed, one in all_known():
        for upper, step in zip(uniform(one.coefficients).tolist(), one.steps, strict=True):
            assert upper >= (NEVER if step is None else step), seed
            exact += upper == step
    assert exact >= 100


def test_a_row_that_stands_alone_has_its_exact_step() -> None:
    """One stage whose layers are free: the least step of all ways to leave them, none where nothing fits."""
    rows_seen, parted = 0, 0
    for seed, one in all_known():
        alone = np.flatnonzero(stand_alone(one.coefficients))
        for row, least in zip(alone.tolist(), least_alone(one.coefficients, alone).tolist(), strict=True):
            step = one.steps[row]
            assert least == (NEVER if step is None else step), seed
            rows_seen += 1
            parted += bool(one.coefficients.strategies.away("offload_optimizer")[row]) and step is not None
    assert rows_seen >= 100 and parted >= 20


def test_no_row_that_holds_a_plan_is_called_too_large() -> None:
    """`can_fit` drops only rows in which nothing fits, and drops some of those."""
    dropped = 0
    for seed, one in all_known():
        for fits, step in zip(can_fit(one.coefficients).tolist(), one.steps, strict=True):
            assert fits or step is None, seed
            dropped += not fits
    assert dropped >= 100


def test_what_is_too_large_tells_of_nothing_that_fits() -> None:
    """Larger micro-batches and more chunks of rows too large for a card hold no plan; some are told so."""
    told = 0
    for seed, one in all_known():
        found = space(one.request)
        large, columns = TooLarge(found, len(one.request.model.kinds)), found.rows(np.arange(len(found.kind)))
        places, every = large.rows(np.arange(len(found.kind))), Coefficients(one.request, columns)
        tight = np.flatnonzero(~can_fit(every))
        half = tight[: len(tight) // 2]
        large.learn(places.take(half), host_can_hold(every.take(half)))
        exact = {least.row: least.step_ns for least in answered(seed).rows}
        for row in np.flatnonzero(large.known(places)).tolist():
            assert exact.get(Row(**columns.row(row))) is None, seed
        told += int(np.isin(np.flatnonzero(large.known(places)), half, invert=True).sum())
    assert told >= 20


def test_hosts_that_are_too_small_are_told_before_any_leaf() -> None:
    """`host_can_hold` drops no row with a plan on tiny hosts, and spares the leaves of those it drops."""
    dropped = 0
    for seed, one in all_known():
        for limit in (1, 2**31, 2**33):
            tight = one.request.limits.model_copy(update={"host_memory_bytes": limit})
            asked = one.request.model_copy(update={"limits": tight})
            exact = {answer.row: answer.step_ns for answer in brute(asked).rows} if seed % 6 == 0 else None
            keeps = host_can_hold(one.coefficients.under(asked)).tolist()
            dropped += keeps.count(False)
            for row, kept in enumerate(keeps):
                if exact is not None and not kept:
                    assert exact[Row(**one.coefficients.strategies.row(row))] is None, (seed, limit)
    assert dropped >= 100


def test_no_row_within_a_limit_is_called_slower() -> None:
    """`within` any limit keeps rows with a plan at or below it, and drops some whose bound is below."""
    sharper = 0
    for seed, one in all_known():
        bounds = time_bound(one.coefficients)
        reached = sorted({step for step in one.steps if step is not None})
        for limit in Random(seed).sample(reached, min(len(reached), 6)):
            kept = within(one.coefficients, bounds, limit)
            for near, bound, step in zip(kept.tolist(), bounds.tolist(), one.steps, strict=True):
                assert near or step is None or step > limit, seed
                sharper += bound <= limit and not near
    assert sharper >= 20


def some_rows(seed: int, one: Known, most: int) -> list[int]:
    """A few rows of a request, those in which something fits first."""
    order = Random(seed).sample(range(len(one.steps)), len(one.steps))
    return sorted(order, key=lambda index: one.steps[index] is None)[:most]


def test_the_leaf_of_every_row_is_exact_and_its_bound_below() -> None:
    """Row by row: frontier bound <= leaf optimum = least step of all layouts; also at the tightest limit."""
    solved = empty = 0
    for seed, one in all_known():
        for index in some_rows(seed, one, 5):
            step = one.steps[index]
            options = row_options(one.coefficients, index, FAR)
            bound = row_bound(options, frontier(options)) if options else None
            if options is None or bound is None:
                assert step is None, seed
                empty += 1
                continue
            plan = Leaf(options, FAR).solve(None).plan
            assert (plan.step_ns if plan else None) == step, (seed, index)
            assert step is None or bound <= step, (seed, index)
            solved += step is not None
            if step is not None:
                _at_the_limit(one, index, step)
    assert solved >= 100
    assert empty >= 10


def _at_the_limit(one: Known, index: int, step: int) -> None:
    """With the row's own step as limit the options still hold the best layout; below it nothing does."""
    tight = row_options(one.coefficients, index, step)
    assert tight is not None
    bound = row_bound(tight, frontier(tight))
    assert bound is not None and bound <= step
    plan = Leaf(tight, step).solve(None).plan
    assert plan is not None and plan.step_ns == step
    below = row_options(one.coefficients, index, step - 1)
    assert below is None or Leaf(below, step - 1).solve(None).plan is None


def mismatches(seeds: Sequence[int]) -> Iterator[int]:
    """Seeds for which the search and the exhaustive one differ in feasibility or step."""
    for seed in seeds:
        best = Search(undated(request(seed))).run().best
        if (best.step_ns if best else None) != answered(seed).step_ns:
            yield seed


@cache
def feasible() -> tuple[int, ...]:
    """Seeds in which something fits."""
    return tuple(seed for seed in SEEDS if answered(seed).step_ns is not None)


def _higher(bounds: Ints, percent: int) -> Ints:
    found: Ints = bounds * (100 + percent) // 100
    return found


def test_nothing_differs_without_a_mutation() -> None:
    """The harness below is silent for the search as it is."""
    assert len(feasible()) >= 30
    assert not list(mismatches(SEEDS))


def _bounds_one_percent_higher(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "row_bound":
        monkeypatch.setattr(
            close, name, lambda options, fronts: (row_bound(options, fronts) or 0) * 101 // 100 or None
        )
    elif name == "shape_bounds":

        def fourfold(asked: Request, found: Space) -> ShapeBounds:
            bounds = shape_bounds(asked, found)
            return replace(bounds, least=_higher(bounds.least, 300))

        for room in (search, tables):
            monkeypatch.setattr(room, name, fourfold)
        for size in ("LEAN", "FIRST", "BATCH", "ROUND"):
            monkeypatch.setattr(batches, size, 1)
    elif name == "levels":

        def raised(*asked: object) -> Level:
            one = levels(*asked)  # type: ignore[arg-type]
            return replace(one, lower=_higher(one.lower, 1))

        monkeypatch.setattr(search, name, raised)
    elif name == "least_alone":
        monkeypatch.setattr(search, name, lambda one, rows_: _higher(least_alone(one, rows_), 1))
    else:
        monkeypatch.setattr(tables, name, lambda rows_: _higher(time_bound(rows_), 2))


@pytest.mark.parametrize("name", ["shape_bounds", "time_bound", "levels", "least_alone", "row_bound"])
def test_a_bound_too_high_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are then dropped that hold the optimum: by one percent, two for rows, fourfold for shapes."""
    _bounds_one_percent_higher(name, monkeypatch)
    assert any(mismatches(feasible()))


def test_an_incumbent_one_percent_too_low_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A uniform plan that is no real one cuts off what is."""
    monkeypatch.setattr(search, "uniform", lambda rows_: uniform(rows_) // 100 * 99)
    assert any(mismatches(feasible()))


def test_rows_dropped_for_memory_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A `can_fit` that lets no row through drops the optima that no even plan showed to fit.

    Equal rows stand side by side: one that dropped every other row could leave a twin of the optimum.
    """
    assert not list(mismatches(UNEVEN))
    monkeypatch.setattr(search, "can_fit", lambda _, rows_: np.zeros(len(rows_), dtype=np.bool_))
    assert any(mismatches(UNEVEN))


def test_a_dropped_breakpoint_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where CP-SAT is asked, the frontier without its first breakpoint claims too slow a chunk."""

    def mutated(options: RowOptions) -> tuple[Frontier, ...]:
        return tuple(replace(front, points=front.points[1:] or front.points) for front in frontier(options))

    monkeypatch.setattr(close, "frontier", mutated)
    monkeypatch.setattr(close, "few_ways", lambda *_: None)
    assert any(mismatches(feasible()))


Change = Callable[[Request], Request]


def limited(asked: Request, **limits: object) -> Request:
    """The request with other limits."""
    return asked.model_copy(update={"limits": asked.limits.model_copy(update=limits)})


def roomier(asked: Request) -> Request:
    """A twentieth more card memory."""
    return with_memory(asked, asked.cluster.node.gpu.memory_usable_bytes * 21 // 20)


def unruled(asked: Request) -> Request:
    """No rules."""
    return asked.model_copy(update={"choose": asked.choose.model_copy(update={"rules": ()})})


def unchosen(asked: Request) -> Request:
    """Any recompute and any offload."""
    free = dict.fromkeys(("recompute", "offload_optimizer", "offload_params"))
    return asked.model_copy(update={"choose": asked.choose.model_copy(update=free)})


def ruled() -> list[int]:
    """Seeds whose requests have rules."""
    return [seed for seed in range(1000, 1100) if request(seed).choose.rules]


@pytest.mark.parametrize(
    ("change", "least"),
    [
        (roomier, 5),
        (lambda asked: limited(asked, host_memory_bytes=2**50), 1),
        (lambda asked: limited(asked, tensor_parallel_within=None), 0),
        (lambda asked: limited(asked, memory_margin=0.0), 5),
        (unruled, 1),
        (unchosen, 1),
    ],
    ids=["card memory", "host memory", "reach", "margin", "rules", "lists"],
)
def test_a_looser_request_is_never_slower(change: Change, least: int) -> None:
    """What was allowed still is, to the nanosecond; in some requests something faster becomes possible."""
    faster_ = 0
    for seed in ruled() if change is unruled else SEEDS[:40]:
        best, step = Search(change(undated(request(seed)))).run().best, answered(seed).step_ns
        assert step is None or (best is not None and best.step_ns <= step), seed
        faster_ += best is not None and (step is None or best.step_ns < step)
    assert faster_ >= least


def test_a_deadline_only_refuses() -> None:
    """A deadline leaves the optimum as it is, or leaves nothing."""
    met = missed = 0
    for seed in feasible()[:25]:
        step = answered(seed).step_ns
        assert step is not None
        for deadline, holds in (((step + 1) / 1e9, True), ((step - 1) / 1e9, False)):
            best = Search(limited(undated(request(seed)), max_step_seconds=deadline)).run().best
            assert (best.step_ns if best else None) == (step if holds else None), seed
            met, missed = met + holds, missed + (not holds)
    assert min(met, missed) >= 20


def quicker(cluster: Cluster, name: str) -> Cluster:
    """The cluster with one rate of its machines or cards twice as high."""
    node = cluster.node
    if name in type(node.gpu).model_fields:
        gpu = node.gpu.model_copy(update={name: 2 * getattr(node.gpu, name)})
        return cluster.model_copy(update={"node": node.model_copy(update={"gpu": gpu})})
    return cluster.model_copy(update={"node": node.model_copy(update={name: 2 * getattr(node, name)})})


@pytest.mark.parametrize("name", ["nic_bytes_per_s", "hbm_bytes_per_s", "host_dram_bytes_per_s"])
def test_more_bandwidth_is_never_slower(name: str) -> None:
    """Twice the rate of network, card memory or host memory: the optimum does not grow, and often falls.

    Each coefficient is rounded up on its own, so hidden communication may move a layer by a nanosecond.
    """
    changed = 0
    for seed in feasible()[:25]:
        asked = undated(request(seed))
        best = Search(asked.model_copy(update={"cluster": quicker(asked.cluster, name)})).run().best
        step = answered(seed).step_ns
        assert best is not None and step is not None
        passes = best.strategy.gradient_accumulation_steps * best.strategy.virtual_pipeline
        assert best.step_ns <= step + 2 * asked.model.layers * (passes + 1), seed
        changed += best.step_ns < step
    assert changed >= 3
