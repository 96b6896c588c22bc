"""Model states on a card: weights, gradients, optimizer, and the copies alive only at the step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..models.optimizer import ends_bytes
from .columns import Bools, Floats
from .held import Held
from .law import law
from .layout import Layout
from .moments import MOMENTS, PASSES, Alive
from .once import once
from .portion import Portion
from .recipes import per_parameter, portion_bytes
from .sharding import cut_weights, has_secondary, sharding
from .stacks import stack_has
from .terms import Note, Term, kib

_WEIGHTS = Note("w N / d_w", "ZeRO paper, arXiv 1910.02054, section 5; Megatron-LM optimizer docs", "P")
_GRADIENTS = Note("g N / d_g", "ZeRO paper, section 5; FSDP2: reduced shard only", "P")
_SECONDARY = Note(
    "w N / g of the second copy", "ZeRO++, arXiv 2306.10209; DeepSpeed ds_secondary_tensor", "D"
)
_FROZEN = Note("w N / d_w of frozen weights", "LoRA, arXiv 2106.09685; QLoRA, arXiv 2305.14314", "P")
_IN_BACKWARD = Note("g of the largest unit", "torchtune optimizer_in_bwd; LOMO, arXiv 2306.09782", "P")
_OPTIMIZER = Note("o N / d_o, less offloaded layers", "ZeRO paper, section 5", "P")
_STEP = Note(
    "step_bytes min(N / d_o, sub-group under ZeRO-3)",
    "DeepSpeed stage_1_and_2.py, stage3.py: fp32 gradient of the shard, under ZeRO-3 a sub-group at a time; "
    "fused_optimizer.py, fp16 without ZeRO: twice",
    "D",
)
_FOREACH = Note(
    "4 N / d_o, 2 without master weights", "PyTorch foreach Adam: one more state; FSDP memory oracle", "D"
)


@once
def whole_in_16_bits(layout: Layout) -> Bools:
    """Rows whose one card holds all weights in 16 bits already: nothing is cast or gathered before use."""
    short = per_parameter(layout, "weights_bytes") <= 2.0
    found: Bools = np.logical_and(short, layout.shard == 1)
    return found


def gradients_offloaded(layout: Layout) -> Bools:
    """Rows whose gradients leave the card as they are reduced: sharded ones of an offloaded optimizer."""
    return sharding(layout)[1] & layout.strategies.away("offload_optimizer")


def weight_bytes(layout: Layout, portions: Sequence[Portion]) -> Held:
    """Bytes of the resident weights of some portions on a rank."""
    none = np.zeros_like(layout.embedding)
    empty = np.zeros_like(layout.trained.dense)
    found = Held(empty, empty, none, none)
    for portion in portions:
        held, each = _resident(layout, portion)
        found = found.beside(held.scaled(each))
    return found


def _resident(layout: Layout, portion: Portion) -> tuple[Held, Floats]:
    """A portion's weights on a rank, in weights of a layer, and the bytes of one."""
    each, ends = (portion_bytes(layout, portion, f"{of}weights_bytes") for of in ("", "ends_"))
    held = Held.of(layout, portion, cut_weights(layout, portion))
    share = np.divide(ends, each, out=np.ones_like(each), where=each > 0.0)
    return replace(held, first=held.first * share, last=held.last * share), each


def state_terms(layout: Layout) -> list[Alive]:
    """Terms of the model states."""
    sharded, on_host = _stepped(layout), layout.strategies.away("offload_optimizer")
    copy = per_parameter(layout, "step_bytes") * window(layout, sharded) * _flattened(layout)
    return [
        *(Alive(MOMENTS, term) for term in lasting_terms(layout)),
        *_gradients(layout),
        Alive(("step",), sharded.term("step_copy", _STEP, copy, on_host)),
        Alive(("step",), sharded.term("step_temporary", _FOREACH, _foreach_bytes(layout), on_host)),
    ]


@once
def lasting_terms(layout: Layout) -> list[Term]:
    """Terms of the model states alive at every moment: weights and optimizer."""
    sharded, on_host = _stepped(layout), layout.strategies.away("offload_optimizer")
    terms = [*(_weights(layout, portion) for portion in layout.portions), _secondary_weights(layout)]
    terms.append(sharded.term("optimizer", _OPTIMIZER, per_parameter(layout, "optimizer_bytes"), on_host))
    if more := ends_bytes(layout.training):
        none = np.zeros_like(sharded.layer)
        ends = Held(none, none, sharded.first, sharded.last)
        terms.append(ends.term("optimizer", _OPTIMIZER, np.full(len(on_host), more), on_host))
    return terms


@once
def _stepped(layout: Layout) -> Held:
    """Parameters whose optimizer step a rank does."""
    return Held.of(layout, layout.trained, sharding(layout)[2])


def window(layout: Layout, sharded: Held) -> Floats:
    """Share of a rank's parameters that the step works on at once: DeepSpeed ZeRO-3 goes by sub-groups."""
    s = layout.strategies
    stages = s.pipeline_parallel
    whole = kinds_total(layout, sharded.layer) / stages + sharded.first + sharded.last
    grouped = s.is_("backend", "deepspeed") & (s.zero_stage == 3)
    share = law("sub_group_elements") / np.maximum(whole, 1.0)
    return np.where(grouped, np.minimum(share, 1.0), 1.0)


def _flattened(layout: Layout) -> Floats:
    """Times the fp32 gradients lie there at the step: twice in fp16 without ZeRO, which flattens them."""
    s = layout.strategies
    apart = s.is_("backend", "deepspeed") & (s.zero_stage == 0) & s.is_("precision", "fp16")
    return np.where(apart, 2.0, 1.0)


def _foreach_bytes(layout: Layout) -> Floats:
    """Bytes a parameter of the temporary of an Adam that steps all parameters together."""
    each = 4.0 if layout.training.master_weights else 2.0
    adam = layout.training.optimizer in ("adamw", "adamw-bf16")
    whole = adam and not layout.training.optimizer_in_backward
    return np.where(stack_has(layout, "step_kernel", "foreach"), each if whole else 0.0, 0.0)


def _weights(layout: Layout, portion: Portion) -> Term:
    name, note = ("weights", _WEIGHTS) if portion.name == "trained" else ("frozen_weights", _FROZEN)
    held, each = _resident(layout, portion)
    return held.term(name, note, each, layout.strategies.away("offload_params"))


def _secondary_weights(layout: Layout) -> Term:
    """The second copy of sharded weights, from the first forward pass of a step to its end."""
    second = has_secondary(layout)
    if not second.any():
        return Term("secondary_weights", "stage", _SECONDARY, {})
    none = np.zeros_like(layout.embedding)
    held = Held(np.zeros_like(layout.trained.dense), np.zeros_like(layout.trained.dense), none, none)
    for portion in layout.portions:
        each = portion_bytes(layout, portion, "weights_bytes") / layout.strategies.secondary_shard_group_size
        kept = np.where(second & cut_weights(layout, portion), each, 0.0)
        held = held.beside(Held.whole(portion).scaled(kept))
    pieces = kib(layer=held.layer, first=held.first, last=held.last)
    return Term("secondary_weights", "stage", _SECONDARY, pieces)


@once
def with_gradients(layout: Layout) -> Portion:
    """Parameters that have a gradient: the trained ones, and frozen ones in one flat parameter with them."""
    flat = layout.strategies.is_("backend", "fsdp") & (layout.strategies.zero_stage >= 2)
    flat = flat & stack_has(layout, "flat_units", True) & layout.training.way.adapts
    trained = layout.trained
    for portion in layout.portions[1:]:
        beside = np.where(flat & (portion.name == "frozen"), 1.0, 0.0)[:, None]
        trained = replace(
            trained,
            dense=trained.dense + beside * portion.dense,
            expert=trained.expert + beside * portion.expert,
        )
    return trained


def _gradients(layout: Layout) -> list[Alive]:
    """Gradients of the trained parameters; of one unit alone where each is used as it comes.

    At the end of the backward those of FSDP's root are not reduced yet (`buffers`) unless some are kept.
    """
    s, each = layout.strategies, gradient_bytes(layout)
    held = Held.of(layout, with_gradients(layout), sharding(layout)[1])
    if layout.training.optimizer_in_backward:
        unit = np.maximum(held.layer.max(axis=1), np.maximum(held.first, held.last))
        term = Term("gradients", "stage", _IN_BACKWARD, kib(fixed=each * unit))
        return [Alive(("backward", "gradients"), term)]
    kept = (s.by_backend("gradients_resident") > 0) | (s.gradient_accumulation_steps > 1)
    root = np.where(kept | whole_in_16_bits(layout), 1.0, 0.0)
    reduced = Held(held.layer, held.expert, held.first * root, held.last * root)
    away = gradients_offloaded(layout)
    return [
        Alive(PASSES, held.term("gradients", _GRADIENTS, np.where(kept, each, 0.0), away)),
        Alive(("gradients",), reduced.term("gradients", _GRADIENTS, each, away)),
        Alive(("step",), held.term("gradients", _GRADIENTS, each, away)),
    ]


@once
def gradient_bytes(layout: Layout) -> Floats:
    """Bytes of a gradient; kept whole between micro-batches it has the type it is reduced in."""
    each = per_parameter(layout, "gradients_bytes")
    if layout.training.sync_each_batch:
        return each
    s = layout.strategies
    whole = (s.by_backend("gradients_sharded_from_stage") <= s.zero_stage) & (
        s.gradient_accumulation_steps > 1
    )
    return np.where(whole, per_parameter(layout, "wire_reduce_bytes"), each)


def local_parameters(layout: Layout) -> tuple[Floats, Floats, Floats]:
    """Parameters whose optimizer step this rank does: (a layer by kind, first stage, last stage)."""
    held = _stepped(layout)
    return held.layer, held.first, held.last


def kinds_total(layout: Layout, by_kind: Floats) -> Floats:
    """The sum of `by_kind` over all layers of the model."""
    depth = np.bincount(np.array(layout.transformer.kind_of_layer), minlength=len(layout.blocks))
    total: Floats = (by_kind * depth[None, :]).sum(axis=1)
    return total
