"""The reference model of a job: weights that stay on the card, its forward pass, its logits."""

from __future__ import annotations

from functools import reduce

import numpy as np

from ..models.counts import count
from ..models.shares import Shares
from ..models.work import forward_ratio
from .collectives import seconds
from .columns import Bools, Floats
from .held import Held
from .kernels import LayerSeconds, head_seconds
from .law import law
from .layout import Layout
from .moments import MOMENTS, Alive
from .overlap import beside
from .portion import Portion
from .recipes import portion_bytes
from .sharding import sharding
from .terms import Note, Term, kib, ns

_WEIGHTS = Note("2 N_ref / (t d), unsharded 2 N_ref / t", "DPO, arXiv 2305.18290; TRL prepare_deepspeed", "D")
_LOGITS = Note(
    "6 T V / t: 16-bit logits and fp32 log-probabilities", "knowledge distillation over logits", "D"
)
_FORWARD = Note("the forward pass of the reference model", "the model's own forward by FLOPs", "D", "s")
_GATHER = Note("one gather of the reference's weights beside its forward", "FSDP prefetch", "D", "s")


def resident(layout: Layout) -> Portion | None:
    """Parameters of the reference on a rank; None where there is none, or adapters are switched off for it.

    Another model than the trained one lies evenly over the layers of the stack.
    """
    training, reference = layout.training, layout.training.reference_model
    if reference is None or (reference == "self" and training.way.adapts):
        return None
    if reference == "self":
        return layout.whole.part("frozen", Shares.all_of(len(layout.counted.towers)))
    each = count(reference).total / layout.transformer.layers / layout.tensor
    wide = np.repeat(each[:, None], len(layout.blocks), axis=1)
    none = np.zeros_like(each)
    return Portion("frozen", wide, np.zeros_like(wide), none, none)


def _cut(layout: Layout) -> Bools:
    """Which rows shard the reference: those that shard the trained weights, if the job says so."""
    return sharding(layout)[0] & layout.training.reference_sharded


def reference_memory(layout: Layout) -> list[Alive]:
    """Weights at every moment, and at the loss the reference's logits where it needs them."""
    found, portion = [], resident(layout)
    if portion is not None:
        held = Held.of(layout, portion, _cut(layout)).scaled(portion_bytes(layout, portion, "weights_bytes"))
        pieces = kib(layer=held.layer, first=held.first, last=held.last)
        found.append(Alive(MOMENTS, Term("reference_weights", "stage", _WEIGHTS, pieces)))
    if layout.training.reference_output == "logits" and layout.training.reference_model:
        entries = layout.tokens * layout.vocabulary / layout.tensor
        pieces = kib(last=law("reference_logits_bytes") * entries)
        found.append(Alive(("forward",), Term("reference_logits", "stage", _LOGITS, pieces)))
    return found


def reference_time(layout: Layout, work: LayerSeconds) -> list[Term]:
    """The reference's forward for each micro-batch, and the gather of its weights beside it."""
    ratio = forward_ratio(layout.training, layout.transformer)
    if not ratio:
        return []
    forward = ratio * work.forward
    pieces = ns(layer=forward, last=ratio * head_seconds(layout) / 3.0)
    terms = [Term("reference_forward", "chunk", _FORWARD, pieces)]
    gathered = _gather_seconds(layout)
    if gathered is not None:
        terms.append(Term("data_comm_exposed", "chunk", _GATHER, ns(layer=beside(forward, gathered))))
    return terms


def _gather_seconds(layout: Layout) -> Floats | None:
    """Seconds to gather a layer of the reference; of the trained base itself under adapters."""
    portion = resident(layout)
    portions = [portion] if portion else list(layout.portions[1:])
    payload = reduce(
        np.add,
        (p.layer * portion_bytes(layout, p, "wire_gather_bytes")[:, None] for p in portions),
    )
    return seconds(layout, "all_gather", np.where(_cut(layout)[:, None], payload, 0.0), layout.shard_group)
