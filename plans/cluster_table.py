"""The [cluster] table of a request, made into a cluster."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ..hardware import Cluster, Site
from ..hardware.catalogue import node_names
from ..inputs import InputError, nearest, read_text
from ..inputs.files import parse_json
from ..inputs.origin import as_input_error
from .model_name import exists
from .table import known, number, whole

DESCRIBED = (
    "machine", "gpu", "gpus_per_node", "link", "island_gpus", "nvlink_domain", "nics_per_node",
    "nic_gbit_per_s", "fabric", "host_class", "host_memory_gib", "cpu_cores", "nvme_tb", "usd_per_hour",
    "mig", "topology", "measured_bus_gb_per_s",
)  # fmt: skip
"""Keys of [cluster] that describe its machines (`topology.Description`), beside others or alone."""
CLUSTER_KEYS = (
    "preset", "nodes", "gpus", "oversubscription", "file", "site", *DESCRIBED, "leaf_nodes", "free", "pool"
)  # fmt: skip


def cluster_of(table: Mapping[str, Any], beside: Path | None = None) -> Cluster:
    """The cluster of a [cluster] table: a file, a preset, a description, or all fields spelled out.

    `site` names a file of constants measured there (`calibrate` writes it). A relative file is looked
    for in the folder `beside` first. Raises `InputError` on the dotted field.
    """
    site = table.get("site")
    if isinstance(site, str):
        plain = cluster_of({key: value for key, value in table.items() if key != "site"}, beside)
        return plain.model_copy(update={"site": site_of(site, beside)})
    if "node" in table:
        return _spelled_out(table)
    known(table, CLUSTER_KEYS, "cluster")
    nodes, gpus, spread = _sizes(table)
    said = {key: value for key, value in table.items() if key not in ("file", "preset", "gpus")}
    preset = table.get("preset")
    if "file" in table:
        return _sized(lambda told: _read(table, told, beside), said, gpus)
    if preset is not None:
        _refuse_machines(table)
    if preset is None and any(key in table for key in ("machine", "gpu", "pool")) or table.get("free"):
        from ..hardware.topology import read_own_table

        said = said if preset is None else {"machine": preset, **said}
        return _sized(lambda told: read_own_table(told, beside), said, gpus)
    return _described(_preset(preset, nodes, gpus, spread), said)


def _sizes(table: Mapping[str, Any]) -> tuple[int | None, int | None, float]:
    """Nodes or cards, of which one is given at most, and the oversubscription."""
    nodes, gpus = whole(table, "nodes", "cluster"), whole(table, "gpus", "cluster")
    if nodes is not None and gpus is not None:
        raise _contradiction("gpus", gpus, f"nodes = {nodes}")
    if nodes is not None and nodes > 65536:
        raise InputError("cluster.nodes", nodes, "cluster", "must be at most 65536", legal=["65536"])
    spread = number(table, "oversubscription", "cluster", 1.0)
    if spread < 1:
        raise InputError("cluster.oversubscription", spread, "cluster", "must be at least 1", legal=["1"])
    return nodes, gpus, spread


def _sized(
    read: Callable[[Mapping[str, Any]], Cluster], said: Mapping[str, Any], gpus: int | None
) -> Cluster:
    """What `read` makes of what is `said`, cut or grown to `gpus`; it asks for what several machines need."""
    found = read(said)
    if gpus is None:
        return found
    sized = with_gpus(found, gpus)
    if sized.nodes > found.nodes:
        read({**said, "nodes": sized.nodes})
    return sized


def _contradiction(key: str, value: object, other: str) -> InputError:
    """The error of two keys of which one may be given; `other` is the other one as written."""
    reason = f"contradicts cluster.{other}: give one of the two"
    return InputError(f"cluster.{key}", value, "cluster", reason, code="contradiction")


def _read(table: Mapping[str, Any], said: Mapping[str, Any], beside: Path | None) -> Cluster:
    """The cluster in the file that the table names, with what else is `said`."""
    from ..hardware.topology import read_cluster

    if table.get("preset") is not None:
        raise _contradiction("file", table["file"], f"preset = {table['preset']}")
    return read_cluster(_path(table["file"], beside), said)


def _refuse_machines(table: Mapping[str, Any]) -> None:
    """Refuses what names other machines beside a preset."""
    for key in ("machine", "pool", "topology"):
        if table.get(key):
            raise _contradiction(key, table[key], f"preset = {table['preset']}")


def _described(found: Cluster, said: Mapping[str, Any]) -> Cluster:
    """A preset's cluster with the keys of its own machines that the table gives beside it."""
    if said.get("leaf_nodes") is not None:
        fields = {name: getattr(found, name) for name in Cluster.model_fields}
        found = Cluster(**{**fields, "leaf_nodes": whole(said, "leaf_nodes", "cluster")})
    more = {key: value for key, value in said.items() if key in DESCRIBED}
    if not more:
        return found
    from ..hardware.topology import described

    return described(found, more)


def _path(value: object, beside: Path | None) -> Path:
    """Where a cluster file stands."""
    if not isinstance(value, str) or not value.strip():
        raise InputError(
            "cluster.file", value, "cluster", "must be the path of a file", legal=["cluster.toml"]
        )
    return beside / value if beside and exists(beside / value) else Path(value)


def _preset(preset: object, nodes: int | None, gpus: int | None, spread: float) -> Cluster:
    """Machines of a catalogue type."""
    if preset is None:
        reason = (
            "is required: write preset under [cluster] or give --cluster; a whole request is MODEL "
            "--cluster NAME --global-batch-size N --sequence-length N"
        )
        legal = nearest("dgx-h100", node_names())
        raise InputError("cluster.preset", "nothing", "cluster", reason, legal=legal, code="missing")
    if not isinstance(preset, str):
        reason = "must be the name of a node type"
        raise InputError("cluster.preset", preset, "cluster", reason, legal=["dgx-h100"])
    if gpus is not None:
        return Cluster.of_gpus(preset, gpus, oversubscription=spread)
    return Cluster.preset(preset, nodes=nodes or 1, oversubscription=spread)


def site_of(path: str, beside: Path | None = None) -> Site:
    """The site catalogue in the file `path`. Raises `InputError` on "cluster.site"."""
    field = "cluster.site"
    near = beside / path if beside and exists(beside / path) else Path(path)
    data = parse_json(read_text(near, field), field, path)
    try:
        return Site.model_validate_json(json.dumps(data))
    except ValidationError as error:
        reason = f"is no site catalogue, which `calibrate` writes: {error.errors()[0]['msg']}"
        raise InputError(field, path, path, reason, code="bad-file") from None


def _spelled_out(table: Mapping[str, Any]) -> Cluster:
    """A cluster with all its fields, as `Request` writes it; `gpus` in place of `nodes` is taken too."""
    fields = dict(table)
    gpus = whole(fields, "gpus", "cluster")
    if fields.pop("gpus", None) is not None:
        fields["nodes"] = fields.get("nodes", 1)
    try:
        cluster = Cluster.model_validate(fields)
        return cluster if gpus is None else with_gpus(cluster, gpus)
    except ValidationError as error:
        raise as_input_error(error, {}, "cluster", Cluster) from None


def with_gpus(cluster: Cluster, gpus: int) -> Cluster:
    """`cluster` cut or grown to `gpus` cards: whole nodes, or part of one."""
    if cluster.free or cluster.others:
        reason = f"cannot be set for a cluster of pools or free cards, which has {cluster.gpus}"
        raise InputError("cluster.gpus", gpus, "cluster", reason, legal=[str(cluster.gpus)])
    per_node = cluster.node.gpus
    nodes, rest = divmod(gpus, per_node)
    if nodes and rest:
        reason = f"must be whole nodes of {per_node} cards, or part of one node"
        legal = [str(nodes * per_node), str((nodes + 1) * per_node)]
        raise InputError("cluster.gpus", gpus, "cluster", reason, legal=legal)
    fields = {name: getattr(cluster, name) for name in Cluster.model_fields}
    return Cluster.model_validate({**fields, "nodes": nodes or 1, "cards": None if nodes else rest})
