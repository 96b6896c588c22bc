"""Whether any plan exists: no objective, the first plan that keeps every limit ends the search."""

from __future__ import annotations

from collections.abc import Iterator

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


def feasible(request: Request) -> bool | None:
    """Whether some plan keeps every limit of `request`; None where `SECONDS` did not settle it.

    Even plans are tried first, rows that need least memory before others; what the bounds leave open is
    settled stage by stage by CP-SAT without an objective. Raises `InputError` for a rule outside the
    grammar.
    """
    request = padded(request)
    deadline = request.limits.max_step_seconds
    limit = NEVER - 1 if deadline is None else int(deadline * 1e9)
    strategies = _allowed(request, limit)
    open_rows: list[tuple[Coefficients, int]] = []
    for some in _batches(_leanest_first(strategies)):
        refuse_stopped()
        part = Coefficients(request, strategies.take(some))
        if on_stages(request):
            part = part.take(may_keep(part))
        fits = can_fit(part)
        if deadline is not None:
            fits &= within(part, time_bound(part), limit)
        if not on_stages(request) and (np.where(fits, uniform(part), NEVER) <= limit).any():
            return True
        open_rows += [(part, int(row)) for row in np.flatnonzero(fits)]
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
