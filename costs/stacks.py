"""Constants and ways of each row's software stack."""

from __future__ import annotations

import numpy as np

from ..models.stack import holder, stack, stacks
from .columns import WORDS, Bools, Floats
from .layout import Layout
from .once import once


@once
def stack_constant(layout: Layout, field: str) -> Floats:
    """A constant of each row's software stack, as the site measured it or as the catalogue has it.

    What a stack inherits was measured for the entry it is from, or for the stack itself.
    """
    return stack_constants(layout, field)[layout.strategies.software_stack]


@once
def stack_constants(layout: Layout, field: str) -> Floats:
    """`stack_constant` of every stack of `WORDS`, in its order."""
    constant = layout.cluster.constant
    values = []
    for name in WORDS["software_stack"]:
        inherited = constant(f"stacks/{holder(name, field)}/{field}", float(getattr(stacks()[name], field)))
        values.append(constant(f"stacks/{name}/{field}", inherited))
    return np.array(values)


@once
def exposed_once(layout: Layout) -> tuple[Floats, Floats]:
    """Shares that show of what is reduced or gathered once a step: (beside compute, with nothing beside it).

    The stack's own where its runs had it so, else that of the stack it names.
    """
    own = stack_constant(layout, "data_exposed")
    names, known = WORDS["software_stack"], stacks()
    twins = [names.index(known[name].data_otherwise or name) for name in names]
    codes = np.array(twins)[layout.strategies.software_stack]
    other = stack_constants(layout, "data_exposed")[codes]
    beside = stack_has(layout, "data_overlapped", True)
    return np.where(beside, own, other), np.where(beside, other, own)


@once
def stack_has(layout: Layout, field: str, word: str | int) -> Bools:
    """Whether the stack of each row has `word` as its `field`."""
    known = np.array([getattr(stack(name), field) == word for name in WORDS["software_stack"]])
    found: Bools = known[layout.strategies.software_stack]
    return found
