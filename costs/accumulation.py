"""Gradients of micro-batches added up: what the device reads and writes for it."""

from __future__ import annotations

import numpy as np

from ..models.strategy import ELEMENT_BYTES, GRADIENT_DTYPES
from .columns import Floats
from .law import law
from .layout import Layout
from .products import memory_rate
from .recipes import per_parameter
from .stacks import stack_constant
from .terms import Note, Term, ns

_ADD = Note(
    "(GA (2 + 2 g) + b_c) N / HBM a micro-batch, g bytes of the sum; b_c = 12 where it is a copy's, in fp32; "
    "PyTorch alone sums from the second on",
    "Megatron Core, main_grad; regression of 2026-11; DeepSpeed, bf16_optimizer.py: update_hp_grads; "
    "PyTorch, accumulate_grad.h: the first gradient is taken as it lies",
    "M",
    "s",
)


def accumulation_term(layout: Layout) -> Term:
    """Seconds of a chunk and micro-batch in which its gradients join the sum.

    A gradient in 16 bits is written, the sum read and written in its own type (`gradient_dtype`); where
    16-bit gradients are copied to a wider sum, `widened_bytes` of the recipe are what that moves more.
    """
    widened = per_parameter(layout, "widened_bytes")
    added = law("accumulation_bytes") + 2.0 * _sum_bytes(layout, widened)
    each = (added * stack_constant(layout, "accumulation_factor") + widened) / memory_rate(layout)
    each = each * _summed(layout)
    trained = layout.trained
    pieces = ns(layer=trained.layer * each[:, None], first=trained.first * each, last=trained.last * each)
    return Term("accumulation", "chunk", _ADD, pieces)


def _sum_bytes(layout: Layout, widened: Floats) -> Floats:
    """Bytes of an element that a micro-batch's own gradients are added up in."""
    own = np.array([ELEMENT_BYTES[word] for word in GRADIENT_DTYPES])[layout.strategies.gradient_dtype]
    return np.where(widened == 0, own, ELEMENT_BYTES["bf16"])


def _summed(layout: Layout) -> Floats:
    """Share of the micro-batches whose gradient is moved once it is made.

    On one card PyTorch keeps the first where it lies; where it is reduced it is copied all the same, and
    Megatron and DeepSpeed add the first to a sum of zeros.
    """
    s = layout.strategies
    lies = s.is_("backend", "fsdp") & (layout.data_ranks == 1)
    return np.where(lies, 1.0 - 1.0 / s.gradient_accumulation_steps, 1.0)
