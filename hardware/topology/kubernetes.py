"""``kubectl get nodes -o json``: what the device plugin and GPU feature discovery say of each node."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from ...inputs import InputError
from ...inputs.quantity import MOST
from ...inputs.record import dataclass
from .sighting import Machine, Sighting

GPU = "nvidia.com/gpu"
COUNT = f"{GPU}.count"
SHARED = "-SHARED"
"""What GPU feature discovery adds to a product whose cards are shared in time or by MPS."""
_LEAVES = (
    "topology.kubernetes.io/rack", "network.topology.nvidia.com/leaf", "network.topology.nvidia.com/block",
    "cloud.google.com/gce-topology-subblock", "topology.k8s.aws/network-node-layer-3",
)  # fmt: skip
"""Labels that name the switch a node hangs on, nearest first (Topograph, GKE, EKS)."""
_PRODUCTS = (
    "nvidia.com/gpu.product", "cloud.google.com/gke-accelerator", "gpu.nvidia.com/model",
    "k8s.amazonaws.com/accelerator", "karpenter.k8s.aws/instance-gpu-name",
)  # fmt: skip
"""Labels that name the card (GPU feature discovery, GKE, CoreWeave, EKS, Karpenter)."""
_KINDS = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
_POWERS = {"": 0, "n": -3, "u": -2, "m": -1, "k": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
_AMOUNT = re.compile(r"(\d{1,15}(?:\.\d{0,9})?)(?:([numkMGTPE]?)|([KMGTPE])i|[eE](\d{1,2}))")
"""A quantity of Kubernetes: decimal with an SI or a binary suffix, or an exponent of ten."""
MOST_CARDS = 1024
"""Cards of one machine."""


def looks_like_kubernetes(tree: dict[str, Any]) -> bool:
    """Whether a JSON object is a node or a list of nodes of Kubernetes."""
    items = tree.get("items")
    return tree.get("kind") in ("Node", "NodeList") or (
        isinstance(items, list)
        and any(isinstance(i, dict) and i.get("kind") in ("Node", None) for i in items)
    )


def read_kubernetes(tree: dict[str, Any], origin: str, lines: Mapping[str, int]) -> Sighting:
    """Nodes with GPUs, with the cards that can be scheduled. Raises `InputError` where there are none.

    `lines` tells on which line of the text each dotted key of `tree` stands.
    """
    alone = tree.get("kind") == "Node"
    items = {"": tree} if alone else _numbered(tree.get("items"))
    nodes = [Node(item, path, origin, lines) for path, item in items.items()]
    machines = [machine for node in nodes if (machine := _machine(node))]
    if not machines:
        reason = f"no node has {GPU} in its capacity: is the device plugin running?"
        raise InputError("cluster.file", f"{len(nodes)} nodes", origin, reason, code="bad-file")
    notes = []
    if len(machines) < len(nodes):
        notes.append(f"{len(nodes) - len(machines)} nodes without GPUs left out")
    if not all(machine.card or machine.kind for machine in machines):
        notes.append("nodes without the label nvidia.com/gpu.product: their cards are not named")
    shared = [machine.name for machine in machines if machine.card.endswith(SHARED)]
    if shared:
        notes.append(f"cards of {len(shared)} nodes are shared by several pods, as {shared[0]}: counted once")
        machines = [m.model_copy(update={"card": m.card.removesuffix(SHARED)}) for m in machines]
    notes.append("allocatable cards are taken as free: pods that hold some now are not in this list")
    return Sighting(format="kubernetes", machines=tuple(machines), notes=tuple(notes))


def _numbered(items: object) -> dict[str, dict[str, Any]]:
    """The tables of a list by their path."""
    listed = items if isinstance(items, list) else []
    return {f"items.{number}.": item for number, item in enumerate(listed) if isinstance(item, dict)}


@dataclass
class Node:
    """One node of the list, where it stands, and on which line each key of the text does."""

    tree: dict[str, Any]
    path: str
    origin: str
    lines: Mapping[str, int]

    def table(self, *keys: str) -> dict[str, Any]:
        """The table under `keys`, an empty one where there is none."""
        value: object = self.tree
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        return value if isinstance(value, dict) else {}

    def amount(self, *keys: str) -> int | None:
        """The quantity under `keys`, None where nobody said it. Raises `InputError` for what is none."""
        value = self.table(*keys[:-1]).get(keys[-1])
        if value in (None, ""):
            return None
        found = quantity(value)
        legal = ["2113567192Ki", "2Ti"] if keys[-1] == "memory" else ["8"]
        if found is None:
            raise self._wrong(keys, value, "is no quantity of Kubernetes", legal)
        if keys[-1] in (GPU, COUNT) and found > MOST_CARDS:
            raise self._wrong(keys, value, f"is more than {MOST_CARDS} cards", legal)
        return found

    def _wrong(self, keys: tuple[str, ...], value: object, reason: str, legal: list[str]) -> InputError:
        line = self.lines.get(self.path + ".".join(keys))
        return InputError(
            ".".join(keys), value, f"{self.origin}:{line}" if line else self.origin, reason, legal=legal
        )


def _machine(node: Node) -> Machine | None:
    labels = node.table("metadata", "labels")
    counted = node.amount("metadata", "labels", COUNT)
    product = _first(labels, _PRODUCTS)
    shared = counted if product.endswith(SHARED) else None
    cards = shared or node.amount("status", "capacity", GPU) or counted
    if not cards:
        return None
    free = shared or node.amount("status", "allocatable", GPU)
    blocked = bool(node.table("spec").get("unschedulable")) or not _ready(node)
    memory = node.amount("metadata", "labels", "nvidia.com/gpu.memory")
    return Machine(
        name=str(node.table("metadata").get("name", "?"))[:200],
        cards=cards,
        free=0 if blocked else min(cards if free is None else free, cards),
        card=product,
        card_bytes=memory * 2**20 if memory else None,
        kind=_first(labels, _KINDS),
        host_memory_bytes=node.amount("status", "capacity", "memory"),
        cpu_cores=node.amount("status", "capacity", "cpu") or None,
        leaf=_first(labels, _LEAVES),
    )


def _first(labels: dict[str, Any], keys: tuple[str, ...]) -> str:
    """The first of some labels that stands there, nothing without any."""
    return next((str(labels[key])[:80] for key in keys if labels.get(key)), "")


def _ready(node: Node) -> bool:
    """Whether the node says it is ready; one that says nothing is taken to be."""
    conditions = node.table("status").get("conditions")
    states = (
        [c.get("status") for c in conditions if isinstance(c, dict) and c.get("type") == "Ready"]
        if isinstance(conditions, list)
        else []
    )
    return not states or states[-1] in ("True", True)


def quantity(value: object) -> int | None:
    """A whole number of a Kubernetes quantity, None for what is none.

    >>> quantity("2113567192Ki"), quantity("8"), quantity("7500m"), quantity("1.5Gi"), quantity("2e3")
    (2164292804608, 8, 7, 1610612736, 2000)
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value if 0 <= value < MOST else None
    met = _AMOUNT.fullmatch(value) if isinstance(value, str) else None
    if not met:
        return None
    if met[3]:
        found = Decimal(met[1]) * 1024 ** _POWERS[met[3].replace("K", "k")]
    else:
        found = Decimal(met[1]).scaleb(int(met[4]) if met[4] else 3 * _POWERS[met[2] or ""])
    return int(found) if found < MOST else None
