"""The layers that stages share out: those of the model, then what a job trains to predict further tokens."""

from __future__ import annotations

from typing import NamedTuple

from shardwise.plans import Request


class Stack(NamedTuple):
    """Layers to share out; of them the last ones predict further tokens. `kinds` of all, by depth."""

    layers: int
    modules: int
    kinds: tuple[int, ...]


def stack_of(request: Request) -> Stack:
    """The layers of a request: those of its model, then the modules it trains, of a kind of their own."""
    blocks = [run.block for run in request.model.runs for _ in range(run.layers)]
    kinds = [blocks.index(block) for block in blocks]
    order = sorted(set(kinds))
    modules = request.training.mtp_layers
    found = (*(order.index(kind) for kind in kinds), *(len(order),) * modules)
    return Stack(len(found), modules, found)
