"""Layers and recompute of each pipeline stage of a row.

Rules: layers are even where they divide; else the first and the last chunk hold one layer fewer where
that makes the rest even (embedding and head take a layer's place); else as even as can be, and under
interleaving chunk after chunk is filled and the last ones hold what is left. Software that cuts by cost
(``catalogue/frameworks.json``) fills stage after stage until it has its share of the parameters, the head's
among them. With modules that predict further tokens chunk after chunk is filled, too; the last has them and
the rest (Megatron-Bridge, recipes/deepseek/deepseek_v3.py). Recompute: `full` is
every layer. `selective` under FSDP is the operator rule (every second product), "layer AC" every second
layer whole, "every n-th block" the share 3 (HFU/MFU - 1) of the layers whole, and "K of L layers
recomputed" that. Elsewhere `selective` drops the attention core: priced so under stacks that store it, as
none under those with fused attention; where modules are named, these run again.
"""

from __future__ import annotations

import re
from typing import Literal

from ..models import Stage, Transformer
from ..models.parameters import count
from ..models.stack import Stack
from ..models.training import Module
from .record import Record

Cut = Literal["even", "by-cost"]
"""How software cuts layers over pipeline stages where nobody says."""

_PARTLY = re.compile(r"\b(\d+) of (?:the )?(\d+) layers (?:are )?(?:recomputed|checkpointed)")
_HFU = re.compile(r"hfu (\d+(?:\.\d+)?)%")


Held = tuple[tuple[int, ...], ...]
"""Layers of each chunk of each stage."""


def stage_layers(layers: int, stages: int, chunks: int) -> Held:
    """Layers of each chunk of each stage.

    >>> stage_layers(21, 4, 1), stage_layers(22, 4, 1)
    (((6,), (5,), (5,), (5,)), ((5,), (6,), (6,), (5,)))
    >>> stage_layers(22, 4, 3)
    ((1, 2, 2), (2, 2, 2), (2, 2, 2), (2, 2, 1))
    >>> stage_layers(61, 8, 4)[-2:]
    ((2, 2, 2, 1), (2, 2, 2, 0))
    """
    if layers % (stages * chunks) == 0:
        return ((layers // (stages * chunks),) * chunks,) * stages
    if stages > 1 and (layers + 2) % (stages * chunks) == 0:
        links = [(layers + 2) // (stages * chunks)] * stages * chunks
        links[0], links[-1] = links[0] - 1, links[-1] - 1
        return _by_stage(links, stages)
    if chunks == 1:
        each, more = divmod(layers, stages)
        return tuple((each + (1 if stage < more else 0),) for stage in range(stages))
    return filled(layers, 0, stages, chunks)


def held_layers(transformer: Transformer, stages: int, chunks: int, cut: Cut) -> Held:
    """Layers of each chunk under a way to cut; by cost none is interleaved, and none stays empty."""
    if cut == "by-cost" and chunks == 1 and min(held := _by_cost(transformer, stages)) > 0:
        return tuple((layers,) for layers in held)
    if transformer.mtp_layers:
        return filled(transformer.layers - transformer.mtp_layers, transformer.mtp_layers, stages, chunks)
    return stage_layers(transformer.layers, stages, chunks)


def filled(layers: int, modules: int, stages: int, chunks: int) -> Held:
    """Layers of each chunk where one after another is filled and the last one has `modules` besides.

    >>> filled(61, 1, 16, 1)[-2:], filled(61, 1, 4, 4)[-1], filled(61, 1, 2, 8)[-1]
    (((4,), (2,)), (4, 4, 4, 2), (4, 4, 4, 4, 4, 4, 4, 2))
    """
    each = -(-layers // (stages * chunks))
    links = [max(min(each, layers - each * place), 0) for place in range(stages * chunks)]
    links[-1] += modules
    return _by_stage(links, stages)


def _by_stage(links: list[int], stages: int) -> Held:
    """Links of the chain by the stage that holds them: chunk c of stage i is link c p + i."""
    return tuple(tuple(links[stage::stages]) for stage in range(stages))


def _by_cost(transformer: Transformer, stages: int) -> tuple[int, ...]:
    """Layers of each stage where one is full when its share of the parameters is exceeded.

    A layer costs its matrices, the head its own, embedding and norms nothing (nanotron, models/base.py). A
    last stage of the head alone is priced with a layer of the stage before.
    """
    counted = count(transformer)
    head = transformer.vocab_size * transformer.hidden_size
    costs = [
        counted.layers[kind].total - counted.layers[kind].replicated for kind in transformer.kind_of_layer
    ]
    share = (sum(costs) + head) / stages
    held, reached, stage = [0] * stages, 0, 0
    for cost in costs:
        held[stage] += 1
        reached += cost
        stage += reached > share * (stage + 1)
    if stages > 1 and not held[-1]:
        held[-2:] = [held[-2] - 1, 1]
    return tuple(held)


def whole_share(record: Record) -> float | None:
    """Share of layers that `selective` recomputes whole, None where it means the operator rule."""
    if "layer ac" in record.notes:
        return 0.5
    if (partly := _PARTLY.search(record.notes)) and int(partly[2]):
        return min(int(partly[1]) / int(partly[2]), 1.0)
    found, used = _HFU.search(record.notes), record.number("mfu_pct")
    if "n-th block" in record.notes and found and used:
        return min(max(3.0 * (float(found[1]) / used - 1.0), 0.0), 1.0)
    return None


def stages_of(
    record: Record,
    recompute: str,
    stack: Stack,
    held: Held,
    offload: bool,
    modules: tuple[Module, ...] = (),
) -> tuple[Stage, ...]:
    """The stages of a row whose stages hold chunks of `held` layers."""
    partly = stack.backend == "fsdp" or _PARTLY.search(record.notes)
    share = whole_share(record) if recompute == "selective" and partly else None
    known = bool(modules) or stack.selective_set in ("op", "op-eager", "core", "mla-up")
    by_op = recompute == "selective" and known and share is None
    whole = 1.0 if recompute == "full" else share or 0.0
    return tuple(
        Stage(
            layers=sum(chunks),
            recompute_full_layers=round(whole * sum(chunks)),
            recompute_selective_layers=sum(chunks) if by_op else 0,
            offloaded_layers=sum(chunks) if offload else 0,
            chunk_layers=chunks if len(set(chunks)) > 1 else None,
        )
        for chunks in held
    )
