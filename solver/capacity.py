"""Memory that a plan may use: of a card, and of a host."""

from __future__ import annotations

from ..costs.host import host_share_bytes
from ..plans import Request


def capacity_kib(request: Request) -> int:
    """Card memory a plan may use: usable bytes less the margin, rounded down to KiB."""
    usable = request.cluster.node.gpu.memory_usable_bytes
    return int((1.0 - request.limits.memory_margin) * usable) // 1024


def host_capacity_kib(request: Request) -> int:
    """Host memory of a node that offloaded states may take, KiB."""
    return request.limits.host_bytes(host_share_bytes(request.cluster.node)) // 1024
