"""Our own cluster file (TOML or JSON): a few keys, several pools, free cards, or every field spelled out."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from ...inputs import InputError, nearest
from ..host import NO_HOST
from .checked import checked
from .describe import NOT_GIVEN, Description, assumed_bridge, base_node, card_of, laid_over, no_fabric
from .fabric import settled

if TYPE_CHECKING:
    from ..cluster import Cluster
    from ..node import Node

Beside = Callable[[str], str]
"""The text of a file named in the cluster file."""

WHOLE = ("name", "oversubscription", "leaf_nodes", "free", "pool")
"""Keys of the whole cluster; the others describe one kind of machine, or stand in each [[pool]]."""


def is_own(tree: Mapping[str, Any]) -> bool:
    """Whether a table is a cluster of ours: it names a machine, a card, pools or a whole node."""
    return any(key in tree for key in ("machine", "gpu", "pool", "node", "topology"))


def read_own(tree: Mapping[str, Any], origin: str, beside: Beside) -> Cluster:
    """The cluster that `tree` describes; `topology` names a dump of its machines, read with `beside`."""
    from ..cluster import Cluster

    if "node" in tree:
        return checked(Cluster, tree, origin)
    known = (*WHOLE, *Description.model_fields)
    for key in tree:
        if key not in known:
            legal = nearest(str(key), known)
            raise InputError(
                f"cluster.{key}", tree[key], origin, "is not known", legal=legal, code="unknown-field"
            )
    shared = {key: value for key, value in tree.items() if key not in WHOLE}
    tables = _pools(tree, shared, origin)
    own = tree.get("pool") or []
    pools = [
        _numbered(number, table.keys() - own[number].keys(), partial(_pool, table, origin, beside))
        if "pool" in tree
        else _pool(table, origin, beside)
        for number, table in enumerate(tables)
    ]
    network = {key: tree[key] for key in ("oversubscription", "leaf_nodes") if key in tree}
    free = _free(tree, origin)
    nodes = sum(map(len, free)) if free and "nodes" not in shared else pools[0].nodes
    fields = {
        "name": tree.get("name") or pools[0].name,
        "node": pools[0].node,
        "nodes": nodes,
        "others": [{"node": pool.node, "nodes": pool.nodes} for pool in pools[1:]],
        "free": free,
        "notes": [note for pool in pools for note in pool.notes],
        **({"leaf_nodes": pools[0].leaf_nodes} if tables[0].get("topology") else {}),
        **network,
    }
    return checked(Cluster, fields, origin)


def _pools(tree: Mapping[str, Any], shared: dict[str, Any], origin: str) -> list[dict[str, Any]]:
    """The table of each pool, with the keys that stand above all of them for those that say nothing else."""
    given = tree.get("pool")
    if given is None:
        return [shared]
    if not isinstance(given, list) or not given or not all(isinstance(table, dict) for table in given):
        raise InputError("cluster.pool", given, origin, "must be tables", legal=["[[pool]]"])
    for key, value in shared.items():
        if all(key in table for table in given):
            reason, own = "changes nothing: each [[pool]] says its own", sorted({str(t[key]) for t in given})
            raise InputError(f"cluster.{key}", value, origin, reason, legal=own, code="contradiction")
    return [{**shared, **table} for table in given]


def _free(tree: Mapping[str, Any], origin: str) -> list[list[int]]:
    """Free cards by leaf and machine; one list is one leaf."""
    given = tree.get("free", [])
    if not isinstance(given, list):
        raise InputError(
            "cluster.free", given, origin, "must list free cards by leaf", legal=["[[8, 6], [3]]"]
        )
    return given if any(isinstance(entry, list) for entry in given) or not given else [given]


def _numbered(number: int, shared: Collection[str], read: Callable[[], Cluster]) -> Cluster:
    """What `read` makes of a pool; errors on keys that it does not share name its number among the pools."""
    try:
        return read()
    except InputError as error:
        key = error.field.removeprefix("cluster.")
        if key.partition(".")[0] in shared:
            raise
        field, legal, code = f"cluster.pool.{number}.{key}", error.legal, error.code
        raise InputError(field, error.value, error.origin, error.reason, legal=legal, code=code) from None


def _pool(table: dict[str, Any], origin: str, beside: Beside) -> Cluster:
    """One pool as a cluster: described, or its machines as a dump shows them."""
    from ..cluster import Cluster
    from .recognise import sighting_of

    said, assumed = settled(checked(Description, table, origin), None, origin)
    if said.topology is not None:
        from .assemble import cluster_of_sighting

        seen = sighting_of(beside(said.topology), said.topology)
        found = cluster_of_sighting(seen, said, said.topology)
        return found.model_copy(update={"notes": (*found.notes, *assumed)})
    node = node_of(said, origin)
    notes = (*assumed, *no_fabric(node, said), *assumed_bridge(node, said))
    if not node.host_memory_bytes and said.host_memory_gib is None:
        notes = (*notes, NO_HOST)
    return Cluster(name=said.name or node.name, node=node, nodes=said.nodes or 1, notes=notes)


def node_of(said: Description, origin: str) -> Node:
    """The machine a description alone makes."""
    if said.machine is None and said.gpu is None:
        reason = (
            "is required: neither machine (`list clusters`) nor gpu (`list gpus`) tells what stands there"
        )
        legal = ["H100-SXM-80GB", "A100-SXM-80GB"]
        raise InputError("cluster.gpu", NOT_GIVEN, origin, reason, legal=legal, code="missing")
    card = card_of(said, [], origin) if said.machine is None or said.gpu else None
    found = base_node(said, card, None, origin)
    if said.mig and card is None:
        from .describe import sliced

        card = sliced(found.gpu, said.mig, origin)
    if (said.nodes or 1) > 1 and said.machine is None and said.nic_gbit_per_s is None:
        reason = "is required for several nodes of a machine that the catalogue does not know"
        raise InputError(
            "cluster.nic_gbit_per_s", "nothing", origin, reason, legal=["400", "200"], code="missing"
        )
    return laid_over(found, said, card, origin)


def described(cluster: Cluster, table: Mapping[str, Any], origin: str = "cluster") -> Cluster:
    """`cluster` with what `table` (keys of `Description`) says of its machines laid over them."""
    from ..cluster import Cluster

    said, assumed = settled(checked(Description, table, origin), cluster.node, origin)
    card = card_of(said, [cluster.node.gpu], origin) if said.gpu or said.mig else None
    fields = {name: getattr(cluster, name) for name in Cluster.model_fields}
    fields["notes"] = (*_open(cluster.notes, table), *assumed)
    return checked(Cluster, {**fields, "node": laid_over(cluster.node, said, card, origin)}, origin)


def _open(notes: Iterable[str], table: Mapping[str, Any]) -> Iterator[str]:
    """Notes that ask for none of the keys that `table` gives.

    >>> list(_open(["link not known: as pairs; give link (pairs, pcie)"], {"link": "pcie"}))
    []
    """
    for note in notes:
        asked = note.partition("; give ")[2].replace(",", " ").split()
        if not any(key in asked for key in table):
            yield note


def written(cluster: Cluster) -> str:
    """`cluster` as the text of a file of ours with every field; `read_own` gives back an equal one.

    >>> from shardwise.hardware import Cluster
    >>> written(Cluster.preset("dgx-h100", nodes=2)).splitlines()[0]
    'name = "dgx-h100"'
    """
    return "\n".join(_lines(cluster.model_dump(mode="json", exclude_none=True), "")) + "\n"


def _lines(table: Mapping[str, Any], path: str) -> list[str]:
    """Plain values first, then the tables inside, each under its dotted head."""
    inner = {key: value for key, value in table.items() if isinstance(value, dict)}
    lists = {key: v for key, v in table.items() if isinstance(v, list) and v and isinstance(v[0], dict)}
    found = [f"{key} = {_value(v)}" for key, v in table.items() if key not in inner and key not in lists]
    for key, value in inner.items():
        found += ["", f"[{path}{key}]", *_lines(value, f"{path}{key}.")]
    for key, entries in lists.items():
        for entry in entries:
            found += ["", f"[[{path}{key}]]", *_lines(entry, f"{path}{key}.")]
    return found


def _value(value: Any) -> str:
    """A TOML value: JSON spells text, numbers, truth and lists of them alike, but for a few escapes."""
    return json.dumps(value, ensure_ascii=True).replace("\\u007f", "\\u007F")
