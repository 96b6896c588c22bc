"""What a backend hides of its communication behind compute, and which of it a launch file switches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, get_args

from ..inputs.listed import Listed
from ..inputs.record import dataclass
from .mixers import Attention
from .recipe import table

if TYPE_CHECKING:
    from .transformer import Transformer

DataSwitch = Literal["gradient_reduce", "parameter_gather"]
DATA_SWITCHES: tuple[DataSwitch, ...] = get_args(DataSwitch)
Switch = Literal["gradient_reduce", "parameter_gather", "tensor_parallel"]
SWITCHES: tuple[Switch, ...] = get_args(Switch)


def knob(switch: str) -> str:
    """The field of `Strategy` that holds a switch.

    >>> knob("gradient_reduce")
    'overlap_gradient_reduce'
    """
    return f"overlap_{switch}"


KNOBS = tuple(knob(switch) for switch in SWITCHES)
DATA_KNOBS = tuple(knob(switch) for switch in DATA_SWITCHES)
"""Knobs of what data ranks send."""
TENSOR_KNOB = knob("tensor_parallel")


@dataclass(frozen=True, kw_only=True)
class Overlap(Listed):
    """The switches of a backend.

    Those of data ranks: the values each may take at the ZeRO stages 0 to 3, the usual one first.
    """

    gradient_reduce: tuple[tuple[bool, ...], ...]
    """Reductions of gradients run beside the backward pass."""
    parameter_gather: tuple[tuple[bool, ...], ...]
    """Gathers of weights after a step run beside the forward pass."""
    zero3_gather: DataSwitch
    """The switch that the gathers of ZeRO stage 3 follow."""
    tensor_parallel: bool = False
    """Whether what sequence-parallel tensor ranks send can run beside the products that use it."""
    needs: dict[DataSwitch, DataSwitch] = field(default_factory=dict)
    """Switches that are on only with another one on."""
    frees: dict[DataSwitch, tuple[int, ...]] = field(default_factory=dict)
    """ZeRO stages at which a switch that is off frees memory: that of the second reduce bucket."""
    gather_exposed: float | None = None
    """Share of the weights' gathers after a step that shows where nothing runs beside them, and its rows were
    fitted so; None: as its stack's rows have it."""

    def usual(self, zero_stage: int, said: Mapping[str, bool]) -> dict[str, bool]:
        """Every knob of data ranks as the backend has it where `said` does not say."""
        found = dict(said)
        for switch in DATA_SWITCHES:
            below = self.needs.get(switch)
            first = getattr(self, switch)[zero_stage][0]
            found.setdefault(knob(switch), first and (below is None or found[knob(below)]))
        return found

    def refused(self, zero_stage: int, on: Mapping[str, bool]) -> tuple[str, ...]:
        """Knobs of data ranks whose value is not among those of the ZeRO stage, or lacks the one it needs."""
        values = {switch: getattr(self, switch)[zero_stage] for switch in DATA_SWITCHES}
        return tuple(
            knob(switch)
            for switch in DATA_SWITCHES
            if on[knob(switch)] not in values[switch]
            or (on[knob(switch)] and switch in self.needs and not on[knob(self.needs[switch])])
        )

    def cuts(self, fields: Mapping[str, Any]) -> bool:
        """Whether tensor ranks of a strategy of these `fields` can overlap: each has a part of a sequence."""
        split = fields.get("sequence_parallel") is True and fields.get("tensor_parallel", 1) != 1
        return self.tensor_parallel and split


@cache
def tensor_overlapped(stack: str) -> bool:
    """Whether the runs that a software stack was measured on had their tensor ranks overlap.

    >>> tensor_overlapped("megatron-bridge-2025"), tensor_overlapped("megatron-core-2025")
    (True, False)
    """
    entry = table("stacks").get(stack, {})
    if "tensor_overlapped" in entry:
        return bool(entry["tensor_overlapped"])
    return "parent" in entry and tensor_overlapped(entry["parent"])


def user_buffered(model: Transformer) -> bool:
    """Whether the overlap of tensor ranks is priced: runs tell of it for dense layers of plain attention.

    Transformer Engine has no buffers for experts, nor for the low-rank products of latent attention.
    """
    return all(
        isinstance(kind.attention, Attention)
        and kind.attention.kv_rank is None
        and not kind.feed_forward.experts
        for kind in model.kinds
    )


def usual_overlap(fields: Mapping[str, Any], said: Mapping[str, bool]) -> dict[str, bool]:
    """Every knob as backend and stack of a strategy's `fields` have it where `said` does not say.

    Nothing where `fields` name no backend or ZeRO stage there is.
    """
    known, stage = overlaps().get(str(fields.get("backend"))), fields.get("zero_stage", 0)
    if known is None or not isinstance(stage, int) or not 0 <= stage <= 3:
        return {}
    tensor = known.cuts(fields) and tensor_overlapped(str(fields.get("software_stack")))
    return {TENSOR_KNOB: tensor, **known.usual(stage, said)}


@cache
def overlaps() -> dict[str, Overlap]:
    """The switches of every backend by its name."""
    return {name: Overlap.listed(**entry["overlap"]) for name, entry in table("backends").items()}
