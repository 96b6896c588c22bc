"""Four exact routes to the least step of one row, on the same integers."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from shardwise.costs.columns import Ints
from shardwise.solver.capacity import capacity_kib
from shardwise.solver.cases import FULL, SELECTIVE, cases, recompute_alike
from shardwise.solver.coefficients import Coefficients
from shardwise.solver.engine import cp_model, new_solver
from shardwise.solver.frontier import frontier
from shardwise.solver.leaf import Leaf
from shardwise.solver.options import RowOptions, row_options
from shardwise.solver.table import END, LONGEST

FAR = 2**55
MOST = 200_000
"""Combinations that are still tried one by one."""


@dataclass(frozen=True)
class Routes:
    """The least step by each route, None where nothing fits."""

    brute: int | None
    program: int | None
    integers: int | None
    tables: int | None


def routes(coefficients: Coefficients, row: int) -> Routes | None:
    """The four answers; None where the row is too large to try everything or shares host memory.

    Also where the last stage lacks layers: what its head adds to a chunk is no line in the layers then.
    """
    if not recompute_alike(coefficients)[row] or coefficients.lacking[row]:
        return None
    if coefficients.strategies.is_("offload_optimizer", "cpu")[row]:
        return None
    options = row_options(coefficients, row, FAR)
    if options is None:
        return Routes(None, None, _integers(coefficients, row), None)
    sizes = [np.prod([float(len(stage)) for stage in tables]) for tables in options.tables]
    if sum(sizes) > MOST:
        return None
    plan = Leaf(options, FAR, frontier(options)).solve(None).plan
    return Routes(
        _brute(options), _program(options), _integers(coefficients, row), plan.step_ns if plan else None
    )


def _brute(options: RowOptions) -> int | None:
    """Every combination of options of every mode."""
    best: int | None = None
    for tables in options.tables:
        for picked in product(*(table.tolist() for table in tables)):
            if sum(stage[1] for stage in picked) == options.layers:
                chunks, longest = [stage[5] for stage in picked], max(stage[LONGEST] for stage in picked)
                pace = max(*chunks, *(_pace(longest, stage[END], options.chunks) for stage in picked))
                step = (options.passes - 1) * pace + sum(chunks) + max(stage[6] for stage in picked)
                best = step if best is None else min(best, step)
    return best


def _pace(longest: int, end: int, chunks: int) -> int:
    """Mean time of chunks of which one waits for a link of an end."""
    return longest + -(-max(end - longest, 0) // chunks)


def _program(options: RowOptions) -> int | None:
    """For each longest chunk, pace and tail the least sum of chunks, stage by stage over the layers held."""
    best: int | None = None
    for tables in options.tables:
        every = np.concatenate(list(tables))
        for longest in np.unique(every[:, LONGEST]).tolist() if options.chunks > 1 else [FAR]:
            paced = [_paced(table, longest, options.chunks) for table in tables]
            for tau in np.unique(np.concatenate(paced)).tolist():
                for theta in np.unique(every[:, 6]).tolist():
                    total = _least_sum(tables, paced, options.layers, tau, theta)
                    if total is not None:
                        step = (options.passes - 1) * tau + total + theta
                        best = step if best is None else min(best, step)
    return best


def _paced(table: Ints, longest: int, chunks: int) -> Ints:
    """The pace that options ask for beside chunks of at most `longest`; `FAR` where their own is longer."""
    if chunks == 1:
        return table[:, 5]
    asked = np.array([_pace(longest, end, chunks) for end in table[:, END].tolist()], dtype=np.int64)
    return np.where(table[:, LONGEST] <= longest, np.maximum(table[:, 5], asked), FAR)


def _least_sum(tables: tuple[Ints, ...], paced: list[Ints], layers: int, tau: int, theta: int) -> int | None:
    if tau == FAR:
        return None
    known = {0: 0}
    for table, pace in zip(tables, paced, strict=True):
        fits = table[(pace <= tau) & (table[:, 6] <= theta)]
        after: dict[int, int] = {}
        for held, total in known.items():
            for option in fits.tolist():
                depth = held + option[1]
                if depth <= layers:
                    after[depth] = min(after.get(depth, FAR), total + option[5])
        known = after
    return known.get(layers)


def _integers(coefficients: Coefficients, row: int) -> int | None:
    """CP-SAT on layers and recomputed layers of each stage as integers, one way of recomputing at a time."""
    layers = coefficients.request.model.layers // int(coefficients.strategies.virtual_pipeline[row])
    found = cases(coefficients, np.array([row]), np.array([layers]))
    steps = [
        _linear(coefficients, row, word, number, layers)
        for word, number in zip(found.word.tolist(), found.number.tolist(), strict=True)
    ]
    return min((step for step in steps if step is not None), default=None)


def _linear(c: Coefficients, row: int, word: int, number: int, layers: int) -> int | None:
    api = cp_model()
    model = api.CpModel()
    p, v, m = (
        int(c.strategies.pipeline_parallel[row]),
        int(c.strategies.virtual_pipeline[row]),
        int(c.passes[row]),
    )
    held = [model.new_int_var(1, layers, f"c{i}") for i in range(p)]
    full = [model.new_int_var(0, layers, f"f{i}") for i in range(p)]
    model.add(sum(held) == layers)
    bottleneck, tail = (model.new_int_var(0, FAR, name) for name in ("U", "T"))
    longest, none = model.new_int_var(0, FAR // v, "C"), np.zeros_like(c.passes)
    chunks = []
    for i in range(p):
        model.add_min_equality(full[i], [held[i], number if word == FULL else 0])
        part = held[i] if word == SELECTIVE else 0

        def worth(values: dict[str, Ints], times: int, i: int = i, part: Any = part) -> Any:
            ends = int(values["fixed"][row]) + (int(values["first"][row]) if i == 0 else 0)
            ends += int(values["last"][row]) if i == p - 1 else 0
            inner = int(values["layer"][row, 0]) * held[i] + int(values["full"][row, 0]) * full[i]
            return ends + times * (inner + int(values["selective"][row, 0]) * part)

        chunks.append(worth(c.chunk.stage, 1))
        model.add(bottleneck >= chunks[-1])
        bare = worth({**c.chunk.stage, "first": none, "last": none}, 1)
        model.add(longest >= bare)
        if v > 1 and i in (0, p - 1):
            whole = int(c.ends["first"][row]) if i == 0 else int(c.ends["last"][row])
            model.add(v * bottleneck >= (v - 1) * longest + bare + whole)
        model.add(tail >= worth(c.tail.stage, v))
        for total in c.memory.values():
            flying = int(c.in_flight[row, i]) * worth(total.flight, 1)
            model.add(worth(total.stage, v) + flying <= capacity_kib(c.request))
    model.minimize((m - 1) * bottleneck + sum(chunks) + tail)
    solver = new_solver(None)
    solver.parameters.use_objective_lb_search = True
    if solver.solve(model) != api.OPTIMAL:
        return None
    values = [int(solver.value(chunk)) for chunk in chunks]
    return (m - 1) * int(solver.value(bottleneck)) + sum(values) + int(solver.value(tail))
