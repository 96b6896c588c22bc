"""More cards as a cure: the least larger part of one machine, then the fewest machines."""

from __future__ import annotations

from ..plans import Cure, Request
from .answering import Asking
from .cured import Change, cured, fits_with

MOST_NODES = 64
"""Times the nodes of the request that a cure looks at, at most."""


def more_cards(request: Request, asking: Asking, *also: Change) -> Cure | None:
    """The least number of nodes for which a plan exists: doublings, then between the last two.

    Of a part of a node first the least larger part.
    """
    part = _larger_part(request, asking, also)
    if part is not None:
        return part
    now = 0 if request.cluster.cards is not None else request.cluster.nodes
    fields = {field: value for field, value, _ in also}
    high = max(1, now * 2)
    while not fits_with(request, fields | {"cluster.nodes": high}, asking):
        high *= 2
        if high > max(now, 1) * MOST_NODES:
            return None
    low = max(high // 2, now) + 1
    between = range(low, high) if high <= MOST_NODES else range(0)
    nodes = next((n for n in between if fits_with(request, fields | {"cluster.nodes": n}, asking)), high)
    new = nodes * request.cluster.node.gpus - request.cluster.gpus
    more = ("cluster.nodes", nodes, "take the whole node" if nodes == 1 else "take more nodes")
    return cured(request, asking, *also, more, new_gpus=new) or cured(
        request, asking, *also, more, *_network(request), new_gpus=new
    )


def _larger_part(request: Request, asking: Asking, also: tuple[Change, ...]) -> Cure | None:
    """The fewest cards of the one node that fit, where the request has a part of it."""
    fields = {field: value for field, value, _ in also}
    for cards in range((request.cluster.cards or request.cluster.node.gpus) + 1, request.cluster.node.gpus):
        if fits_with(request, fields | {"cluster.gpus": cards}, asking):
            larger = ("cluster.gpus", cards, "take more cards of the node")
            return cured(request, asking, *also, larger, new_gpus=cards - request.cluster.gpus)
    return None


def _network(request: Request) -> tuple[Change, Change]:
    """The network that the ledger takes for machines of which nobody told one: several must have it."""
    node = request.cluster.node
    rate = ("cluster.nic_gbit_per_s", node.nic_bytes_per_s * 8 / 1e9, "say the rate of their network")
    return rate, ("cluster.nics_per_node", node.nics, "its cards in a machine")
