"""What a request allows: values of knobs, rules on them, the reach of tensor parallel, limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shardwise.plans import Request

GIVEN_BY_HOST = 0.9
"""Share of a node's memory that offloaded states may take when the request sets no limit."""


def wished(request: Request, knob: str, value: object) -> bool:
    """Whether the request leaves `knob` free or lists `value` for it."""
    allowed = getattr(request.choose, knob)
    return allowed is None or value in allowed


def recompute_words(request: Request) -> tuple[str, ...]:
    """What a layer may be: kept, recomputed in part, recomputed whole."""
    return tuple(request.choose.recompute or ("none", "selective", "full"))


def obeys(text: str, knobs: Mapping[str, Any]) -> bool:
    """Whether numbers obey a rule by Python's own arithmetic; flags count as 0 and 1."""
    numbers = {name: int(value) for name, value in knobs.items() if not isinstance(value, str)}
    return bool(eval(text, {"__builtins__": {}}, numbers))


def tensor_reach(request: Request) -> int:
    """Cards a tensor-parallel group may span: those of one island, node, leaf, or all."""
    cluster = request.cluster
    node = cluster.node
    tier = request.limits.tensor_parallel_within
    if tier is None or tier == "spine":
        return cluster.gpus
    if tier == "leaf":
        return min(cluster.leaf_nodes * node.gpus, cluster.gpus)
    return min(node.gpus if tier == "node" else node.island_size, cluster.gpus)


def paid_for(request: Request) -> bool:
    """Whether all machines together cost at most what an hour may cost."""
    limit, each = request.limits.max_usd_per_hour, request.cluster.node.usd_per_hour
    return limit is None or (each is not None and each * request.cluster.nodes <= limit)


def card_kib(request: Request) -> int:
    """Memory of a card that a plan may use: what a process can allocate, less the margin, whole KiB."""
    return int((1.0 - request.limits.memory_margin) * request.cluster.node.gpu.memory_usable_bytes) // 1024


def host_kib(request: Request) -> int:
    """Host memory of a node that offloaded states may use, whole KiB."""
    limit, given = (
        request.limits.host_memory_bytes,
        int(request.cluster.node.host_memory_bytes * GIVEN_BY_HOST),
    )
    if limit is None:
        return given // 1024
    return (min(limit, given) if given else limit) // 1024


def uplink_bytes(request: Request) -> int | None:
    """What the network cards of a machine may send in a step."""
    return request.limits.max_uplink_bytes_per_step


def shown_share(request: Request) -> int | None:
    """The share of a step for which communication may show, in whole ten-thousandths."""
    share = request.limits.max_comm_fraction
    return None if share is None else int(share * 10_000 + 1e-6)


def deadline_ns(request: Request) -> int | None:
    """The longest step allowed, whole nanoseconds."""
    seconds = request.limits.max_step_seconds
    return None if seconds is None else int(seconds * 1e9)
