"""A saved plan as a command takes it up: read, and told when somebody edited it since."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..plans import Plan
    from .voice import Voice


def kept_plan(source: str, voice: Voice) -> Plan:
    """The plan in `source`, with a warning where it is not the one that was written. Raises `InputError`."""
    from ..plans import edited, read_plan

    plan = read_plan(source)
    parts = edited(plan)
    if parts:
        listed = " and ".join(parts) if len(parts) < 3 else ", ".join(parts[:-1]) + " and " + parts[-1]
        where = "the plan on standard input" if source == "-" else source
        voice.warn(
            f"{where} was edited since it was written: {listed}; its step time, memory and proof are those "
            "from before",
            f"judge it as it stands: shardwise check REQUEST --plan {source}",
        )
    return plan
