"""Constants and ways of each row's software stack."""

from __future__ import annotations

import numpy as np

from ..models.stack import holder, stack, stacks
from .columns import WORDS, Bools, Floats
from .layout import Layout
from .once import once


def _per_row(values: list[float], codes: np.ndarray) -> Floats:
    found: Floats = np.array(values)[codes]
    return found


@once
def stack_constant(layout: Layout, field: str) -> Floats:
    """A constant of each row's software stack, as the site measured it or as the catalogue has it.

    What a stack inherits was measured for the entry it is from, or for the stack itself.
    """
    constant = layout.cluster.constant
    values = []
    for name in WORDS["software_stack"]:
        inherited = constant(f"stacks/{holder(name, field)}/{field}", float(getattr(stacks()[name], field)))
        values.append(constant(f"stacks/{name}/{field}", inherited))
    return _per_row(values, layout.strategies.software_stack)


@once
def stack_has(layout: Layout, field: str, word: str | int) -> Bools:
    """Whether the stack of each row has `word` as its `field`."""
    known = np.array([getattr(stack(name), field) == word for name in WORDS["software_stack"]])
    found: Bools = known[layout.strategies.software_stack]
    return found
