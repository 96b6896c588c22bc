"""The optimizer step on the card and on the host, and transfers of offloaded states."""

from __future__ import annotations

import numpy as np

from ..models.optimizer import step_share, step_traffic_bytes
from .held import Held
from .kernels import LayerSeconds
from .law import law
from .layout import Layout
from .products import memory_rate
from .states import local_parameters, per_parameter, sharding, weight_bytes
from .terms import Note, Term, ns
from .traffic import passes

_STEP = Note("1.2 x 30 bytes a local parameter / (0.85 HBM)", "regression of 2026-11", "M", "s")
_HOST = Note(
    "28 bytes a parameter (other optimizers in proportion) / (eta DRAM), all cards of a node at once",
    "ml_engineering-001..012",
    "M",
    "s",
)
_PARAMETERS = Note(
    "max(0.1 copy, copy - compute)", "pinned PCIe rates; FSDP2 copies in the prefetch", "A", "s"
)


def optimizer_term(layout: Layout) -> Term:
    """The step on the card; offloaded layers leave it."""
    layer, first, last = local_parameters(layout)
    each = law("optimizer_factor") * step_traffic_bytes(layout.training) / memory_rate(layout)
    on_card = np.where(layout.strategies.is_("offload_optimizer", "cpu"), 0.0, each)
    gone = np.where(layout.strategies.is_("offload_optimizer", "cpu"), each, 0.0)
    return Term(
        "optimizer",
        "stage",
        _STEP,
        ns(layer=layer * each, offloaded=-layer * gone[:, None], first=first * on_card, last=last * on_card),
    )


def host_step_term(layout: Layout) -> Term:
    """CPU Adam of offloaded states, transfers included; the node's rate is shared by its cards."""
    layer, first, last = local_parameters(layout)
    node = layout.cluster.node
    cards = min(node.gpus, layout.cluster.gpus)
    seconds = step_share(layout.training) * cards / node.cpu_adam_parameters_per_s
    each = np.where(layout.strategies.is_("offload_optimizer", "cpu"), seconds, 0.0)
    return Term(
        "optimizer",
        "stage",
        _HOST,
        ns(offloaded=layer * each[:, None], first=first * each, last=last * each),
    )


def parameter_copy_term(layout: Layout, work: LayerSeconds) -> Term:
    """Copies of offloaded parameters to the card before each gather, and of gradients back."""
    s = layout.strategies
    gather, reduce, _, _ = passes(layout)
    down = Held.of(layout, layout.trained, sharding(layout)[0])
    down = down.scaled(per_parameter(layout, "gradients_bytes") * reduce)
    moved = down.beside(weight_bytes(layout, layout.portions).scaled(gather))
    copied = moved.scaled(s.is_("offload_params", "cpu") / layout.cluster.node.host_link_bytes_per_s)
    compute = work.forward + work.backward
    exposed = np.maximum(law("offload_exposed") * copied.layer, copied.layer - compute)
    return Term(
        "offload_exposed", "chunk", _PARAMETERS, ns(offloaded=exposed, first=copied.first, last=copied.last)
    )
