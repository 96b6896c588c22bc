"""Whether any plan exists: no objective, the first plan that keeps every limit ends the search."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from ..costs.columns import Ints, Strategies
from ..plans import Request
from .bounds import can_fit, within
from .close import OPTION_SECONDS, SPAN_FACTOR
from .coefficients import Coefficients
from .cuts import obeying
from .engine import cp_model, new_solver
from .leaf import Leaf
from .lower import NEVER, shape_bound, time_bound
from .options import row_options
from .points import padded
from .space import space
from .stage_limits import may_keep, on_stages
from .uniform import uniform
from .watch import refuse_stopped

SECONDS = 0.2
"""Deterministic seconds for option tables of rows that the bounds leave open."""

FIRST, LATER = 64, 2048
"""Rows priced at once: those that promise most first, then the rest."""


class Rows:
    """Rows of a request not proved too large, in parts, leanest first.

    For questions too that differ from it in tighter limits of memory alone: what they do to such rows is
    told of the same coefficients, which take less than a KiB a row.
    """

    def __init__(self, request: Request) -> None:
        self.request = padded(request)
        deadline = request.limits.max_step_seconds
        self.limit_ns = NEVER - 1 if deadline is None else int(deadline * 1e9)
        self._kept: list[Coefficients] = []

    @cached_property
    def _parts(self) -> tuple[Strategies, list[Ints]]:
        strategies = _allowed(self.request, self.limit_ns)
        return strategies, list(_batches(_leanest_first(strategies)))

    def __iter__(self) -> Iterator[Coefficients]:
        strategies, parts = self._parts
        for index, some in enumerate(parts):
            refuse_stopped()
            if index < len(self._kept):
                yield self._kept[index]
                continue
            part = Coefficients(self.request, strategies.take(some))
            fits = np.flatnonzero(can_fit(part))
            _ = (part.tail, part.ends) if len(fits) else None  # what plans of all rows that fit ask for
            part = part.take(fits)
            self._kept.append(part)
            yield part


def feasible(request: Request, known: Rows | None = None) -> bool | None:
    """Whether some plan keeps every limit of `request`; None where `SECONDS` did not settle it.

    `known` are the rows of a request that differs in looser limits of memory alone.

    Even plans are tried first, rows that need least memory before others; what the bounds leave open is
    settled stage by stage by CP-SAT without an objective. Raises `InputError` for a rule outside the
    grammar.
    """
    rows = known or Rows(request)
    request, limit = padded(request), rows.limit_ns
    open_rows: list[tuple[Coefficients, int]] = []
    for part in rows:
        if known is not None:
            part = part.under(request)
            part = part.take(np.flatnonzero(can_fit(part)))
        if on_stages(request):
            part = part.take(may_keep(part))
        if limit < NEVER - 1:
            part = part.take(within(part, time_bound(part), limit))
        if not len(part.strategies):
            continue
        if not on_stages(request) and (uniform(part) <= limit).any():
            return True
        open_rows += [(part, row) for row in range(len(part.strategies))]
    return _settled(open_rows, limit)


def _settled(open_rows: list[tuple[Coefficients, int]], limit_ns: int) -> bool | None:
    """Whether one of the open rows has a plan; None where the time for that ran out."""
    spent = 0.0
    for part, row in open_rows:
        if spent > SECONDS:
            return None
        stages = int(part.strategies.pipeline_parallel[row])
        spent += OPTION_SECONDS * (SPAN_FACTOR * stages if len(part.request.model.kinds) > 1 else 1)
        if _has_plan(part, row, limit_ns):
            return True
    return False


def _allowed(request: Request, limit_ns: int) -> Strategies:
    """Rows that obey the request's rules and limits on knobs, of shapes not proved slower than `limit_ns`."""
    found = space(request).spelled()
    shapes = np.arange(len(found.kind))
    if limit_ns < NEVER - 1:
        shapes = np.flatnonzero(shape_bound(request, found) <= limit_ns)
    strategies = found.rows(shapes)
    return strategies.take(obeying(request, strategies))


def _leanest_first(s: Strategies) -> Ints:
    """Indices of rows, those likely to need least memory of a card first; ties in their own order."""
    split = s.tensor_parallel * s.pipeline_parallel * np.where(s.zero_stage > 0, s.shard_group_size, 1)
    order: Ints = np.lexsort((-s.zero_stage, -split, -s.offload_optimizer, s.micro_batch_size))
    return order


def _batches(order: Ints) -> Iterator[Ints]:
    yield order[:FIRST]
    for start in range(FIRST, len(order), LATER):
        yield order[start : start + LATER]


def _has_plan(part: Coefficients, row: int, limit_ns: int) -> bool:
    """Whether the stages of a row can hold all layers on card and host within the limit."""
    options = row_options(part, row, limit_ns)
    if options is None:
        return False
    solver = new_solver(None)
    found = solver.solve(Leaf(options, limit_ns).model)
    return bool(found in (cp_model().OPTIMAL, cp_model().FEASIBLE))
