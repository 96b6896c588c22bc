"""A fabric named without its generation: read off the rate, or off the machine a card usually comes in."""

from __future__ import annotations

from ..named import gpu
from ..named_nodes import node, node_names
from ..network import Fabric, network
from ..node import Node
from .describe import Description


def settled(said: Description, known: Node | None, origin: str) -> tuple[Description, tuple[str, ...]]:
    """`said` with a fabric of the catalogue in place of a word such as infiniband, and what that assumed.

    `known` is the machine that `said` is laid over, where there is one. Without a rate it is that machine's,
    else that of the first machine of the catalogue with this card and such a fabric; else it stays to ask.
    """
    fabrics = network().family(said.fabric)
    if not fabrics:
        if said.fabric is not None:
            network().fabric(said.fabric, origin, "cluster.fabric")
        return said, ()
    changes: dict[str, object] = {}
    rate, word = said.nic_gbit_per_s, ""
    if rate is None and said.machine is not None:
        known = node(said.machine, origin, "cluster.machine")
    if rate is None and known is None and said.gpu is not None:
        usual = _usual(said.gpu, fabrics, origin)
        if usual is not None:
            known, word = (
                usual,
                f" and {usual.nics} network cards a machine, as in {usual.name} ({usual.source})",
            )
            changes["nics_per_node"] = said.nics_per_node or usual.nics
            changes["nic_gbit_per_s"] = usual.nic_bytes_per_s * 8 / 1e9
    if rate is None and known is not None:
        rate = known.nic_bytes_per_s * 8 / 1e9
    chosen = _carrying(fabrics, rate)
    at = f" at {rate:g} Gbit/s" if rate else ""
    note = f'fabric "{said.fabric}" leaves open which: taken as {chosen.name}{at}{word}'
    return said.model_copy(update={**changes, "fabric": chosen.name}), (note,)


def _carrying(fabrics: tuple[Fabric, ...], rate: float | None) -> Fabric:
    """The first whose port carries `rate`, else the last."""
    met = (fabric for fabric in fabrics if rate is None or (fabric.port_gbit_per_s or rate) >= rate)
    return next(met, fabrics[-1])


def _usual(card: str, fabrics: tuple[Fabric, ...], origin: str) -> Node | None:
    """The first machine of the catalogue with this card and one of these fabrics."""
    own, names = gpu(card, origin, "cluster.gpu"), {fabric.name for fabric in fabrics}
    machines = (node(name) for name in node_names())
    return next((found for found in machines if found.gpu == own and found.fabric in names), None)
