"""What plain data parallel holds beside the states: copies of autocast, buckets of the reduction.

`DistributedDataParallel` copies gradients into buckets of their own (``gradient_as_bucket_view`` is off by
default). Autocast makes 16-bit copies of fp32 weights, which linears keep for their backward; those of frozen
weights go with their layer where it is recomputed, those of trained ones stay in autocast's cache. 16-bit
weights are used as they are.
"""

from __future__ import annotations

import numpy as np

from .columns import Bools, Floats, Ints
from .held import Held
from .layout import Layout
from .moments import MOMENTS, PASSES, Alive
from .portion import Portion
from .recipes import per_parameter, portion_bytes
from .terms import Note, Term, kib

_COPIES = Note("2 N of fp32 weights", "torch autocast: linears keep the copy for their backward", "D")
_BUCKETS = Note("g N of all gradients", "torch DistributedDataParallel: reducer.cpp", "D")


def replicated_terms(layout: Layout) -> list[Alive]:
    """Both, of rows of the FSDP backend that shard nothing; one card alone has no buckets."""
    s = layout.strategies
    rows = s.is_("backend", "fsdp") & (s.zero_stage == 0)
    if not rows.any():
        return []
    several = rows & (layout.data_ranks > 1)
    buckets = np.where(several, per_parameter(layout, "gradients_bytes"), 0.0)
    return [
        *(Alive(PASSES, _copies(layout, portion, rows)) for portion in layout.portions),
        Alive(MOMENTS, Term("buckets", "stage", _BUCKETS, _whole(layout.trained, buckets))),
    ]


def _copies(layout: Layout, portion: Portion, rows: Bools) -> Term:
    """16-bit copies of the weights of a portion that are wider."""
    cast = rows & (portion_bytes(layout, portion, "weights_bytes") > layout.element_bytes)
    pieces = _whole(portion, np.where(cast, layout.element_bytes, 0.0))
    again = {} if portion.name == "trained" else {"full": -pieces["layer"]}
    return Term("autocast_copies", "stage", _COPIES, pieces | again)


def _whole(portion: Portion, each: Floats) -> dict[str, Ints]:
    """`each` bytes of every parameter of a portion."""
    held = Held.whole(portion).scaled(each)
    return kib(layer=held.layer, first=held.first, last=held.last)
