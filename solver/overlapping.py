"""Which switches of overlap a row may have: what the backend runs, what is asked, what can be of use."""

from __future__ import annotations

from itertools import product

from ..models import Strategy
from ..models.backend import Backend, backend
from ..models.overlap import DATA_KNOBS, TENSOR_KNOB, knob, tensor_overlapped, user_buffered
from ..plans import Request
from .software import Software

ISLAND = (
    "tensor ranks overlap in buffers that they write into each other over NVLink: one island holds them all"
)


def overlapping(request: Request, known: Backend, zero: int) -> list[tuple[int, ...]]:
    """Values of the switches offered at a ZeRO stage, in the order of `DATA_KNOBS`.

    What runs beside compute never takes longer, so a switch that nobody speaks of is off only where that
    frees memory, or where the backend has it so.
    """
    asked = {name: values for name in DATA_KNOBS if (values := _asked(request, name))}
    freeing = {knob(switch) for switch, stages in known.overlap.frees.items() if zero in stages}
    found = []
    for values in product((True, False), repeat=len(DATA_KNOBS)):
        on = dict(zip(DATA_KNOBS, values, strict=True))
        if known.overlap.refused(zero, on):
            continue
        usual = known.overlap.usual(zero, {name: on[name] for name in asked})
        offered = {
            name: asked.get(name) or ((True, False) if name in freeing else (usual[name],))
            for name in DATA_KNOBS
        }
        if all(on[name] in offered[name] for name in DATA_KNOBS):
            found.append(tuple(int(value) for value in values))
    return found


def tensor_overlapping(request: Request, software: Software, tensor: int, split: int) -> list[int]:
    """Values of the switch of tensor ranks: as the stack's runs had it, unless a request speaks of it.

    User buffers are another installation, and results are not equal to the last bit.
    """
    fields = {"tensor_parallel": tensor, "sequence_parallel": bool(split)}
    able = software.backend.overlap.cuts(fields) and in_island(request, tensor)
    usual = (able and tensor_overlapped(software.software_stack),)
    return [
        int(on) for on in (True, False) if on in (_asked(request, TENSOR_KNOB) or usual) and (able or not on)
    ]


def in_island(request: Request, tensor: int) -> bool:
    """Whether tensor ranks lie on one island of NVLink, which user buffers need; cards on PCIe are alone."""
    return tensor <= min(request.cluster.node.island_size, request.cluster.gpus)


def overlaps_tensor(request: Request, strategy: Strategy) -> bool:
    """Whether the switch of tensor ranks is priced and can run for `strategy`."""
    cut = backend(strategy.backend).overlap.cuts(strategy.row())
    return cut and user_buffered(request.model) and in_island(request, strategy.tensor_parallel)


def _asked(request: Request, name: str) -> tuple[bool, ...]:
    """The values a request allows a switch: those it lists, or both where a rule names it; none unasked."""
    named = any(name in rule for rule in request.choose.rules)
    return getattr(request.choose, name) or ((True, False) if named else ())
