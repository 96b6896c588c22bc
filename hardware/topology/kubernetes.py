"""``kubectl get nodes -o json``: what the device plugin and GPU feature discovery say of each node."""

from __future__ import annotations

import re
from typing import Any

from ...inputs import InputError
from .sighting import Machine, Sighting

GPU = "nvidia.com/gpu"
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
_UNITS = {
    "": 1,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}


def looks_like_kubernetes(tree: dict[str, Any]) -> bool:
    """Whether a JSON object is a node or a list of nodes of Kubernetes."""
    items = tree.get("items")
    return tree.get("kind") in ("Node", "NodeList") or (
        isinstance(items, list)
        and any(isinstance(i, dict) and i.get("kind") in ("Node", None) for i in items)
    )


def read_kubernetes(tree: dict[str, Any], origin: str = "kubectl") -> Sighting:
    """Nodes with GPUs, with the cards that can be scheduled. Raises `InputError` where there are none."""
    items = [tree] if tree.get("kind") == "Node" else tree.get("items")
    nodes = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
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


def _table(value: object, *keys: str) -> dict[str, Any]:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _machine(node: dict[str, Any]) -> Machine | None:
    labels, capacity = _table(node, "metadata", "labels"), _table(node, "status", "capacity")
    allocatable = _table(node, "status", "allocatable")
    counted = quantity(labels.get("nvidia.com/gpu.count"))
    product = _first(labels, _PRODUCTS)
    shared = counted if product.endswith(SHARED) else None
    cards = shared or quantity(capacity.get(GPU)) or counted
    if not cards or cards > 1024:
        return None
    free = shared or quantity(allocatable.get(GPU))
    blocked = bool(_table(node, "spec").get("unschedulable")) or not _ready(node)
    memory = quantity(labels.get("nvidia.com/gpu.memory"))
    return Machine(
        name=str(_table(node, "metadata").get("name", "?"))[:200],
        cards=cards,
        free=0 if blocked else min(cards if free is None else free, cards),
        card=product,
        card_bytes=memory * 2**20 if memory else None,
        kind=_first(labels, _KINDS),
        host_memory_bytes=quantity(capacity.get("memory")),
        cpu_cores=quantity(capacity.get("cpu")) or None,
        leaf=_first(labels, _LEAVES),
    )


def _first(labels: dict[str, Any], keys: tuple[str, ...]) -> str:
    """The first of some labels that stands there, nothing without any."""
    return next((str(labels[key])[:80] for key in keys if labels.get(key)), "")


def _ready(node: dict[str, Any]) -> bool:
    """Whether the node says it is ready; one that says nothing is taken to be."""
    conditions = _table(node, "status").get("conditions")
    states = (
        [c.get("status") for c in conditions if isinstance(c, dict) and c.get("type") == "Ready"]
        if isinstance(conditions, list)
        else []
    )
    return not states or states[-1] in ("True", True)


def quantity(value: object) -> int | None:
    """A whole number of a Kubernetes quantity, None for what is none.

    >>> quantity("2113567192Ki"), quantity("8"), quantity("7500m")
    (2164292804608, 8, 7)
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value if 0 <= value < 2**62 else None
    met = re.fullmatch(r"(\d{1,15})(m|k|M|G|T|Ki|Mi|Gi|Ti)?", value) if isinstance(value, str) else None
    if not met:
        return None
    return int(met[1]) // 1000 if met[2] == "m" else int(met[1]) * _UNITS[met[2] or ""]
