"""What the framework's own counters do not show: context, communicators, fragmentation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .law import law
from .layout import Layout
from .terms import Note, Term, kib

_RUNTIME = Note(
    "1.5 GiB + 0.6 GiB a communicator group; 1.0 GiB on one card",
    "bloom_prequel nvidia-smi, NCCL issues",
    "M",
)
_FRAGMENTATION = Note("0.13 (allocated + pools)", "torchtitan and bloom_prequel medians", "M")


def runtime_terms(layout: Layout) -> list[Term]:
    """CUDA context, kernels and NCCL groups: [t>1] + [d>1] + 2 [p>1] + [t>1 and p>1]."""
    s = layout.strategies
    t, p = s.tensor_parallel > 1, s.pipeline_parallel > 1
    d = layout.data_ranks > 1
    groups = t.astype(np.int64) + d + 2 * p.astype(np.int64) + (t & p)
    alone = ~(t | p | d)
    size = np.where(
        alone, law("runtime_alone_bytes"), law("runtime_bytes") + groups * law("runtime_group_bytes")
    )
    size = size + np.where(s.expert_parallel > 1, law("runtime_all_to_all_bytes"), 0.0)
    return [Term("runtime", "stage", _RUNTIME, kib(fixed=size))]


def fragmentation_terms(allocated: Sequence[Term]) -> list[Term]:
    """The allocator's share of every allocated term."""
    share = law("fragmentation_share")
    return [term.scaled("fragmentation", share, _FRAGMENTATION) for term in allocated]
