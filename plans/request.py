"""A question to the search: model, cluster, job, what may be chosen, limits, objective."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from ..hardware import Cluster
from ..inputs import Frozen, InputError, nearest
from ..inputs.kinds import refuse_no_mapping
from ..inputs.origin import as_input_error, origin_of, placed
from ..inputs.quantity import bytes_of
from ..models import Training, Transformer
from ..models.adapters import check_targets
from ..models.modules import check_modules
from .choose import Choose
from .cluster_table import DESCRIBED, cluster_of, with_gpus
from .limits import Limits, Objective
from .model_name import transformer_of
from .training_table import TRAINING_KEYS, training_of

ARGUMENT = "argument"
"""Origin of a value handed to `Request` in Python."""

RIVALS = (
    ("cluster.nodes", "cluster.gpus", "cluster.cards"),
    ("cluster.preset", "cluster.file"),
    ("training.global_batch_size", "training.global_batch_tokens"),
)
"""Fields that say the same thing in two ways: the one given nearer to the user displaces the others."""

_PARTS: dict[str, type[BaseModel]] = {
    "training": Training,
    "choose": Choose,
    "limits": Limits,
    "objective": Objective,
}


class Request(Frozen):
    """What to plan for.

    The stack of `model` ends with the modules that the job trains to predict further tokens
    (`training.mtp_layers`). `model` may be given as a catalogue name or the path of a config.json, `cluster`
    as a table with a preset, `training` as a table: they are made into nouns at once. `origins` tells for a
    dotted field where its value came from (``job.toml:9``, ``--nodes``); it is no part of the hash.

    Raises `InputError` for bad values, as every public type does; pydantic's own `model_validate` raises its
    ValidationError.
    """

    model: Transformer
    cluster: Cluster
    training: Training
    choose: Choose = Choose()
    limits: Limits = Limits()
    objective: Objective = Objective()
    origins: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _remembered(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        origins = data.get("origins") or dict.fromkeys(_given(data), ARGUMENT)
        return {**data, "model": _trained(data, origins), "origins": origins} if "model" in data else data

    @model_validator(mode="after")
    def _targeted(self) -> Self:
        if self.training.way.adapts:
            check_targets(self.model, self.training.lora_targets)
        check_modules(self.model, self.training.recompute_modules, self.origin("training.recompute_modules"))
        return self

    @model_validator(mode="after")
    def _has_price(self) -> Self:
        limit = self.limits.max_usd_per_hour
        if limit is not None and self.cluster.usd_per_hour is None:
            reason = f"cannot be kept: the price of {self.cluster.name} is not known"
            legal = ["give cluster.node.usd_per_hour"]
            origin = self.origin("limits.max_usd_per_hour")
            raise InputError("limits.max_usd_per_hour", limit, origin, reason, legal=legal)
        return self

    @model_validator(mode="after")
    def _counted(self) -> Self:
        cluster = self.cluster
        if self.objective.minimize == "gpus" and (cluster.free or cluster.others):
            reason = "counts cards of a cluster of equal, whole machines"
            origin = self.origin("objective.minimize")
            raise InputError("objective.minimize", "gpus", origin, reason, legal=["step_seconds"])
        return self

    @model_validator(mode="after")
    def _alike(self) -> Self:
        for name in ("max_comm_fraction", "max_uplink_bytes_per_step"):
            value = getattr(self.limits, name)
            if value is not None and self.cluster.others:
                reason = "is kept on machines of one kind only"
                origin = self.origin(f"limits.{name}")
                raise InputError(f"limits.{name}", value, origin, reason, legal=["none"])
        return self

    @field_validator("model", mode="before")
    @classmethod
    def _model(cls, value: Any) -> Any:
        return transformer_of(value) if isinstance(value, str | Path) else value

    @field_validator("cluster", mode="before")
    @classmethod
    def _cluster(cls, value: Any) -> Any:
        return cluster_of(value) if isinstance(value, Mapping) else value

    @field_validator("training", mode="before")
    @classmethod
    def _training(cls, value: Any) -> Any:
        return training_of(value) if isinstance(value, Mapping) else value

    def origin(self, field: str) -> str:
        """Where the value of the dotted `field` came from; "default" when nobody gave it."""
        return origin_of(self.origins, field)

    def machine_origin(self, field: str = "cluster.preset") -> str:
        """Where the value of `field` of the machine or its card came from.

        Its own origin where it has one, else that of what named the card or the machine.
        """
        named = (field, "cluster.gpu", "cluster.machine", "cluster.file", "cluster.pool", "cluster.preset")
        return next((self.origins[name] for name in named if name in self.origins), self.origin(field))

    def inputs_hash(self) -> str:
        """First 16 hex digits of SHA-256 over the canonical JSON without `origins`."""
        data = self.model_dump(mode="json", exclude={"origins"})
        text = json.dumps(data, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def changed(self, values: Mapping[str, Any], origin: str = "change") -> Self:
        """This request with the dotted fields of `values` (from `origin`) replaced and checked again.

        "model", "cluster.preset", "cluster.nodes", "cluster.gpus", "cluster.oversubscription",
        "cluster.leaf_nodes", what describes its machines ("cluster.nic_gbit_per_s"), each field of the
        node and its card ("cluster.node.gpu.memory_usable_bytes") and each field of
        training, choose, limits and objective can be changed. Raises `InputError`.
        """
        refuse_no_mapping(values, "values")
        _refuse_rivals(values, origin)
        parts: dict[str, Any] = {name: getattr(self, name) for name in type(self).model_fields}
        parts["origins"] = {**self.origins, **dict.fromkeys(values, origin)}
        try:
            for field, value in values.items():
                table, _, key = field.partition(".")
                if field == "model":
                    parts["model"] = value
                elif table == "cluster" and key:
                    parts["cluster"] = _other_cluster(parts["cluster"], key, value, origin)
                else:
                    parts[table] = _other_part(parts, table, key, value)
            return type(self).model_validate(parts)
        except ValidationError as error:
            raise as_input_error(error, parts["origins"], of=type(self)) from None
        except InputError as error:
            raise placed(error, parts["origins"]) from None


def _refuse_rivals(values: Mapping[str, Any], origin: str) -> None:
    """Refuses changes that say one thing in two ways."""
    for group in RIVALS:
        first, *others = [field for field in group if values.get(field) is not None] or [""]
        for other in others:
            reason = f"contradicts {first} = {values[first]}: give one of the two"
            raise InputError(other, values[other], origin, reason, code="contradiction")


def _trained(data: Mapping[str, Any], origins: Mapping[str, str]) -> Any:
    """The model of a request, its modules that predict further tokens trained as the job says."""
    model, job = data["model"], data.get("training")
    if isinstance(model, str | Path):
        model = transformer_of(model)
    modules = job.get("mtp_layers", 0) if isinstance(job, Mapping) else getattr(job, "mtp_layers", 0)
    if isinstance(model, Transformer) and isinstance(modules, int):
        return model.predicting(modules, origin_of(origins, "training.mtp_layers"))
    return model


def _given(data: Mapping[str, Any]) -> list[str]:
    """Dotted fields somebody gave: tables by their keys, made nouns by the fields set in them."""
    fields = ["model"] if "model" in data else []
    if "cluster" in data and not isinstance(data["cluster"], Mapping):
        fields.append("cluster")
    for table in ("cluster", *_PARTS):
        part = data.get(table)
        keys = part if isinstance(part, Mapping) else getattr(part, "model_fields_set", ())
        fields += [f"{table}.{key}" for key in sorted(map(str, keys))]
    return fields


def _other_cluster(old: Cluster, key: str, value: Any, origin: str) -> Cluster:
    if key == "preset":
        return cluster_of({"preset": value, "nodes": old.nodes, "oversubscription": old.oversubscription})
    fields = {name: getattr(old, name) for name in type(old).model_fields}
    if key == "gpus":
        whole = isinstance(value, int) and not isinstance(value, bool) and value >= 1
        if not whole:
            reason = "must be a whole number of at least 1"
            raise InputError("cluster.gpus", value, origin, reason, legal=["1"])
        return with_gpus(old, value)
    if key in DESCRIBED:
        from ..hardware.topology import described

        return described(old, {key: value}, origin)
    if key in ("nodes", "oversubscription", "leaf_nodes"):
        fields |= {key: value} | ({"cards": None, "free": ()} if key == "nodes" else {})
    elif key.startswith("node."):
        fields["node"] = _inner(old.node, key.removeprefix("node."), value, "cluster.node")
    else:
        legal = nearest(key, ["preset", "nodes", "gpus", "oversubscription", "leaf_nodes", *DESCRIBED])
        raise InputError(f"cluster.{key}", value, "change", "is not known", legal=legal, code="unknown-field")
    try:
        return type(old).model_validate(fields)
    except ValidationError as error:
        raise as_input_error(error, {}, "cluster", Cluster) from None


def _inner(old: BaseModel, path: str, value: Any, root: str) -> BaseModel:
    """`old` with the number at the dotted `path` replaced and checked again."""
    name, _, rest = path.partition(".")
    known = type(old).model_fields
    if name not in known or (rest and not isinstance(getattr(old, name), BaseModel)):
        legal = [f"{root}.{word}" for word in nearest(name, known)]
        raise InputError(f"{root}.{path}", value, "change", "is not known", legal=legal, code="unknown-field")
    inner = _inner(getattr(old, name), rest, value, f"{root}.{name}") if rest else value
    if not rest and isinstance(value, str) and name.endswith("_bytes"):
        inner = bytes_of(value, f"{root}.{path}", "change")
    try:
        return type(old).model_validate({**{n: getattr(old, n) for n in known}, name: inner})
    except ValidationError as error:
        raise as_input_error(error, {}, root, type(old)) from None


def _displacing(fields: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    """The fields of a job with one set; a batch in tokens takes the place of one in sequences."""
    if key == "global_batch_tokens":
        fields.pop("global_batch_size")
    return {**fields, key: value}


def _other_part(parts: Mapping[str, Any], table: str, key: str, value: Any) -> BaseModel:
    kind = _PARTS.get(table)
    if kind is None or key not in (TRAINING_KEYS if table == "training" else kind.model_fields):
        known = [f"{name}.{field}" for name, part in _PARTS.items() for field in part.model_fields]
        field = f"{table}.{key}" if key else table
        legal = nearest(field, known)
        raise InputError(field, value, "change", "is not known", legal=legal, code="unknown-field")
    if table == "training":
        return training_of(_displacing(dict(parts[table]), key, value))
    try:
        return kind.model_validate({**dict(parts[table]), key: value})
    except ValidationError as error:
        raise as_input_error(error, {}, table, kind) from None
