"""Cards and node types by name, without regard to case."""

from __future__ import annotations

from functools import cache
from typing import Any

from ..inputs import InputError, nearest
from .facts import facts
from .gpu import Gpu
from .host import host
from .node import Node


def gpu(name: str, origin: str = "gpu") -> Gpu:
    """The card called `name` or known by that alias. Raises `InputError` with the nearest names."""
    return _gpus()[_known(name, _gpus(), "gpu", origin)]


def node(name: str, origin: str = "node", field: str = "node") -> Node:
    """The node type called `name`. Raises `InputError` for `field` with the nearest names."""
    return _nodes()[_known(name, _nodes(), field, origin)]


@cache
def gpu_names() -> tuple[str, ...]:
    """All cards of the catalogue, without aliases, sorted."""
    return tuple(sorted(entry["name"] for entry in facts("gpus")["gpus"]))


@cache
def node_names() -> tuple[str, ...]:
    """All node types of the catalogue, sorted."""
    return tuple(sorted(entry["name"] for entry in facts("nodes")["nodes"]))


def _known(name: object, known: dict[str, Any], field: str, origin: str) -> str:
    """The key of `name` in `known` (keys are lower case), or one `InputError`."""
    key = name.strip().lower() if isinstance(name, str) else ""
    if key not in known:
        spelled = nearest(str(name), (entry.name for entry in known.values()))
        raise InputError(field, name, origin, "is not in the catalogue", legal=spelled, code="unknown-name")
    return key


@cache
def _gpus() -> dict[str, Gpu]:
    cards = [Gpu.model_validate(entry) for entry in facts("gpus")["gpus"]]
    return {word.lower(): card for card in cards for word in (*card.aliases, card.name)}


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
