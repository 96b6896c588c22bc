"""The peak as a source measured it: allocated, reserved by the allocator, or of the whole process.

Never compare across the three. Allocated: live tensors of the worst stage and moment. Reserved: with the
allocator's fragmentation and the pools of side streams; never above what the runtime leaves of the card.
Process (nvidia-smi): reserved and the runtime; never above the card.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from ..costs import Ledger
from ..costs.ledger import View
from .record import Record

GIB = 2**20
"""KiB in a GiB."""


def view_of(record: Record) -> View:
    """What `peak_mem_gib` of a row counts: the notes' nvidia-smi goes before `mem_kind`.

    Blank `mem_kind` is reserved.
    """
    kind = record.word("mem_kind")
    if "nvidia-smi" in record.notes or kind == "process" or record.text("source") in _PROCESS:
        return "process"
    return "allocated" if kind == "allocated" else "reserved"


_PROCESS = ("oneflow_dlperf", "qwen_readme")
"""Sources whose readings are those of nvidia-smi though not every line says so."""


def gib_of(record: Record) -> float | None:
    """The measured peak in GiB, None where blank.

    A "G as printed" is a thousand of the MiB that nvidia-smi shows: read as GiB two cards of the Qwen
    README would hold more than they have.
    """
    printed = "g as printed" in record.notes or "printed g" in record.notes
    return (record.number("peak_mem_gib") or 0.0) * (1000 / 1024 if printed else 1.0) or None


def seen(ledger: Ledger, record: Record) -> Ledger:
    """What the source looked at: the pipeline stage that `mem_stage` names, counted from 0, or all.

    Who reads nvidia-smi reads it on one machine, where another stage may hold more.
    """
    stage = record.integer("mem_stage")
    return ledger if stage is None else replace(ledger, stages=(ledger.stages[stage],))


def peak_gib(ledger: Ledger, view: View) -> float:
    """The ledger's peak in GiB under `view`, over the load and all moments of a step."""
    peak = ledger.view_kib(view)
    runtime = max(stage.terms_kib.get("runtime", 0) for stage in ledger.stages)
    room = {"allocated": peak, "reserved": ledger.usable_kib - runtime, "process": ledger.usable_kib}[view]
    load = ledger.load_kib - (0 if view == "process" else runtime)
    return max(min(peak, room), load) / GIB


Verdict = Literal["fits", "risky", "does_not_fit"]


def verdict(ledger: Ledger, risky_share: float) -> Verdict:
    """Whether a run fits: refused by the least it needs, risky where the full peak nears the card."""
    if ledger.refusal_kib > ledger.usable_kib:
        return "does_not_fit"
    return "risky" if ledger.peak_kib > risky_share * ledger.usable_kib else "fits"
