"""What `show` and `list` tell, as types: each has its own JSON object."""

from __future__ import annotations

from typing import Literal

from ..hardware import Cluster, Tier
from ..hardware.topology import Islands, Machine, Sighting
from ..inputs import Frozen
from ..models import (
    Divisor,
    LayerCount,
    ReadReport,
    Tower,
    Transformer,
    count,
    divisors,
    training_flops_per_token,
)
from ..plans import Plan

Scalar = bool | int | float | str | tuple[int, ...] | tuple[float, ...] | tuple[str, ...] | None
"""What a key of a config.json holds, once read."""


class LayerCard(Frozen):
    """Parameters of one layer of a kind, and how many layers are of it."""

    layers: int
    attention: int
    dense: int
    experts: int
    replicated: int
    total: int
    active: int


class TowerCard(Frozen):
    """Parameters of a tower beside the stack, its connector among them."""

    name: str
    family: str
    layers: int
    parameters: int
    connector: int


class KeyCard(Frozen):
    """A number of the model, and the key of the file or the formula that gave it."""

    number: str
    value: Scalar
    source: str


class ModelCard(Frozen):
    """A model with its parameters by component; `flops_per_token` of training at `sequence_length`.

    Embedding, positions, head, norm, `other`, towers and layers add up to `parameters_total`;
    `parameters_predictor` (layers that predict further tokens) is apart. `keys` tells where each number
    is from, `defaults` what the class takes for keys that are left out, `ignored` the keys that changed
    nothing, `divisors` which degrees the shape allows and why.
    """

    transformer: Transformer
    parameters_total: int
    parameters_active: int
    parameters_predictor: int
    embedding: int
    positions: int
    head: int
    final_norm: int
    other: int
    towers: tuple[TowerCard, ...]
    kinds: tuple[LayerCard, ...]
    sequence_length: int
    flops_per_token: float
    keys: tuple[KeyCard, ...]
    defaults: dict[str, Scalar]
    ignored: tuple[str, ...]
    notes: tuple[str, ...]
    divisors: tuple[Divisor, ...]


class ClusterCard(Frozen):
    """A cluster with its table of tiers."""

    cluster: Cluster
    gpus: int
    usd_per_hour: float | None
    tiers: tuple[Tier, ...]


class MachineCard(Frozen):
    """One machine as it was seen: islands and cliques of cards, the network cards next to each card."""

    name: str
    cards: int
    card: str
    nics: tuple[str, ...]
    link: str
    islands: tuple[tuple[int, ...], ...]
    cliques: tuple[tuple[int, ...], ...]
    rails: tuple[tuple[str, ...], ...]
    complete: bool


class SeenCard(Frozen):
    """Machines of a file that leaves open which cards they hold: what was seen, and the question."""

    machines: tuple[MachineCard, ...]
    notes: tuple[str, ...]
    question: str


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

    kind: Literal["models", "clusters", "gpus", "stacks", "optimizers"]
    entries: tuple[Listed, ...]


def model_card(report: ReadReport) -> ModelCard:
    """The card of a model that was read, FLOPs at its longest sequence (4,096 tokens where it names none)."""
    model = report.transformer
    counted = count(model)
    length = min(model.max_sequence_length or 4096, 2**24)
    return ModelCard(
        transformer=model,
        parameters_total=counted.total,
        parameters_active=counted.active,
        parameters_predictor=counted.predictor,
        embedding=counted.embedding - sum(counted.towers) - counted.other,
        positions=counted.positions,
        head=counted.head,
        final_norm=counted.final_norm,
        other=counted.other,
        towers=tuple(map(_tower_card, model.towers, counted.towers)),
        kinds=tuple(_layer_card(model, *kind) for kind in enumerate(counted.layers)),
        sequence_length=length,
        flops_per_token=training_flops_per_token(model, length),
        keys=tuple(
            KeyCard(number=name, value=value, source=source) for name, (source, value) in report.used.items()
        ),
        defaults=report.defaults,
        ignored=report.ignored,
        notes=model.notes,
        divisors=divisors(model),
    )


def _tower_card(tower: Tower, parameters: int) -> TowerCard:
    layers = sum(run.layers for run in tower.runs)
    return TowerCard(
        name=tower.name,
        family=tower.family,
        layers=layers,
        parameters=parameters,
        connector=tower.connector,
    )


def _layer_card(model: Transformer, index: int, layer: LayerCount) -> LayerCard:
    return LayerCard(
        layers=model.kind_of_layer.count(index),
        attention=layer.attention,
        dense=layer.dense,
        experts=layer.experts,
        replicated=layer.replicated,
        total=layer.total,
        active=layer.active,
    )


def machine_card(machine: Machine) -> MachineCard:
    """The card of a machine whose matrix was seen."""
    matrix = machine.matrix
    assert matrix is not None
    found = Islands(matrix=matrix)
    return MachineCard(
        name=machine.name,
        cards=matrix.cards,
        card=machine.card,
        nics=matrix.nics,
        link=found.shape,
        islands=found.connected,
        cliques=found.cliques,
        rails=tuple(tuple(matrix.nics[nic] for nic in rail) for rail in found.rails),
        complete=matrix.complete,
    )


def seen_card(sighting: Sighting, question: str) -> SeenCard:
    """What a sighting with matrices shows before anybody says which cards they are."""
    with_matrix = [machine for machine in sighting.machines if machine.matrix]
    notes = [note for m in with_matrix if m.matrix for note in Islands(matrix=m.matrix).notes()]
    return SeenCard(
        machines=tuple(machine_card(machine) for machine in with_matrix),
        notes=tuple(dict.fromkeys([*sighting.notes, *notes])),
        question=question,
    )


def cluster_card(cluster: Cluster) -> ClusterCard:
    """The card of `cluster`."""
    return ClusterCard(
        cluster=cluster, gpus=cluster.gpus, usd_per_hour=cluster.usd_per_hour, tiers=cluster.tiers().tiers
    )
