"""Machine types of the catalogue by name, without regard to case."""

from __future__ import annotations

from functools import cache

from ..inputs import InputError
from .facts import facts
from .host import host
from .named import gpu, is_gpu, known
from .node import Node


def node(name: str, origin: str = "node", field: str = "node") -> Node:
    """The node type called `name`. Raises `InputError` for `field` with the nearest names."""
    if is_gpu(name) and name.strip().lower() not in _nodes():
        reason = "is a card, not a node type: name one, or give cluster.gpu and cluster.gpus_per_node"
        raise InputError(field, name, origin, reason, legal=_with(name)[:3], code="unknown-name")
    return _nodes()[known(name, _nodes(), field, origin)]


def _with(card: str) -> list[str]:
    """The node types that hold `card`."""
    return [machine.name for machine in _nodes().values() if machine.gpu == gpu(card)]


@cache
def node_names() -> tuple[str, ...]:
    """All node types of the catalogue, sorted."""
    return tuple(sorted(entry["name"] for entry in facts("nodes")["nodes"]))


@cache
def _nodes() -> dict[str, Node]:
    found = {}
    for entry in facts("nodes")["nodes"]:
        values = {key: value for key, value in entry.items() if key != "host_class"}
        kind = host().host_class(entry["host_class"])
        values["gpu"] = gpu(entry["gpu"])
        values["host_dram_bytes_per_s"] = kind.dram_bytes_per_s
        values["cpu_adam_efficiency"] = kind.adam_efficiency
        found[entry["name"].lower()] = Node.model_validate(values)
    return found
