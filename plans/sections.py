"""The tables of a request, [cluster] and [training] and the model's name, made into nouns."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ..hardware import Cluster, Site
from ..hardware.catalogue import node_names
from ..inputs import InputError, nearest, read_text
from ..inputs.files import parse_json
from ..inputs.kinds import path_of
from ..inputs.origin import as_input_error
from ..models import ReadReport, Training, Transformer, explain_config, explain_preset
from .quantity import count_of

DESCRIBED = (
    "machine", "gpu", "gpus_per_node", "link", "island_gpus", "nvlink_domain", "nics_per_node",
    "nic_gbit_per_s", "fabric", "host_class", "host_memory_gib", "cpu_cores", "nvme_tb", "usd_per_hour",
    "mig", "topology", "measured_bus_gb_per_s",
)  # fmt: skip
"""Keys of [cluster] that describe its machines (`topology.Description`), beside others or alone."""
CLUSTER_KEYS = (
    "preset", "nodes", "gpus", "oversubscription", "file", "site", *DESCRIBED, "leaf_nodes", "free", "pool"
)  # fmt: skip
TRAINING_KEYS = ("global_batch_tokens", *Training.model_fields)


def is_path(text: str) -> bool:
    """Whether `text` means a file or folder, not a catalogue name (which may be ``owner/name``)."""
    outright = text.startswith((".", "/", "~")) or "\\" in text or text.count("/") > 1
    ends = (".json", ".toml", ".txt", ".conf")
    return outright or text.lower().endswith(ends) or _exists(Path(text))


def transformer_of(value: str | Path, beside: Path | None = None) -> Transformer:
    """The model behind a catalogue name or the path of a config.json (or its folder).

    A relative path is looked for in the folder `beside` first. Raises `InputError` on field "model".
    """
    return report_of(value, beside).transformer


def report_of(value: str | Path, beside: Path | None = None) -> ReadReport:
    """As `transformer_of`, with the key behind each dimension."""
    text = path_of(value, "model")
    if not text.strip():
        raise InputError("model", text, "model", "is empty", legal=["llama-3.1-8b"])
    near = beside / text if beside and _exists(beside / text) else None
    if near is None and isinstance(value, str) and not is_path(text):
        return explain_preset(text)
    return explain_config(near or Path(text))


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _known(table: Mapping[str, Any], keys: tuple[str, ...], root: str) -> None:
    for key, value in table.items():
        if key not in keys:
            legal = nearest(str(key), keys)
            raise InputError(f"{root}.{key}", value, root, "is not known", legal=legal, code="unknown-field")


def _whole(table: Mapping[str, Any], key: str, root: str) -> int | None:
    value = table.get(key)
    if value is None:
        return None
    field = f"{root}.{key}"
    if isinstance(value, bool) or not isinstance(value, int):
        thousands = re.fullmatch(r"(\d{1,6})[kK]", str(value))
        legal = [str(int(thousands[1]) * unit) for unit in (1024, 1000)] if thousands else ["1"]
        raise InputError(field, value, root, "must be a whole number", legal=legal)
    if value < 1:
        raise InputError(field, value, root, "must be at least 1", legal=["1"])
    if value > 2**40:
        raise InputError(field, value, root, "is too large")
    return value


def _number(table: Mapping[str, Any], key: str, root: str, default: float) -> float:
    value = table.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e9:
        raise InputError(f"{root}.{key}", value, root, "must be a finite number", legal=[f"{default:g}"])
    return float(value)


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
    _known(table, CLUSTER_KEYS, "cluster")
    nodes, gpus = _whole(table, "nodes", "cluster"), _whole(table, "gpus", "cluster")
    if nodes is not None and gpus is not None:
        reason = f"contradicts cluster.nodes = {nodes}: give one of the two"
        raise InputError("cluster.gpus", gpus, "cluster", reason, code="contradiction")
    if nodes is not None and nodes > 65536:
        raise InputError("cluster.nodes", nodes, "cluster", "must be at most 65536", legal=["65536"])
    spread = _number(table, "oversubscription", "cluster", 1.0)
    if spread < 1:
        raise InputError("cluster.oversubscription", spread, "cluster", "must be at least 1", legal=["1"])
    said = {key: value for key, value in table.items() if key not in ("file", "preset", "gpus")}
    if "file" in table:
        if table.get("preset") is not None:
            reason = f"contradicts cluster.preset = {table['preset']}: give one of the two"
            raise InputError("cluster.file", table["file"], "cluster", reason, code="contradiction")
        from ..hardware.topology import read_cluster

        found = read_cluster(_path(table["file"], beside), said)
        return found if gpus is None else with_gpus(found, gpus)
    preset = table.get("preset")
    if preset is not None:
        _refuse_machines(table)
    if preset is None and any(key in table for key in ("machine", "gpu", "pool")) or table.get("free"):
        from ..hardware.topology import read_own_table

        found = read_own_table(said if preset is None else {"machine": preset, **said}, beside)
        return found if gpus is None else with_gpus(found, gpus)
    found = _preset(preset, nodes, gpus, spread)
    if said.get("leaf_nodes") is not None:
        fields = {name: getattr(found, name) for name in Cluster.model_fields}
        found = Cluster(**{**fields, "leaf_nodes": _whole(said, "leaf_nodes", "cluster")})
    more = {key: value for key, value in said.items() if key in DESCRIBED}
    if not more:
        return found
    from ..hardware.topology import described

    return described(found, more)


def _refuse_machines(table: Mapping[str, Any]) -> None:
    """Refuses what names other machines beside a preset."""
    for key in ("machine", "pool", "topology"):
        if table.get(key):
            reason = f"contradicts cluster.preset = {table['preset']}: give one of the two"
            raise InputError(f"cluster.{key}", table[key], "cluster", reason, code="contradiction")


def _path(value: object, beside: Path | None) -> Path:
    """Where a cluster file stands."""
    if not isinstance(value, str) or not value.strip():
        raise InputError(
            "cluster.file", value, "cluster", "must be the path of a file", legal=["cluster.toml"]
        )
    return beside / value if beside and _exists(beside / value) else Path(value)


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
    near = beside / path if beside and _exists(beside / path) else Path(path)
    data = parse_json(read_text(near, field), field, path)
    try:
        return Site.model_validate_json(json.dumps(data))
    except ValidationError as error:
        reason = f"is no site catalogue, which `calibrate` writes: {error.errors()[0]['msg']}"
        raise InputError(field, path, path, reason, code="bad-file") from None


def _spelled_out(table: Mapping[str, Any]) -> Cluster:
    """A cluster with all its fields, as `Request` writes it; `gpus` in place of `nodes` is taken too."""
    fields = dict(table)
    gpus = _whole(fields, "gpus", "cluster")
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


def training_of(table: Mapping[str, Any]) -> Training:
    """The job of a [training] table. Raises `InputError` on the dotted field."""
    _known(table, TRAINING_KEYS, "training")
    fields = dict(table)
    length = _whole(fields, "sequence_length", "training")
    tokens = _whole(fields, "global_batch_tokens", "training")
    fields.pop("global_batch_tokens", None)
    if tokens is not None:
        fields["global_batch_size"] = _sequences(tokens, length, fields.get("global_batch_size"))
    for key, flag in (("global_batch_size", "--global-batch-size"), ("sequence_length", "--sequence-length")):
        if fields.get(key) is None:
            reason = f"is required: write it under [training] or give {flag}"
            raise InputError(f"training.{key}", "nothing", "training", reason, code="missing")
    reference = fields.get("reference_model")
    if isinstance(reference, str) and reference != "self":
        fields["reference_model"] = _reference(reference)
    if fields.get("total_tokens") is not None:
        fields["total_tokens"] = count_of(fields["total_tokens"], "training.total_tokens", "training")
    try:
        return Training.model_validate(_plain(fields), strict=True)
    except ValidationError as error:
        raise as_input_error(error, {}, "training", Training) from None


def _plain(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A reference model that `Request` itself spelled out is made a noun first: it is not strict."""
    reference = fields.get("reference_model")
    if not isinstance(reference, Mapping):
        return dict(fields)
    return {**fields, "reference_model": Transformer.model_validate(reference)}


def _reference(name: str) -> Transformer:
    """The reference model of that name or path."""
    try:
        return transformer_of(name)
    except InputError as error:
        field, legal = "training.reference_model", ["self", *error.legal]
        raise InputError(field, name, "training", error.reason, legal=legal, code=error.code) from None


def _sequences(tokens: int, length: int | None, size: object) -> int:
    """Sequences in a global batch given in tokens."""
    field = "training.global_batch_tokens"
    if size is not None:
        reason = f"contradicts training.global_batch_size = {size}: give one of the two"
        raise InputError(field, tokens, "training", reason, code="contradiction")
    if length is None:
        raise InputError(field, tokens, "training", "needs training.sequence_length", code="missing")
    if tokens % length:
        near = [str(n * length) for n in (tokens // length, tokens // length + 1) if n]
        reason = f"must be a multiple of sequence_length {length}"
        raise InputError(field, tokens, "training", reason, legal=near)
    return tokens // length
