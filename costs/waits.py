"""Waits of the device for the host that no work hides."""

from __future__ import annotations

import numpy as np

from .layout import Layout
from .stacks import stack_constant
from .terms import Note, Term, ns

_WAITS = Note("host_wait_seconds a layer and micro-batch", "bloom_prequel rows", "M", "s")


def waits_term(layout: Layout) -> Term:
    """What a layer of a micro-batch waits for the host under stacks that stop for it, forward and backward.

    It is added where launches ahead of the device are not: runs of Megatron-DeepSpeed lose the same seconds
    at every micro-batch whether their layers are long or short, so fewer and larger ones are faster.
    """
    each = stack_constant(layout, "host_wait_seconds")
    if not each.any():
        return Term("host_overhead", "chunk", _WAITS, {})
    return Term("host_overhead", "chunk", _WAITS, ns(layer=np.tile(each[:, None], len(layout.blocks))))
