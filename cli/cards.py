"""What `show` and `list` tell, as types: each has its own JSON object."""

from __future__ import annotations

from typing import Literal

from ..hardware import Cluster, Tier
from ..inputs import Frozen
from ..models import Transformer, count, training_flops_per_token
from ..plans import Plan


class LayerCard(Frozen):
    """Parameters of one layer of a kind, and how many layers are of it."""

    layers: int
    attention: int
    dense: int
    experts: int
    replicated: int
    total: int
    active: int


class ModelCard(Frozen):
    """A model with its parameters by component; `flops_per_token` of training at `sequence_length`."""

    transformer: Transformer
    parameters_total: int
    parameters_active: int
    embedding: int
    positions: int
    head: int
    final_norm: int
    kinds: tuple[LayerCard, ...]
    sequence_length: int
    flops_per_token: float


class ClusterCard(Frozen):
    """A cluster with its table of tiers."""

    cluster: Cluster
    gpus: int
    usd_per_hour: float | None
    tiers: tuple[Tier, ...]


class Refusal(Frozen):
    """Why a target cannot write a plan: the choice at fault, and the backend whose plans it writes."""

    field: str
    value: str
    reason: str
    backend: str


class Emitted(Frozen):
    """Launch files by name, where they were written, or why not with the best plan that could be."""

    target: str
    files: dict[str, str] = {}
    written: tuple[str, ...] = ()
    refused: Refusal | None = None
    best: Plan | None = None


class Listed(Frozen):
    """One line of a list: a name and its facts, units in the keys."""

    name: str
    facts: dict[str, str | int | float | None]


class Listing(Frozen):
    """All names of one kind."""

    kind: Literal["models", "clusters", "gpus", "stacks"]
    entries: tuple[Listed, ...]


def model_card(model: Transformer) -> ModelCard:
    """The card of `model`, FLOPs at its longest sequence (4,096 tokens where it names none)."""
    counted = count(model)
    length = min(model.max_sequence_length or 4096, 2**24)
    kinds = [
        LayerCard(
            layers=model.kind_of_layer.count(index),
            attention=layer.attention,
            dense=layer.dense,
            experts=layer.experts,
            replicated=layer.replicated,
            total=layer.total,
            active=layer.active,
        )
        for index, layer in enumerate(counted.layers)
    ]
    return ModelCard(
        transformer=model,
        parameters_total=counted.total,
        parameters_active=counted.active,
        embedding=counted.embedding,
        positions=counted.positions,
        head=counted.head,
        final_norm=counted.final_norm,
        kinds=tuple(kinds),
        sequence_length=length,
        flops_per_token=training_flops_per_token(model, length),
    )


def cluster_card(cluster: Cluster) -> ClusterCard:
    """The card of `cluster`."""
    return ClusterCard(
        cluster=cluster, gpus=cluster.gpus, usd_per_hour=cluster.usd_per_hour, tiers=cluster.tiers().tiers
    )
