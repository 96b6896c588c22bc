"""Which rows may hold a plan at all, or within a limit: sound tests, never complete ones."""

from __future__ import annotations

import numpy as np

from ..costs.columns import Bools, Ints
from .cases import FULL, SELECTIVE, Cases, blocks, cases, recompute_alike
from .coefficients import Coefficients
from .hosts import host_can_hold
from .level import Level, level, reach_of
from .loose import holds_all, slowest_loose
from .lower import NEVER, cheapest, layers_by_kind, least_tail, work_of
from .spans import Reach

CASES_AT_ONCE = 4096
"""Ways of recomputing looked at together."""


def can_fit(coefficients: Coefficients, rows: Ints | None = None) -> Bools:
    """Which of `rows`, by default all, are not proved too large.

    Recomputing and offloading all that may be, stages and hosts hold all layers.
    """
    rows = np.arange(len(coefficients.strategies)) if rows is None else rows
    found = host_can_hold(coefficients, rows)
    alike = _counted(coefficients)[rows]
    counted, loose = np.flatnonzero(found & alike), np.flatnonzero(found & ~alike)
    if len(counted):
        found[counted] = keeps(coefficients, rows[counted], NEVER)
    if len(loose):
        most = np.full(len(loose), NEVER, dtype=np.int64)
        found[loose] = holds_all(coefficients.take(rows[loose]), most)
    return found


def within(coefficients: Coefficients, bounds: Ints, limit_ns: int) -> Bools:
    """Rows not proved slower than `limit_ns`: at the slowest chunk that still keeps it, all layers fit.

    `bounds` are the rows' `time_bound`.
    """
    found = nearly_within(coefficients, bounds, limit_ns)
    alike = np.flatnonzero(found & recompute_alike(coefficients))
    found[alike] = keeps(coefficients, alike, limit_ns)
    return found


def nearly_within(coefficients: Coefficients, bounds: Ints, limit_ns: int) -> Bools:
    """`within`, by a cheap test of rows that `Counted` does not settle."""
    found: Bools = bounds <= limit_ns
    loose = np.flatnonzero(found & ~_counted(coefficients))
    if len(loose):
        some = coefficients.take(loose)
        found[loose] = holds_all(some, slowest_loose(some, bounds[loose], limit_ns))
    return found


def _counted(coefficients: Coefficients) -> Bools:
    """Rows for which `Counted` tells exactly and at once how many layers fit."""
    return recompute_alike(coefficients) & (len(coefficients.request.model.kinds) == 1)


def keeps(coefficients: Coefficients, rows: Ints, limit_ns: int) -> Bools:
    """Which of `rows` (all of alike recompute) are not proved slower than `limit_ns`.

    With `NEVER` as the limit: which are not proved too large.
    """
    kept = np.zeros(len(coefficients.strategies), dtype=np.bool_)
    if limit_ns < NEVER:
        kept[possible(coefficients, rows, limit_ns)[0].row] = True
        return kept[rows]
    for block in blocks(cases(coefficients, rows, None), CASES_AT_ONCE):
        far = np.full(len(block.row), NEVER)
        kept[block.row[reach_of(coefficients, block).holds(far)]] = True
    return kept[rows]


def possible(coefficients: Coefficients, rows: Ints, limit_ns: int) -> tuple[Cases, Ints]:
    """Ways of recomputing not proved slower than `limit_ns`, and the slowest chunk each may have, ns."""
    found = cases(coefficients, rows, longest(coefficients, rows, limit_ns))
    if len(coefficients.request.model.kinds) > 1:
        single = coefficients.strategies.virtual_pipeline[found.row] == 1
        found = found.take(np.argsort(~single, kind="stable"))
        found = _in_reach(coefficients, found, limit_ns)
    parts, times = [found.take(slice(0))], [np.zeros(0, dtype=np.int64)]
    for block in blocks(found, CASES_AT_ONCE):
        tau = slowest(coefficients, block, limit_ns)
        block, tau = block.take(tau >= 0), tau[tau >= 0]
        held = reach_of(coefficients, block).holds(tau)
        parts.append(block.take(held))
        times.append(tau[held])
    return Cases.join(parts), np.concatenate(times)


def _in_reach(coefficients: Coefficients, found: Cases, limit_ns: int) -> Cases:
    """The cases without those of full recompute of rows that no number of recomputed layers lets hold all.

    Each such row is tested once: with the time of the least number and the memory of the best.
    """
    full = np.flatnonzero(found.word == FULL)
    if not len(full):
        return found
    fresh = np.zeros(len(full), dtype=np.bool_)
    fresh[0] = True
    for part in (found.row[full], found.places[full]):
        fresh[1:] |= part[1:] != part[:-1]
    first = np.flatnonzero(fresh)
    last = np.append(first[1:], len(full))
    ranges, upto = found.take(full[first]), found.number[full[last - 1]]
    held = [np.zeros(0, dtype=np.bool_)]
    for start in range(0, len(first), CASES_AT_ONCE):
        some = slice(start, start + CASES_AT_ONCE)
        block = ranges.take(some)
        tau = slowest(coefficients, block, limit_ns)
        held.append((tau >= 0) & Reach(coefficients, block, upto[some]).holds(tau))
    kept = np.ones(len(found.row), dtype=np.bool_)
    kept[full] = np.repeat(np.concatenate(held), last - first)
    return found.take(kept)


def longest(coefficients: Coefficients, rows: Ints, limit_ns: int) -> Ints:
    """Most layers of a chunk: each other stage holds one, and m v chunks of the lightest keep the limit."""
    s = coefficients.strategies
    most = coefficients.places[1][rows] - s.pipeline_parallel[rows] + 1
    each = limit_ns // np.maximum(coefficients.passes[rows], 1)
    none = np.zeros_like(rows)
    found: Ints = np.minimum(most, _layers_in(coefficients, Cases(rows, none, none, none), each))
    return found


def slowest(coefficients: Coefficients, found: Cases, limit_ns: int) -> Ints:
    """The slowest chunk with which each case can keep the limit, ns; negative where none can.

    Twice: that time bounds the layers of a chunk, and so what must be recomputed at least.
    """
    most = longest(coefficients, found.row, limit_ns)
    passes = coefficients.passes[found.row]
    tau = np.zeros_like(most)
    for _ in range(2):
        left = limit_ns - spent(coefficients, found, most)
        tau = np.where(passes > 1, left // np.maximum(passes - 1, 1), np.where(left < 0, -1, limit_ns))
        most = np.minimum(most, _layers_in(coefficients, found, tau))
    return tau


def _layers_in(coefficients: Coefficients, found: Cases, tau: Ints) -> Ints:
    """Most layers of a chunk of `tau` ns, at least one."""
    if len(coefficients.request.model.kinds) > 1:
        windows = coefficients.lightest_windows[found.row]
        held: Ints = (windows <= tau[:, None]).sum(axis=1)
        return np.maximum(held, 1)
    lightest = coefficients.chunk.stage["layer"][found.row, 0]
    many: Ints = np.where(lightest > 0, tau // np.maximum(lightest, 1), coefficients.request.model.layers)
    return np.maximum(many, 1)


def spent(coefficients: Coefficients, found: Cases, most: Ints) -> Ints:
    """What a step takes beside m v - 1 times its slowest chunk at least, ns: all chunks once, and the tail.

    A chunk holds at most `most` layers. Fewest layers are recomputed when as many stages as can be are full
    and the others hold one.
    """
    s, rows, chunk = coefficients.strategies, found.row, coefficients.chunk.stage
    count = layers_by_kind(coefficients.request)
    v, p = s.virtual_pipeline[rows], s.pipeline_parallel[rows]
    full, rest = np.divmod(np.maximum(found.places - p, 0), np.maximum(most - 1, 1))
    full, number = np.minimum(full, p), found.number
    one = np.minimum(number, 1)
    again = full * np.minimum(number, most) + np.where(full < p, np.minimum(number, 1 + rest), 0)
    again = again + np.maximum(p - full - 1, 0) * one
    extra = np.where(found.word == FULL, _again(coefficients, found, again), 0)
    partly = (chunk["selective"][rows] @ count) // v
    extra = np.where(found.word == SELECTIVE, partly, extra)
    work = work_of(chunk, count, s.pipeline_parallel, s.virtual_pipeline)
    total: Ints = work[rows] + extra + least_tail(coefficients)[rows]
    return total


def _again(coefficients: Coefficients, found: Cases, again: Ints) -> Ints:
    """What the chunks of all stages take at least for `again` layers that each round runs again whole.

    Of several kinds the mean round, which lacks layers where there are more places than these.
    """
    full, count = coefficients.chunk.stage["full"][found.row], layers_by_kind(coefficients.request)
    if len(count) == 1:
        return cheapest(full, count, again)
    v = coefficients.strategies.virtual_pipeline[found.row]
    lacking = found.places * v - coefficients.request.model.layers
    each: Ints = cheapest(full, count, np.maximum(again * v - lacking, 0)) // v
    return each


def levels(coefficients: Coefficients, rows: Ints, limit_ns: int) -> Level:
    """Levels of the ways of recomputing of `rows` (all of alike recompute) that may keep the limit."""
    found, most = possible(coefficients, rows, limit_ns)
    layers = np.minimum(longest(coefficients, found.row, limit_ns), _layers_in(coefficients, found, most))
    return level(coefficients, found, most, spent(coefficients, found, layers))
