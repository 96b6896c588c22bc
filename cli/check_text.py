"""A judged strategy as text."""

from __future__ import annotations

from ..plans import Check, Request
from .plan_text import details, memory_lines, stage_table, time_lines
from .tables import items, paragraph
from .words import job, knobs, seconds


def check_text(found: Check, request: Request, verbose: bool) -> str:
    """Verdict, terms and stages of a strategy, and its loss against the best plan."""
    verdict = found.verdict.replace("_", " ")
    lines = [paragraph(f"{verdict}: {job(request)}", "", "  "), items(knobs(found.strategy))]
    lines += [paragraph(f"{breach.reason} ({breach.origin})", "  × ", "    ") for breach in found.breaches]
    lines += [*time_lines(found.time), *memory_lines(found.memory), paragraph(_loss(found), "  ", "    ")]
    lines += ["", stage_table(found.memory, found.strategy)]
    if verbose:
        lines += ["", *details(found.memory, found.time)]
    return "\n".join(lines)


def _loss(found: Check) -> str:
    best = found.best
    if best is None:
        return "the best plan was not searched for"
    if best.step_seconds is None:
        return (
            "no plan fits this request at all"
            if best.status == "infeasible"
            else "no best plan was found in time"
        )
    if found.loss_percent is None or found.loss_percent <= 0:
        return f"as fast as the best plan ({seconds(best.step_seconds)})"
    return f"{found.loss_percent:.1f} % slower than the best plan ({seconds(best.step_seconds)})"
