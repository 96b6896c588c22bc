"""Waits of the device for the host that no work hides."""

from __future__ import annotations

import numpy as np

from .layout import Layout
from .stacks import stack_constant
from .terms import Note, Term, ns

_WAITS = Note(
    "host_wait_seconds a layer and micro-batch; exchange_wait_seconds a chunk and micro-batch",
    "bloom_prequel rows; Megatron-LM, p2p_communication.py: torch.cuda.synchronize",
    "M",
    "s",
)


def waits_term(layout: Layout) -> Term:
    """What layers and chunks of a micro-batch wait for the host under stacks that stop for it, both passes.

    It is added where launches ahead of the device are not: runs of Megatron-DeepSpeed lose the same seconds
    at every micro-batch whether their layers are long or short, so fewer and larger ones are faster. Where
    the host waits for each exchange between stages, the device does for what comes after it.
    """
    each, exchange = (stack_constant(layout, f"{what}_wait_seconds") for what in ("host", "exchange"))
    exchange = np.where(layout.strategies.pipeline_parallel > 1, exchange, 0.0)
    if not (each.any() or exchange.any()):
        return Term("host_overhead", "chunk", _WAITS, {})
    layer = np.tile(each[:, None], len(layout.blocks))
    return Term("host_overhead", "chunk", _WAITS, ns(layer=layer, fixed=exchange))
