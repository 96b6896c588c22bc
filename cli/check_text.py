"""A judged strategy as text."""

from __future__ import annotations

from ..models import Strategy
from ..plans import Check, FilesRead, Request
from ..plans.message import Diagnosis
from .plan_text import details, memory_lines, stage_table, time_lines
from .tables import items, paragraph, table
from .words import gib, gibs, job, knobs, seconds, slower, trained


def check_text(found: Check, request: Request, verbose: bool) -> str:
    """Verdict, terms and stages of a strategy, and its loss against the best plan."""
    verdict = found.verdict.replace("_", " ")
    told = paragraph(trained(request.training, request.model), "  ", "    ")
    head = f"refused, memory {verdict}" if found.breaches else verdict
    lines = [paragraph(f"{head}: {job(request)}", "", "  "), told, items(knobs(found.strategy))]
    lines += [paragraph(f"{breach.reason} ({breach.origin})", "  × ", "    ") for breach in found.breaches]
    if found.files is not None:
        lines += _origin(found.files)
    lines += [*time_lines(found.time), *memory_lines(found.memory), paragraph(_loss(found), "  ", "    ")]
    lines += ["", stage_table(found.memory, found.strategy)]
    if found.files is not None and found.files.patch:
        lines += ["", *_patch(found.files)]
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
    layout = "" if best.strategy in (None, found.strategy) else f": {', '.join(knobs(best.strategy))}"
    told = f"the best plan ({seconds(best.step_seconds)}{layout})"
    loss = found.loss_percent or 0.0
    if loss == 0:
        return f"as fast as {told}"
    return f"{slower(loss)} than {told}" + (", which keeps every limit" if loss < 0 else "")


def _origin(read: FilesRead) -> list[str]:
    """The plan the files were written for, and what was edited since."""
    if read.plan_hash is None:
        return []
    job = ", ".join(f"{edit.field} {edit.was}, here {edit.now}" for edit in read.other_job)
    name = f"this is plan {read.plan_hash[:4]}" + (f", made for another job ({job})" if job else "")
    if read.edited:
        changes = ", ".join(f"{edit.field} {edit.was} to {edit.now}" for edit in read.edited)
        return [paragraph(f"{name}, edited: {changes}", "  ", "    ")]
    if read.edited_files:
        names = ", ".join(read.edited_files)
        return [paragraph(f"{name}; {names} edited, no choice of the plan changed", "  ", "    ")]
    return [paragraph(f"{name}, as written", "  ", "    ")]


def _patch(read: FilesRead) -> list[str]:
    """Lines to write otherwise, towards the best plan of the client."""
    step = seconds(read.patched_step_seconds or 0.0)
    head = f"towards the best {read.client} plan ({step} a step):"
    return [head, *(f"  {c.file}:{c.line}  {c.key}: {c.value} -> {c.better}" for c in read.patch)]


def diagnosis_text(found: Diagnosis, strategy: Strategy) -> str:
    """Which term broke, what the ledger expects at that moment, and what fits instead."""
    name = found.term.replace("_", " ")
    head = f"{name} broke it ({found.basis}): {gib(found.term_bytes)} at the {found.moment}"
    lines = [paragraph(head, "  × ", "    "), items(knobs(strategy)), ""]
    rows = [[term.replace("_", " "), gibs(size, 2)] for term, size in found.terms_bytes.items()]
    rows.append(["total", gibs(found.memory_bytes, 2)])
    rows.append(["usable", gibs(found.usable_bytes, 2)])
    lines.append(table([f"expected at the {found.moment}", "GiB"], rows, "  "))
    lines += [paragraph(note, "  ", "    ") for note in found.notes]
    if found.reliefs:
        cures = [
            [
                relief.set.replace(",", ", "),
                gibs(relief.memory_bytes),
                seconds(relief.step_seconds),
            ]
            for relief in found.reliefs
        ]
        lines += ["", table(["any one of these fits", "GiB", "step"], cures, "  ")]
    return "\n".join(lines)
