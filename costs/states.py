"""Model states on a card: weights, gradients, optimizer, and the copies alive only at the step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..models.backend import backend
from ..models.recipe import Recipe
from ..models.strategy import BACKENDS, GRADIENT_DTYPES, PRECISIONS
from .columns import Bools, Floats, Ints
from .layout import Layout
from .terms import Note, Term, kib

_WEIGHTS = Note("w N / d_w", "ZeRO paper, arXiv 1910.02054, section 5; Megatron-LM optimizer docs", "P")
_GRADIENTS = Note("g N / d_g", "ZeRO paper, section 5; FSDP2: reduced shard only", "P")
_OPTIMIZER = Note("o N / d_o, less offloaded layers", "ZeRO paper, section 5", "P")
_STEP = Note("step_bytes N / d_o", "DeepSpeed stage_1_and_2.py, stage3.py: fp32 gradient of the shard", "D")


def recipe_of(layout: Layout, row: int) -> Recipe | None:
    """The byte recipe of one row, None where the backend has none."""
    s = layout.strategies
    return backend(BACKENDS[s.backend[row]]).recipe(
        PRECISIONS[s.precision[row]], GRADIENT_DTYPES[s.gradient_dtype[row]], layout.training.optimizer
    )


def per_parameter(layout: Layout, field: str) -> Floats:
    """`field` of the byte recipe of each row, bytes a parameter; 0 where there is no recipe."""
    s = layout.strategies
    found = np.zeros((len(BACKENDS), len(PRECISIONS), len(GRADIENT_DTYPES)))
    for i, name in enumerate(BACKENDS):
        for j, precision in enumerate(PRECISIONS):
            for k, dtype in enumerate(GRADIENT_DTYPES):
                known = backend(name).recipe(precision, dtype, layout.training.optimizer)
                found[i, j, k] = getattr(known, field) if known else 0.0
    values: Floats = found[s.backend, s.precision, s.gradient_dtype]
    return values


def divided(parameters: ArrayLike, sharded: ArrayLike, ranks: ArrayLike) -> Floats:
    """Parameters on a rank: N / n where this state is sharded over n ranks, else N.

    >>> float(divided(30e9, True, 8))
    3750000000.0
    """
    return np.asarray(parameters, dtype=np.float64) / np.where(sharded, ranks, 1)


@dataclass(frozen=True)
class Held:
    """Parameters of a rank after sharding over `shard` (dense) and `expert_shard` (experts) cards."""

    layer: Floats
    first: Floats
    last: Floats

    @classmethod
    def of(cls, layout: Layout, sharded: Bools) -> Held:
        """What a rank holds where `sharded` says whether this state is sharded at all."""
        wide = sharded[:, None]
        dense = divided(layout.dense_layer, wide, layout.shard[:, None])
        expert = divided(layout.expert_layer, wide, layout.expert_shard[:, None])
        first = divided(layout.embedding, sharded, layout.shard)
        return cls(dense + expert, first, divided(layout.head, sharded, layout.shard))

    def term(self, name: str, note: Note, each: Floats, offloaded: Bools) -> Term:
        """`each` bytes a parameter; where `offloaded`, the root's share is gone and layers' may go."""
        root = np.where(offloaded, 0.0, each)
        layer = self.layer * each[:, None]
        return Term(
            name,
            "stage",
            note,
            kib(
                layer=layer,
                offloaded=-np.where(offloaded[:, None], layer, 0.0),
                first=self.first * root,
                last=self.last * root,
            ),
        )


def sharding(layout: Layout) -> tuple[Bools, Bools, Bools]:
    """Which rows shard weights, gradients, optimizer."""
    s = layout.strategies
    zero = s.zero_stage
    return sharded_from(
        zero, s.by_backend("weights_sharded_from_stage"), s.by_backend("gradients_sharded_from_stage")
    )


def sharded_from(
    zero: Ints, weights_from: Ints | int, gradients_from: Ints | int
) -> tuple[Bools, Bools, Bools]:
    """Which of weights, gradients, optimizer a ZeRO stage shards; the optimizer from stage 1 on."""
    return zero >= weights_from, zero >= gradients_from, zero >= 1


def gradients_offloaded(layout: Layout) -> Bools:
    """Rows whose gradients leave the card as they are reduced: sharded ones of an offloaded optimizer."""
    return sharding(layout)[1] & layout.strategies.is_("offload_optimizer", "cpu")


def state_terms(layout: Layout, moment: str) -> list[Term]:
    """Terms of the model states alive at `moment` (forward, backward, gradients, step)."""
    s = layout.strategies
    weights, gradients, optimizer = sharding(layout)
    on_host = s.is_("offload_optimizer", "cpu")
    terms = [
        Held.of(layout, weights).term(
            "weights", _WEIGHTS, per_parameter(layout, "weights_bytes"), s.is_("offload_params", "cpu")
        ),
        Held.of(layout, optimizer).term(
            "optimizer", _OPTIMIZER, per_parameter(layout, "optimizer_bytes"), on_host
        ),
    ]
    alive = np.full(len(s), moment in ("gradients", "step"))
    alive |= (s.by_backend("gradients_resident") > 0) | (s.gradient_accumulation_steps > 1)
    terms.append(
        Held.of(layout, gradients).term(
            "gradients",
            _GRADIENTS,
            np.where(alive, per_parameter(layout, "gradients_bytes"), 0.0),
            gradients_offloaded(layout),
        )
    )
    if moment == "step":
        terms.append(
            Held.of(layout, optimizer).term("step_copy", _STEP, per_parameter(layout, "step_bytes"), on_host)
        )
    return terms


def local_parameters(layout: Layout) -> tuple[Floats, Floats, Floats]:
    """Parameters whose optimizer step this rank does: (a layer by kind, first stage, last stage)."""
    held = Held.of(layout, sharding(layout)[2])
    return held.layer, held.first, held.last


def rank_parameters(layout: Layout) -> Floats:
    """Unsharded parameters of a layer on a rank, by kind."""
    return layout.dense_layer + layout.expert_layer


def kinds_total(layout: Layout, by_kind: Floats) -> Floats:
    """The sum of `by_kind` over all layers of the model."""
    depth = np.bincount(np.array(layout.transformer.kind_of_layer), minlength=len(layout.blocks))
    total: Floats = (by_kind * depth[None, :]).sum(axis=1)
    return total


def layers_of_kind(layout: Layout) -> Ints:
    """How many layers of each kind the model has."""
    return np.bincount(np.array(layout.transformer.kind_of_layer), minlength=len(layout.blocks)).astype(
        np.int64
    )
