"""What if: cases side by side, their ranking, and where along a field the ranking flips."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..costs.scatter import PairScatter, measured_cards, pair_scatter, step_kind
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
    asked = {case.name: request.changed(dict(case.changes), origin=f"case {case.name}") for case in cases}
    rows = [_row(asked[case.name], case) for case in cases]
    order = sorted((row for row in rows if row.strategy), key=lambda row: (_score(request, row), row.name))
    rank = {row.name: place for place, row in enumerate(order, 1)}
    dominated = dict(zip([r.name for r in order], front([goods(dict(r)) for r in order]), strict=True))
    rows = [
        row.model_copy(update={"rank": rank.get(row.name), "pareto": dominated.get(row.name, False)})
        for row in rows
    ]
    margin = _margin(request, order)
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
        **_settled(request, order, margin, asked),
        break_even=found,
    )


def _row(request: Request, case: Case) -> CompareRow:
    """The row of a case, whose own request this is."""
    found = solved(request)
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


def _margin(request: Request, order: Sequence[CompareRow]) -> float | None:
    """By how much the second is worse than the first, percent; None where there is no second."""
    if len(order) < 2:
        return None
    return round(100.0 * (_score(request, order[1]) / _score(request, order[0]) - 1.0), 4)


def _settled(
    request: Request, order: Sequence[CompareRow], margin: float | None, asked: Mapping[str, Request]
) -> dict[str, Any]:
    """Whether the margin of the first is beyond what such pairs of runs differ from predicted ratios by."""
    if margin is None:
        only = f"{order[0].name} is the only case with a plan" if order else "no case has a plan"
        return {"verdict": only}
    first, second = order[0].name, order[1].name
    if margin == 0:
        return {"settled": False, "settles_percent": 0.0, "verdict": f"{first} and {second} are equal"}
    by = f"{margin:.1f}" if margin >= 0.05 else f"{margin:.2g}"
    head = f"{first} before {second} by {by} %"
    if request.objective.minimize == "gpus":
        return {"settled": True, "settles_percent": 0.0, "verdict": f"{head}: settled"}
    known = _pairs(order[0], order[1], asked)
    needed = round(known.percent, 1)
    settled = margin > needed
    word = "settled" if settled else "measure"
    told = f"ratios of two such runs were off by up to {needed:g} % in 8 of 10 cases ({known.told})"
    return {"settled": settled, "settles_percent": needed, "verdict": f"{head}: {word}: {told}"}


def _pairs(first: CompareRow, second: CompareRow, asked: Mapping[str, Request]) -> PairScatter:
    """How far ratios of two such runs lie from predicted ones."""
    requests = [asked[row.name] for row in (first, second)]
    cards = [{pool.node.gpu.name for pool in each.cluster.pools} for each in requests]
    stacks = {row.strategy.software_stack for row in (first, second) if row.strategy}
    nearest = min(row.limit_fraction or 0.0 for row in (first, second))
    kind = step_kind(nearest, measured_cards().issuperset(cards[0] | cards[1]))
    return pair_scatter(len(stacks) == 1 and cards[0] == cards[1], kind)


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
