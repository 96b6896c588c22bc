"""Machines of one kind in a cluster that has several kinds."""

from __future__ import annotations

from pydantic import Field

from ..inputs import Frozen
from .node import Node

MAX_NODES = 65536


class Pool(Frozen):
    """`nodes` equal machines beside those of another pool."""

    node: Node
    nodes: int = Field(ge=1, le=MAX_NODES)

    @property
    def gpus(self) -> int:
        """Cards of the pool."""
        return self.nodes * self.node.gpus
