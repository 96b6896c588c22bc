"""The best plan at each number of cards, for people who draw curves and those who schedule by them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..inputs import InputError
from ..inputs.kinds import refuse_no_list, refuse_other
from ..models import Strategy
from ..plans import Request
from ..plans.row import Curve, CurveRow
from .answer import versions
from .points import front, goods, numbers, searched, status, where

SHARDED = (
    "backend", "data_parallel", "tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel",
    "expert_tensor_parallel", "virtual_pipeline", "zero_stage", "shard_group_size", "offload_optimizer",
)  # fmt: skip
"""Choices that decide which rank saves what: where one differs a checkpoint has to be converted."""


def curve(request: Request, gpus: Sequence[int], envelope: bool = False) -> Curve:
    """The best plan for each of `gpus` cards; with `envelope` also the best of at most so many.

    Raises `InputError` for a count that is neither whole nodes nor part of one.
    """
    refuse_other(request, Request)
    refuse_no_list(gpus, int, "gpus")
    rows: list[CurveRow] = []
    before: Strategy | None = None
    for count in sorted(set(gpus)):
        row = _row(request, request.changed({"cluster.gpus": count}, origin="curve"), before)
        rows.append(row)
        before = row.strategy or before
    rows = _marked(rows)
    if envelope:
        rows = _enveloped(rows)
    return Curve(inputs_hash=request.inputs_hash(), versions=versions(), rows=tuple(rows))


def exact_batches(batch: int, cards: int) -> tuple[int, ...]:
    """The nearest batches that `cards` divide: the batch itself, or those below and above.

    >>> exact_batches(512, 24), exact_batches(512, 16)
    ((504, 528), (512,))
    """
    if batch % cards == 0:
        return (batch,)
    below = batch // cards * cards
    return (below, below + cards) if below else (cards,)


def _row(request: Request, sized: Request, before: Strategy | None) -> CurveRow:
    """One count: the request's batch, or the nearest exact one where no layout keeps it."""
    batch, cards = request.training.global_batch_size, sized.cluster.gpus
    near = exact_batches(batch, cards)
    nearest = min(near, key=lambda size: (abs(size - batch), size))
    outcome = searched(sized)
    if outcome.best is None and outcome.proved and nearest != batch:
        try:
            sized = sized.changed({"training.global_batch_size": nearest}, origin="curve")
            outcome = searched(sized)
        except InputError:
            pass
    base: dict[str, Any] = {
        "status": status(outcome),
        **where(sized),
        "global_batch_exact": batch % cards == 0,
        "nearest_exact_batches": near,
        "delta_batch_percent": round(100.0 * (nearest / batch - 1.0), 4),
        "needs_reshard": False,
    }
    if outcome.best is None:
        return CurveRow(**base)
    taken = outcome.best.strategy
    base["needs_reshard"] = before is not None and any(
        getattr(taken, name) != getattr(before, name) for name in SHARDED
    )
    return CurveRow(
        **base,
        micro_batch_size=taken.micro_batch_size,
        gradient_accumulation_steps=taken.gradient_accumulation_steps,
        **numbers(sized, outcome.best),
    )


def _marked(rows: list[CurveRow]) -> list[CurveRow]:
    """Rows with those on the front of time, cards, dollars and headroom marked."""
    planned = [row for row in rows if row.strategy]
    best = dict(zip([row.gpus for row in planned], front([goods(dict(r)) for r in planned]), strict=True))
    return [row.model_copy(update={"pareto": best.get(row.gpus, False)}) for row in rows]


def _enveloped(rows: list[CurveRow]) -> list[CurveRow]:
    """Each row with the count, at most its own, that gives most tokens a second: never falls."""
    found, best = [], None
    for row in rows:
        if row.tokens_per_second and (best is None or row.tokens_per_second > (best.tokens_per_second or 0)):
            best = row
        found.append(row.model_copy(update={"envelope_gpus": best.gpus if best else None}))
    return found
