"""What a backend hides of its communication behind compute, and which of it a launch file switches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from functools import cache
from typing import Literal, get_args

from ..inputs.listed import Listed
from ..inputs.record import dataclass
from .recipe import table

Switch = Literal["gradient_reduce", "parameter_gather"]
SWITCHES: tuple[Switch, ...] = get_args(Switch)


def knob(switch: str) -> str:
    """The field of `Strategy` that holds a switch.

    >>> knob("gradient_reduce")
    'overlap_gradient_reduce'
    """
    return f"overlap_{switch}"


KNOBS = tuple(knob(switch) for switch in SWITCHES)


@dataclass(frozen=True, kw_only=True)
class Overlap(Listed):
    """The switches of a backend: the values each may take at the ZeRO stages 0 to 3, the usual one first."""

    gradient_reduce: tuple[tuple[bool, ...], ...]
    """Reductions of gradients run beside the backward pass."""
    parameter_gather: tuple[tuple[bool, ...], ...]
    """Gathers of weights after a step run beside the forward pass."""
    zero3_gather: Switch
    """The switch that the gathers of ZeRO stage 3 follow."""
    needs: dict[Switch, Switch] = field(default_factory=dict)
    """Switches that are on only with another one on."""

    def usual(self, zero_stage: int, said: Mapping[str, bool]) -> dict[str, bool]:
        """Every knob as the backend has it where `said` does not say."""
        found = dict(said)
        for switch in SWITCHES:
            below = self.needs.get(switch)
            first = getattr(self, switch)[zero_stage][0]
            found.setdefault(knob(switch), first and (below is None or found[knob(below)]))
        return found

    def refused(self, zero_stage: int, on: Mapping[str, bool]) -> tuple[str, ...]:
        """Knobs of `on` whose value is not among those of the ZeRO stage, or lacks the one it needs."""
        values = {switch: getattr(self, switch)[zero_stage] for switch in SWITCHES}
        return tuple(
            knob(switch)
            for switch in SWITCHES
            if on[knob(switch)] not in values[switch]
            or (on[knob(switch)] and switch in self.needs and not on[knob(self.needs[switch])])
        )


@cache
def overlaps() -> dict[str, Overlap]:
    """The switches of every backend by its name."""
    return {name: Overlap.listed(**entry["overlap"]) for name, entry in table("backends").items()}
