"""How often model states cross the data axis, and in how many bytes a parameter."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ..models.stack import stacks
from .columns import Bools, Floats, Ints
from .held import Held
from .layout import Layout
from .once import once
from .recipes import per_parameter, portion_bytes
from .sharding import cut_weights, sharding
from .stacks import by_stack


def wire_of(zero: ArrayLike, gather: ArrayLike, reduce: ArrayLike) -> tuple[Floats, Floats]:
    """Bytes a parameter of a gather and of a reduction; ZeRO-0 all-reduces, so it gathers gradients."""
    reduced = np.asarray(reduce, dtype=np.float64)
    return np.where(np.asarray(zero) == 0, reduced, gather), reduced


@once
def wires(layout: Layout) -> tuple[Floats, Floats]:
    """`wire_of` each row's recipe, (n,)."""
    return wire_of(
        layout.strategies.zero_stage,
        per_parameter(layout, "wire_gather_bytes"),
        per_parameter(layout, "wire_reduce_bytes"),
    )


@once
def gathered(layout: Layout) -> Held:
    """Bytes that a gather moves: the trained weights, and frozen ones where they are sharded.

    Weights that every rank holds whole are gathered after the step alone, when the trained ones changed.
    """
    found = Held.whole(layout.trained).scaled(wires(layout)[0])
    for portion in layout.portions[1:]:
        each = portion_bytes(layout, portion, "wire_gather_bytes")
        found = found.beside(Held.whole(portion).scaled(np.where(cut_weights(layout, portion), each, 0.0)))
    return found


@once
def reduced(layout: Layout) -> Held:
    """Bytes that a reduction moves: gradients of the trained parameters."""
    return Held.whole(layout.trained).scaled(wires(layout)[1])


@once
def passes(layout: Layout) -> tuple[Floats, Floats, Floats, Floats]:
    """How often states of each row cross the data axis (`passes_of`).

    Where a stack's ZeRO-1 or ZeRO-2 sums gradients on all ranks they cross once more: a reduction and a
    gather.
    """
    weights, gradients, _ = sharding(layout)
    zero = layout.strategies.zero_stage
    gather, reduce, gather_once, reduce_once = passes_of(zero, weights, gradients)
    summed = (zero > 0) & (zero <= by_stack(layout, lambda name: stacks()[name].sums_whole))
    twice = np.where(summed, 2.0, 1.0)
    return gather, twice * reduce, gather_once, twice * reduce_once


def passes_of(zero: Ints, weights: Bools, gradients: Bools) -> tuple[Floats, Floats, Floats, Floats]:
    """(gathers, reduces) a micro-batch, then (gathers, reduces) a step.

    ZeRO-3 gathers for forward and backward and reduces, each micro-batch; FSDP without resharding
    gathers once; DeepSpeed ZeRO-2 reduces each micro-batch and gathers once a step; ZeRO-1 does both
    once; ZeRO-0 all-reduces once (a reduction and a gather of the gradient).
    """
    gather = np.where(weights, np.where(zero == 3, 2.0, 1.0), 0.0)
    reduce = np.where(gradients, 1.0, 0.0)
    return gather, reduce, np.where(weights, 0.0, 1.0), np.where(gradients, 0.0, 1.0)
