"""Which switches of overlap a row may have: what the backend runs, what is asked, what can be of use."""

from __future__ import annotations

from itertools import product

from ..models.backend import Backend
from ..models.overlap import KNOBS, knob
from ..plans import Request

FREES: dict[str, dict[int, str]] = {
    "deepspeed": {stage: knob("gradient_reduce") for stage in (1, 2)},
}
"""By backend and ZeRO stage the switch whose turning off frees memory: that of the second reduce bucket."""


def overlapping(request: Request, known: Backend, zero: int) -> list[tuple[int, ...]]:
    """Values of the switches offered at a ZeRO stage, in the order of `KNOBS`.

    What runs beside compute never takes longer, so a switch that nobody speaks of is off only where that
    frees memory, or where the backend has it so.
    """
    asked = {name: values for name in KNOBS if (values := _asked(request, name))}
    freeing = FREES.get(known.name, {}).get(zero)
    found = []
    for values in product((True, False), repeat=len(KNOBS)):
        on = dict(zip(KNOBS, values, strict=True))
        if known.overlap.refused(zero, on):
            continue
        usual = known.overlap.usual(zero, {name: on[name] for name in asked})
        offered = {
            name: asked.get(name) or ((True, False) if name == freeing else (usual[name],)) for name in KNOBS
        }
        if all(on[name] in offered[name] for name in KNOBS):
            found.append(tuple(int(value) for value in values))
    return found


def _asked(request: Request, name: str) -> tuple[bool, ...]:
    """The values a request allows a switch: those it lists, or both where a rule names it; none unasked."""
    named = any(name in rule for rule in request.choose.rules)
    return getattr(request.choose, name) or ((True, False) if named else ())
