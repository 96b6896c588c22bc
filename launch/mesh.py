"""The mesh that Accelerate reads from its environment."""

from __future__ import annotations

from ..inputs import InputError
from .bundle import Bundle, whole
from .trainer import TRUE

MESH = "ACCELERATE_USE_PARALLELISM_CONFIG"
"""Whether it reads one at all."""
ULYSSES = "PARALLELISM_CONFIG_SP_SIZE"
"""DeepSpeed ranks that share a sequence."""


def ranks_of(bundle: Bundle, axis: str, world: int) -> int:
    """Ranks along the axis of a variable, 1 where a bundle sets no mesh."""
    used, said = bundle.variable(MESH), bundle.variable(axis)
    if used is None or said is None or used.value.lower() not in TRUE:
        return 1
    ranks = whole(said.value, axis, said.where)
    if ranks < 1 or world % ranks:
        raise InputError(axis, ranks, said.where, f"does not divide {world} processes", legal=["1"])
    return ranks
