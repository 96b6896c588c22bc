"""What ranks hand each other of hidden states and how much of it shows: tensor, expert, pipeline ranks."""

from __future__ import annotations

import numpy as np

from ..models.overlap import user_buffered
from .collectives import point_to_point, seconds
from .columns import Bools, Floats
from .dispatch import exchange_seconds, gather_seconds, hidden_bytes, slower_away
from .experts import has_experts
from .group import Group
from .kernels import LayerSeconds
from .law import law
from .layout import Layout
from .once import once
from .overlap import beside, shown
from .run_again import exchange_again, pairs_again
from .schedule import pairs_passes
from .stacks import exposed, stack_constant, stack_has
from .terms import Note, Term, ns
from .traffic import (
    boundary_bytes,
    copied_bytes,
    layer_gather_bytes,
    tensor_pairs,
)

_TENSOR = Note(
    "X (pairs (AG + RS) fwd and bwd), the fwd again under full recompute; RS of the bwd beside gradients of "
    "weights; X of runs with or without overlap",
    "measured curves; Megatron-LM, layers.py: LinearWithGradAccumulationAndAsyncCommunication",
    "M",
    "s",
)
_EXPERT = Note(
    "E x 4 all-to-all, or what shows beside compute; + 2 (AG + RS) where an expert is cut",
    "regression on MoE rows",
    "M",
    "s",
)
_PAIRED = Note(
    "max(compute + s min(comm, compute), comm) - compute under DualPipe",
    "arXiv 2412.19437 section 3.2.1; untested by any run",
    "D",
    "s",
)
_PIPE = Note("2 sends a chunk, the share that shows", "Megatron-LM p2p_communication.py", "M", "s")
_COPY = Note(
    "all-reduce of b_g V h / t over two stages, once a step",
    "Megatron Core, finalize_model_grads.py: _allreduce_word_embedding_grads; DeepSpeed, pipe/engine.py: "
    "_exec_reduce_tied_grads",
    "D",
    "s",
)


def _kinds(columns: list[Floats]) -> Floats:
    return np.stack(columns, axis=1)


def tensor_term(layout: Layout, work: LayerSeconds) -> Term:
    """Tensor-parallel collectives of a layer, of the embedding (first) and of the head (last).

    Under stacks that reduce beside gradients of weights, what the backward sums shows as any communication
    beside those products does.
    """
    group, states = layout.tensor_group, hidden_bytes(layout)
    scatter, whole = (seconds(layout, kind, states, group) for kind in ("reduce_scatter", "all_reduce"))
    share = _tensor_share(layout) * slower_away(layout, group)
    split = layout.strategies.sequence_parallel > 0
    narrow = seconds(layout, "all_gather", layer_gather_bytes(layout), group)
    gathered, end = (share * np.where(split, gather, 0.0) for gather in (narrow, _hidden_gather(layout)))
    summed = share * np.where(split, scatter, whole)
    pairs = _kinds([tensor_pairs(layout, block) for block in layout.blocks])
    forward = pairs * (gathered + summed)[:, None]
    backward = pairs * gathered[:, None] + _sums_shown(layout, pairs * summed[:, None], work)
    repeated = zip(layout.blocks, pairs.T, strict=True)
    part = _kinds([pairs_again(layout, block, each) * (gathered + summed) for block, each in repeated])
    pieces = ns(
        layer=forward + backward,
        full=forward * layout.run_again,
        selective=part,
        first=end + summed,
        last=end + summed,
    )
    return Term("tensor_comm", "chunk", _TENSOR, pieces)


def _sums_shown(layout: Layout, sums: Floats, work: LayerSeconds) -> Floats:
    """What shows of sums of the gradients of products' inputs, which follow them one by one, (n, kinds).

    The share of stacks whose runs overlapped all that tensor ranks send tells of these sums too.
    """
    hidden = stack_has(layout, "sums_beside_weights", True) & ~_overlapped(layout)
    return shown(work.column, sums, hidden) if hidden.any() else sums


def _overlapped(layout: Layout) -> Bools:
    """Rows whose share of what tensor ranks send is that of runs with `overlap_tensor_parallel`."""
    if user_buffered(layout.transformer):
        return layout.strategies.overlaps("tensor_parallel")
    return stack_has(layout, "tensor_overlapped", True)


def _tensor_share(layout: Layout) -> Floats:
    """Share that shows of what tensor ranks send; the stack's own where nothing tells of both ways."""
    if not user_buffered(layout.transformer):
        return stack_constant(layout, "tensor_exposed")
    hidden, whole = exposed(layout, "tensor")
    return np.where(layout.strategies.overlaps("tensor_parallel"), hidden, whole)


@once
def _hidden_gather(layout: Layout) -> Floats:
    """Seconds in which a tensor group gathers the hidden states of a micro-batch."""
    return seconds(layout, "all_gather", hidden_bytes(layout), layout.tensor_group)


def expert_term(layout: Layout, work: LayerSeconds) -> Term:
    """Dispatch and combine, forward and backward.

    Beside the compute of another micro-batch what slows or outlasts it shows, else the law's share of it.
    What the ranks of an expert's cut gather shows whole: it stands between exchange and products.
    """
    if not has_experts(layout):
        return Term("expert_comm", "chunk", _EXPERT, {})
    layer = _exchange_shown(layout, work)
    part = exchange_again(layout)[:, None] * layer / 2.0
    pieces = ns(layer=layer, full=layer / 2.0 * layout.run_again, selective=part)
    return Term("expert_comm", "chunk", _EXPERT, pieces)


def _exchange_shown(layout: Layout, work: LayerSeconds) -> Floats:
    """Seconds that show of a layer's exchange and gathers of tokens, forward and backward."""
    whole = exchange_seconds(layout)
    hidden = stack_has(layout, "exchange_overlapped", True)[:, None]
    beside_work = beside(work.forward + work.backward, whole)
    found: Floats = np.where(hidden, beside_work, law("expert_exposed") * whole) + gather_seconds(layout)
    return found


def paired_term(layout: Layout, work: LayerSeconds) -> Term:
    """What a schedule that runs a forward beside a backward hides more of the exchange of tokens.

    Each of the two talks while the other computes: all of the exchange beside all of a layer's work shows as
    any communication beside compute does.
    """
    paired = pairs_passes(layout.strategies)
    if not (paired.any() and has_experts(layout)):
        return Term("expert_comm", "chunk", _PAIRED, {})
    usual = _exchange_shown(layout, work)
    beside_work = beside(work.forward + work.backward, exchange_seconds(layout)) + gather_seconds(layout)
    hidden = np.where(paired[:, None], np.minimum(beside_work - usual, 0.0), 0.0)
    return Term("expert_comm", "chunk", _PAIRED, ns(layer=hidden))


def pipeline_term(layout: Layout) -> Term:
    """Activations and their gradients over both boundaries of a stage, each chunk.

    Each rank of a tensor group hands its share on; without sequence parallel the next stage gathers it.
    Of an island's stages those at its ends have one boundary that leaves it. A stack may send beside its
    work.
    """
    s = layout.strategies
    if not (s.pipeline_parallel > 1).any():
        return Term("pipeline_comm", "chunk", _PIPE, {})
    far = layout.pipe_group
    near = Group(far.size, far.per_island, np.where(far.per_island > 1, 0, far.level))
    both = sum(point_to_point(layout, boundary_bytes(layout), group) for group in (far, near))
    split = (s.sequence_parallel > 0) | (s.pipeline_parallel == 1)
    both = both + np.where(split, 0.0, 2.0 * _hidden_gather(layout))
    pieces = ns(fixed=stack_constant(layout, "pipeline_exposed") * both)
    return Term("pipeline_comm", "chunk", _PIPE, pieces)


def embedding_copy_terms(layout: Layout) -> list[Term]:
    """Gradients of the embedding summed over first and last stage, where the last one holds it too.

    It stands after all other reductions of a step, so it shows whole.
    """
    copied = copied_bytes(layout)
    if not copied.any():
        return []
    one = seconds(layout, "all_reduce", copied, layout.ends_group)
    return [Term("pipeline_comm", "stage", _COPY, ns(first=one, last=one))]
