"""Why not: the best plan with a change forced against the plan; terms that grow, the limit that binds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..costs import Ledger
from ..inputs.kinds import refuse_no_mapping, refuse_other
from ..plans import Plan, Request
from ..plans.report import price, seconds
from ..plans.row import Binding, TermChange, Why
from .answer import versions
from .members import CARDS, HOST, members, without
from .points import padded, status
from .priceable import refuse_other_batch
from .reasons import phrase
from .search import Search
from .solved import solved

BINDING_SECONDS = 1.0
"""Deterministic seconds of the search without one limit; what it found by then is told."""

LEAST_GAIN = 0.005
"""Share of the step a limit must cost before it is said to bind."""


def why(plan: Plan, changes: Mapping[str, Any]) -> Why:
    """What the fields of `changes` cost when forced on the request of `plan`. Raises `InputError`."""
    refuse_other(plan, Plan)
    refuse_no_mapping(changes, "changes")
    request = plan.request
    refuse_other_batch(request, plan.strategy)
    forced = request.changed(dict(changes), origin="forced")
    said = ", ".join(f"{field}={_text(value)}" for field, value in changes.items())
    base: dict[str, Any] = {
        "inputs_hash": request.inputs_hash(),
        "versions": versions(),
        "set": said,
        "planned": plan.strategy,
        "planned_step_seconds": plan.time.step_seconds,
        "planned_memory_bytes": plan.memory.total_bytes,
        "planned_tokens": request.training.tokens,
        "forced_tokens": forced.training.tokens,
    }
    answer = solved(forced)
    outcome = answer.outcome
    if outcome.best is None:
        return Why(status=status(outcome), reasons=answer.reasons, **base)
    found = outcome.best
    before = price(padded(request), [plan.strategy])[0]
    after = price(answer.request, [found.strategy])[0]
    base["planned_step_seconds"] = seconds(before.step_ns)  # as priced today, so that the terms add up
    return Why(
        status=status(outcome),
        held=found.strategy == plan.strategy,
        forced=found.strategy,
        forced_step_seconds=seconds(found.step_ns),
        loss_percent=_more(found.step_ns / before.step_ns),
        loss_per_token_percent=_more(
            found.step_ns / forced.training.tokens / (before.step_ns / request.training.tokens)
        ),
        terms=tuple(_terms(before, after)),
        forced_memory_bytes=after.peak_kib * 1024,
        binds=() if answer.uneven else tuple(_binding(forced, found.step_ns)),
        placement=after.placement,
        **base,
    )


def _more(times: float) -> float:
    """How many percent more `times` as much are."""
    return round(100.0 * (times - 1.0), 4)


def _text(value: object) -> str:
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_text(one) for one in value) + "]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _terms(before: Ledger, after: Ledger) -> list[TermChange]:
    """Each time term in both plans, largest growth first; whole nanoseconds, so they add up exactly."""
    names = sorted(set(before.terms_ns) | set(after.terms_ns))
    deltas = {name: after.terms_ns.get(name, 0) - before.terms_ns.get(name, 0) for name in names}
    return [
        TermChange(
            name=name,
            planned_seconds=seconds(before.terms_ns.get(name, 0)),
            forced_seconds=seconds(after.terms_ns.get(name, 0)),
            delta_seconds=seconds(deltas[name]),
        )
        for name in sorted(names, key=lambda name: (-deltas[name], name))
    ]


def _binding(forced: Request, step_ns: int) -> Iterator[Binding]:
    """Limits other than the force without which the step would be shorter, largest gain first."""
    found = []
    for member in members(forced):
        job = member.limit.startswith("training.") or member.limit == CARDS
        if job or member.origin == "forced" or (member.limit == HOST and not _offloads(forced)):
            continue
        free = Search(padded(next(without(forced, [member]))), BINDING_SECONDS)
        free.limit_ns = min(free.limit_ns, int(step_ns * (1.0 - LEAST_GAIN)))
        faster = free.run().best
        if faster is not None:
            found.append((faster.step_ns, member))
    for ns, member in sorted(found, key=lambda pair: (pair[0], pair[1].limit)):
        yield Binding(
            limit=member.limit,
            value=member.value,
            origin=member.origin,
            said=phrase(member),
            resulting_step_seconds=seconds(ns),
        )


def _offloads(request: Request) -> bool:
    """Whether the request lets states live in host memory at all."""
    return request.choose.offload_optimizer != ("none",)
