"""A machine's devices as JSON: the dump of RAPIDS' topology discovery (rapidsmpf pull request 624)."""

from __future__ import annotations

from typing import Any

from ...inputs import InputError
from .sighting import Machine, Sighting


def looks_like_devices(tree: dict[str, Any]) -> bool:
    """Whether a JSON object lists cards with their NUMA node and network devices."""
    cards = tree.get("gpus")
    return isinstance(cards, list) and any(isinstance(c, dict) and "numa_node" in c for c in cards)


def read_devices(tree: dict[str, Any], origin: str = "devices") -> Sighting:
    """The one machine of the dump. Links between cards are not in it, which is noted."""
    cards = [card for card in tree["gpus"] if isinstance(card, dict)]
    if not 1 <= len(cards) <= 1024:
        raise InputError("cluster.file", len(cards), origin, "must list 1 to 1024 gpus", code="bad-file")
    names = {str(card.get("name", ""))[:80] for card in cards}
    if len(names) > 1:
        raise InputError(
            "cluster.file", sorted(names)[0], origin, "cards differ within the machine", code="bad-file"
        )
    near = [card.get("network_devices") for card in cards]
    nics = {str(nic) for found in near if isinstance(found, list) for nic in found}
    system = tree.get("system")
    host = system.get("hostname", "") if isinstance(system, dict) else ""
    machine = Machine(
        name=str(host)[:200] or "node0", cards=len(cards), card=names.pop(), nics=len(nics) or None
    )
    note = "the dump does not show how the cards reach each other: taken as the card's own link allows"
    return Sighting(format="devices", machines=(machine,), notes=(note,))
