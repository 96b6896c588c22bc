"""Even plans as people write them: equal stages, one word of recompute, as little of it as fits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..costs.columns import Strategies, distinct
from ..costs.stage_counts import Counts
from ..costs.totals import price_columns
from ..models import Strategy
from ..models.strategy import Stage
from ..plans import Request
from .capacity import capacity_kib
from .cases import allowed_recompute
from .close import switches
from .coefficients import Coefficients
from .cuts import obeying
from .even import recompute_all
from .exchanges import usual
from .lower import NEVER
from .outcome import Found
from .space import rows
from .uniform import balanced_counts, uniform, uniform_counts


def even_plan(request: Request) -> Found | None:
    """The fastest even plan without offload on the fewest stages that have one; None where none fits.

    The first in the order of rows among equals.
    """
    strategies = rows(request)
    if not request.choose.context_parallel_kind:
        strategies = strategies.take(usual(strategies))
    part = Coefficients(request, strategies.take(obeying(request, strategies)))
    steps = uniform(part)
    deadline = request.limits.max_step_seconds
    limit = NEVER - 1 if deadline is None else int(deadline * 1e9)
    stages = part.strategies.pipeline_parallel
    for number in distinct(stages[steps <= limit]).tolist():
        some = np.flatnonzero((stages == number) & (steps <= limit))
        row = int(some[np.argmin(steps[some])])
        found = _fastest(part, row)
        if found is not None and found.step_ns <= limit:
            return found
    return None


def _fastest(part: Coefficients, row: int) -> Found | None:
    """The fastest even plan of a row that fits the card."""
    request, choices = part.request, list(_choices(part, row))
    if not choices:
        return None
    prices = price_columns(
        request.model,
        request.training,
        request.cluster,
        Strategies.of(choices),
        Counts.of(choices, request.model.kind_of_layer),
    )
    fits = prices.peak_kib <= capacity_kib(request)
    if not fits.any():
        return None
    steps = np.where(fits, prices.step.total, NEVER)
    index = int(np.argmin(steps))
    spare = capacity_kib(request) - int(prices.peak_kib[index])
    return Found(choices[index], int(steps[index]), part.strategies.key(row), spare, switches(part, row))


def _choices(part: Coefficients, row: int) -> Iterator[Strategy]:
    """The strategies of a row with even stages: each word, each number of recomputed layers a stage."""
    knobs = part.strategies.row(row)
    stages, kinds = knobs["pipeline_parallel"], np.array(part.request.model.kind_of_layer)
    sizes = uniform_counts(len(kinds), stages)
    if stages > 1 and kinds.max():
        sizes = balanced_counts(part, row)
    for word in allowed_recompute(part.request):
        every = word != "none" and bool(recompute_all(part, word)[row])
        least = max(sizes) if every else 0 if word == "none" else 1
        for number in range(least, 1 if word == "none" else max(sizes) + 1):
            yield Strategy(**knobs, stages=tuple(_stage(size, word, number) for size in sizes))


def _stage(layers: int, word: str, number: int) -> Stage:
    """An even stage of which at most `number` layers are recomputed."""
    again = min(number, layers)
    return Stage(
        layers=layers,
        recompute_full_layers=again if word == "full" else 0,
        recompute_selective_layers=again if word == "selective" else 0,
        offloaded_layers=0,
    )
