"""A saved plan as a command takes it up: read, and told when it is not as this program wrote it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..plans import Plan
    from .voice import Voice


def kept_plan(source: str, voice: Voice) -> Plan:
    """The plan in `source`, with a warning where it was edited or made by another ledger.

    Raises `InputError`.
    """
    from ..plans import read_kept

    plan, edited = read_kept(source)
    told = []
    if edited:
        told.append(f"was edited since it was written: {_listed(edited)}")
    told += _elsewhere(plan)
    if told:
        where = "the plan on standard input" if source == "-" else source
        voice.warn(
            f"{where} {' and '.join(told)}; its step time, memory and proof are those from before",
            f"judge it as it stands: shardwise check REQUEST --plan {shlex.quote(source)}",
        )
    return plan


def _elsewhere(plan: Plan) -> list[str]:
    """That another release or another ledger made a plan; nothing of one that this program made."""
    from ..inputs.release import ledger, release

    made, by = plan.versions.get("shardwise", "of no release"), plan.versions.get("ledger", ledger())
    if made != release():
        return [f"was written by shardwise {made}, this is {release()}"]
    if by != ledger():
        return [f"was written by another ledger of shardwise {made} ({by}, this is {ledger()})"]
    return []


def _listed(parts: Sequence[str]) -> str:
    return " and ".join(parts) if len(parts) < 3 else ", ".join(parts[:-1]) + " and " + parts[-1]
