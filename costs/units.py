"""Sharded units: what their hooks add to the host's part of a layer, and what of it shows."""

from __future__ import annotations

import numpy as np

from .columns import Bools, Floats
from .kernels import LayerSeconds, fourth
from .launches import adapted_matrices
from .law import law
from .layout import Layout
from .sharding import sharding
from .stacks import stack_constant
from .terms import Note, Term, ns

_UNITS = Note("U HL a sharded unit and pass, what shows of it", "regression of 2026-11", "M", "s")


def units_term(layout: Layout, work: LayerSeconds) -> Term:
    """What the hooks of sharded units show: they gather and free weights, launched ahead of the device.

    Where weights are sharded each layer is a unit, and so may be the factors of its adapters. The host is
    as much longer at each pass of the layer, the repeated forward among them, and shows where the device
    has less to do.
    """
    if not sharded_weights(layout).any():
        return Term("host_overhead", "chunk", _UNITS, {})
    hooks = law("unit_launches") * stack_constant(layout, "host_launch_seconds")[:, None] * units(layout)
    again = law("host_backward_floor")
    forward = longer(work.forward, work.host, hooks)
    backward = longer(work.backward, again * work.host, again * hooks)
    return Term("host_overhead", "chunk", _UNITS, ns(layer=forward + backward, full=forward))


def sharded_weights(layout: Layout) -> Bools:
    """Rows whose weights are cut over several ranks."""
    found: Bools = sharding(layout)[0] & (layout.shard > 1)
    return found


def units(layout: Layout) -> Floats:
    """Sharded units of a layer, (n, kinds): itself and its adapters'; none where weights are whole."""
    each = stack_constant(layout, "adapter_units")
    found = np.ones((len(layout.strategies), len(layout.blocks)))
    for kind, block in enumerate(layout.blocks):
        for copies in adapted_matrices(layout, block):
            found[:, kind] += each * copies
    return np.where(sharded_weights(layout)[:, None], found, 0.0)


def longer(work: Floats, floor: Floats, more: Floats) -> Floats:
    """How much longer a pass is whose host takes `more` beyond `floor`, which `work` has met already.

    (device^4 + (floor + more)^4)^(1/4) - work with device^4 = work^4 - floor^4 (`kernels.at_least`).
    """
    found: Floats = np.sqrt(np.sqrt(fourth(work) + fourth(floor + more) - fourth(floor))) - work
    return found
