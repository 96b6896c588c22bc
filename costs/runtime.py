"""What the framework's own counters do not show: context, communicators, fragmentation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..models.divisors import EIGHT_BIT
from ..models.overlap import user_buffered
from .columns import Floats, Ints, code
from .experts import folded
from .law import law
from .layout import Layout
from .moments import MOMENTS, Alive, absent
from .stacks import stack_has
from .terms import Note, Term, ceil, kib

_RUNTIME = Note(
    "1.5 GiB + 0.6 GiB a communicator group; 1.0 GiB on one card, + 40 MiB a group over PCI Express",
    "bloom_prequel nvidia-smi, NCCL issues",
    "M",
)
_USER = Note(
    "(8 w + 4 x 2) T h, w of products", "Transformer Engine pytorch/module/base.py, initialize_ub", "D"
)
_FRAGMENTATION = Note(
    "share of (allocated + pools) less recompute inputs and live layer",
    "reserved over allocated of published runs (scripts/constants.py)",
    "M",
)


def runtime_terms(layout: Layout) -> list[Alive]:
    """CUDA context, kernels and NCCL groups: [t>1] + [d>1] + 2 [p>1] + [t>1 and p>1] + [e_t>1]."""
    s = layout.strategies
    t, p = s.tensor_parallel > 1, s.pipeline_parallel > 1
    d = layout.data_ranks > 1
    cut = folded(layout) & (s.expert_tensor_parallel > 1)
    groups = t.astype(np.int64) + d + 2 * p.astype(np.int64) + (t & p) + cut
    alone = ~(t | p | d)
    base, each = law("runtime_bytes"), law("runtime_group_bytes")
    if few_channels(layout):
        base, each = law("runtime_alone_bytes"), law("runtime_narrow_group_bytes")
    size = np.where(alone, law("runtime_alone_bytes"), base + groups * each)
    size = size + np.where(s.expert_parallel > 1, law("runtime_all_to_all_bytes"), 0.0)
    return [Alive(MOMENTS, Term("runtime", "stage", _RUNTIME, kib(fixed=size)))]


def few_channels(layout: Layout) -> bool:
    """Whether cards talk over PCI Express alone: NCCL then opens few channels."""
    return layout.cluster.node.link == "pcie"


def user_buffer_terms(layout: Layout) -> list[Alive]:
    """Buffers that tensor ranks overlap in, outside the allocator: one a product that gathers or scatters.

    Some hold what is gathered, in 8 bits where products are, others what is scattered, each T h.
    """
    s = layout.strategies
    rows = s.overlaps("tensor_parallel")
    if not (rows.any() and user_buffered(layout.transformer)):
        return [absent("user_buffers", _USER)]
    eight = np.isin(s.precision, [code("precision", word) for word in EIGHT_BIT])
    gathered, scattered = law("user_buffers_gathered"), law("user_buffers_scattered")
    each = gathered * np.where(eight, 1.0, 2.0) + scattered * 2.0
    size = np.where(rows, each * layout.tokens * layout.transformer.hidden_size, 0.0)
    return [Alive(MOMENTS, Term("user_buffers", "stage", _USER, kib(fixed=size)))]


def fragmentation_terms(layout: Layout, allocated: Sequence[Alive]) -> list[Alive]:
    """The allocator's share of what is allocated in blocks of many sizes.

    Inputs kept by full recompute, and the live layer, are blocks of few sizes that come and go in order:
    they leave no holes. A framework that plans its memory before the run has none at all.
    """
    share = np.where(stack_has(layout, "allocator", "planned"), 0.0, law("fragmentation_share"))
    return [
        Alive(moments, Term("fragmentation", term.per, _FRAGMENTATION, _holes(layout, term, share)))
        for moments, term in allocated
        if term.name != "live_layer"
    ]


def _holes(layout: Layout, term: Term, share: Floats) -> dict[str, Ints]:
    pieces = dict(term.coefficients)
    if term.name == "activations" and "layer" in pieces:
        pieces["full"] = ceil(-pieces["layer"] * layout.run_again)
    return {
        piece: ceil(value * (share[:, None] if value.ndim == 2 else share)) for piece, value in pieces.items()
    }
