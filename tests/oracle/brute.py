"""The least step of everything a request allows, found by trying everything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shardwise.models import Strategy
from shardwise.plans import Request

from .evaluate import Evaluator
from .prices import costs_of
from .rows import Row, every_row, row_of
from .stack import stack_of
from .stages import Layout, layout_of, layouts
from .wishes import recompute_words


@dataclass(frozen=True)
class Least:
    """The least step of one row (None: nothing fits) and how many layouts were tried."""

    row: Row
    step_ns: int | None
    layout: Layout | None
    tried: int


@dataclass(frozen=True)
class Answer:
    """Least steps of all rows, in the order of the loops."""

    rows: tuple[Least, ...]

    @property
    def best(self) -> Least | None:
        """The fastest row, the first of equals; None where nothing fits."""
        fitting = [least for least in self.rows if least.step_ns is not None]
        return min(fitting, key=lambda least: least.step_ns or 0, default=None)

    @property
    def step_ns(self) -> int | None:
        """The least step, None where nothing fits."""
        return self.best.step_ns if self.best else None

    @property
    def tried(self) -> int:
        """Layouts tried."""
        return sum(least.tried for least in self.rows)


def brute(request: Request) -> Answer:
    """Every row, every layout; nothing is skipped."""
    return brutes([request])[0]


def brutes(requests: Sequence[Request]) -> list[Answer]:
    """`brute` of requests that differ in how tight their limits are, which neither rows nor costs know.

    Each layout is weighed once and held against the limits of all.
    """
    if not requests:
        return []
    first, *_ = requests
    rows, stack, words = list(every_row(first)), stack_of(first), recompute_words(first)
    if not rows:
        return [Answer(()) for _ in requests]
    found = []
    for row, costs in zip(rows, costs_of(first, rows), strict=True):
        evaluator = Evaluator(first, row, costs)
        others = [evaluator.under(request) for request in requests[1:]]
        found.append(_least([evaluator, *others], list(layouts(row, stack, words))))
    return [Answer(each) for each in zip(*found, strict=True)]


def _least(evaluators: Sequence[Evaluator], every: Sequence[Layout]) -> list[Least]:
    """The least step of one row under the limits of each evaluator, the first of equals."""
    found = []
    for evaluator in evaluators:
        best, chosen = None, None
        for layout in every:
            step = evaluator.step_ns(layout)
            if step is not None and (best is None or step < best):
                best, chosen = step, layout
        found.append(Least(evaluator.row, best, chosen, len(every)))
    return found


def faults(request: Request, strategy: Strategy, step_ns: int) -> list[str]:
    """What is wrong with a plan somebody found: not a legal row, not a legal layout, another step.

    The row is priced alone here, not among others.
    """
    row, layout = row_of(strategy), layout_of(strategy, stack_of(request))
    if row not in every_row(request):
        return [f"{row} is not allowed"]
    if layout is None or layout not in layouts(row, stack_of(request), recompute_words(request)):
        return [f"{strategy.stages} cannot be expressed"]
    (costs,) = costs_of(request, [row])
    found = Evaluator(request, row, costs).step_ns(layout)
    return [] if found == step_ns else [f"its step is {found} ns, not {step_ns}"]
