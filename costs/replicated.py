"""What plain data parallel holds beside the states: copies of autocast, buckets of the reduction.

`DistributedDataParallel` copies gradients into buckets of their own (``gradient_as_bucket_view`` is off by
default). Autocast makes 16-bit copies of fp32 weights, which linears keep for their backward; 16-bit weights
are used as they are.
"""

from __future__ import annotations

import numpy as np

from .columns import Floats, Ints
from .held import Held
from .layout import Layout
from .moments import MOMENTS, PASSES, Alive
from .states import per_parameter
from .terms import Note, Term, kib

_COPIES = Note("2 N of fp32 weights", "torch autocast: linears keep the copy for their backward", "D")
_BUCKETS = Note("g N of all gradients", "torch DistributedDataParallel: reducer.cpp", "D")


def replicated_terms(layout: Layout) -> list[Alive]:
    """Both, of rows of the FSDP backend that shard nothing; one card alone has no buckets."""
    s = layout.strategies
    rows = s.is_("backend", "fsdp") & (s.zero_stage == 0)
    if not rows.any():
        return []
    cast = rows & (per_parameter(layout, "weights_bytes") > layout.element_bytes)
    several = rows & (layout.data_ranks > 1)
    copies = _whole(layout, np.where(cast, layout.element_bytes, 0.0))
    buckets = _whole(layout, np.where(several, per_parameter(layout, "gradients_bytes"), 0.0))
    return [
        Alive(PASSES, Term("gathered_units", "stage", _COPIES, copies)),
        Alive(MOMENTS, Term("buckets", "stage", _BUCKETS, buckets)),
    ]


def _whole(layout: Layout, each: Floats) -> dict[str, Ints]:
    """`each` bytes of every trained parameter."""
    held = Held.whole(layout.trained).scaled(each)
    return kib(layer=held.layer, first=held.first, last=held.last)
