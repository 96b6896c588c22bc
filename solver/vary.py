"""What if: cases side by side, their ranking, and where along a field the ranking flips."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..inputs import InputError, shorten
from ..inputs.kinds import refuse_no_list, refuse_other
from ..inputs.record import dataclass
from ..plans import Request
from ..plans.row import BreakEven, Compare, CompareRow
from .answer import versions
from .points import front, goods, numbers, status, where
from .solved import solved

HALVINGS = 12
"""Steps of the bisection for a break-even: the value is known to 1/4096 of its range."""


@dataclass(frozen=True)
class Case:
    """A named set of fields laid over the request."""

    name: str
    changes: Mapping[str, Any]


def compare(
    request: Request, cases: Sequence[Case], along: tuple[str, float, float] | None = None
) -> Compare:
    """The best plan of each case, ranked by the objective of `request`.

    `along` (field, low, high) also looks for the value at which the two best change places, all else equal.
    Raises `InputError` for a field or value that cannot be.
    """
    refuse_other(request, Request)
    refuse_no_list(cases, Case, "cases")
    names = [case.name for case in cases]
    if len(set(names)) < len(names):
        raise InputError("--case", ", ".join(names), "--case", "names one case twice", code="contradiction")
    rows = [_row(request, case) for case in cases]
    order = sorted((row for row in rows if row.strategy), key=lambda row: (_score(request, row), row.name))
    rank = {row.name: place for place, row in enumerate(order, 1)}
    dominated = dict(zip([r.name for r in order], front([goods(dict(r)) for r in order]), strict=True))
    rows = [
        row.model_copy(update={"rank": rank.get(row.name), "pareto": dominated.get(row.name, False)})
        for row in rows
    ]
    settled, margin = _margin(request, order)
    found = None
    if along is not None and len(order) > 1:
        both = [case for name in rank for case in cases if case.name == name][:2]
        found = break_even(request, both[0], both[1], along)
    return Compare(
        inputs_hash=request.inputs_hash(),
        versions=versions(),
        objective=request.objective.minimize,
        rows=tuple(rows),
        ranking=tuple(rank),
        margin_percent=margin,
        settled=settled,
        verdict=_verdict(order, settled, margin),
        break_even=found,
    )


def _row(request: Request, case: Case) -> CompareRow:
    changed = request.changed(dict(case.changes), origin=f"case {case.name}")
    found = solved(changed)
    outcome = found.outcome
    told = {field: _text(value) for field, value in case.changes.items()}
    base = {"name": case.name, "case": told, "status": status(outcome), **where(found.request)}
    if outcome.best is None:
        return CompareRow(**base, reason=found.reasons[0])
    return CompareRow(**base, **numbers(found.request, outcome.best))


def _text(value: object) -> str:
    return shorten(value, 240)


def _score(request: Request, row: CompareRow) -> float:
    """What the objective makes small: seconds a token where batches differ, dollars a token, or cards."""
    if request.objective.minimize == "gpus":
        return float(row.gpus)
    if request.objective.minimize == "usd_per_token" and row.usd_per_million_tokens is not None:
        return row.usd_per_million_tokens
    return 1.0 / row.tokens_per_second if row.tokens_per_second else float("inf")


def _margin(request: Request, order: Sequence[CompareRow]) -> tuple[bool | None, float | None]:
    """Whether the intervals of the two best are apart, and by how much the second is worse."""
    if len(order) < 2:
        return None, None
    first, second = order[0], order[1]
    margin = round(100.0 * (_score(request, second) / _score(request, first) - 1.0), 4)
    assert first.high_seconds and second.low_seconds and first.step_seconds and second.step_seconds
    if request.objective.minimize == "gpus":
        return margin > 0, margin
    high = _score(request, first) * first.high_seconds / first.step_seconds
    low = _score(request, second) * second.low_seconds / second.step_seconds
    return high < low, margin


def _verdict(order: Sequence[CompareRow], settled: bool | None, margin: float | None) -> str:
    if not order:
        return "no case has a plan"
    if settled is None or margin is None:
        return f"{order[0].name} is the only case with a plan"
    if margin == 0:
        return f"{order[0].name} and {order[1].name} are equal"
    by = f"{margin:.1f}" if margin >= 0.05 else f"{margin:.2g}"
    head = f"{order[0].name} before {order[1].name} by {by} %"
    return f"{head}: settled" if settled else f"{head}: the intervals overlap: measure"


def break_even(request: Request, first: Case, second: Case, along: tuple[str, float, float]) -> BreakEven:
    """The value of a field between `low` and `high` where `first` and `second` change places.

    Bisected on re-solved plans; a case without a plan loses. Whole-number fields take whole values.
    """
    field, low, high = along
    whole = isinstance(_value(request, field), int)

    def winner(value: float) -> str:
        moved = request.changed({field: round(value) if whole else value}, origin="break-even")
        scores = [_score_of(moved, case) for case in (first, second)]
        return first.name if scores[0] <= scores[1] else second.name

    below, above = winner(low), winner(high)
    value: float | None = None
    if below != above:
        left, right = low, high
        for _ in range(HALVINGS):
            middle = (left + right) / 2
            if winner(middle) == below:
                left = middle
            else:
                right = middle
        value = float(round(right)) if whole else right
    return BreakEven(field=field, low=low, high=high, value=value, below=below, above=above)


def _score_of(request: Request, case: Case) -> float:
    row = _row_or_none(request, case)
    return float("inf") if row is None else _score(request, row)


def _row_or_none(request: Request, case: Case) -> CompareRow | None:
    changed = request.changed(dict(case.changes), origin=f"case {case.name}")
    found = solved(changed)
    if found.outcome.best is None:
        return None
    base = {"name": case.name, "case": {}, "status": status(found.outcome), **where(found.request)}
    return CompareRow(**base, **numbers(found.request, found.outcome.best))


def _value(request: Request, field: str) -> Any:
    """The present value of a dotted field."""
    found: Any = request
    for name in field.split("."):
        found = getattr(found, name)
    return found
