"""How many machines a plan starts on, and how many cards on each."""

from __future__ import annotations

from typing import NamedTuple

from ..inputs import InputError
from ..plans.plan import Plan


class Shape(NamedTuple):
    """`nodes` machines with `cards` ranks each."""

    nodes: int
    cards: int


def shape(plan: Plan) -> Shape:
    """Machines and ranks a machine; whole machines, or a part of one."""
    world, full = plan.strategy.world, plan.request.cluster.node.gpus
    if world <= full:
        return Shape(1, world)
    if world % full:
        reason = f"{world} ranks do not fill machines of {full} cards"
        raise InputError("strategy.data_parallel", plan.strategy.data_parallel, "plan", reason)
    return Shape(world // full, full)
