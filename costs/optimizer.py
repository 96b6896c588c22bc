"""The optimizer step on the card and on the host, and transfers of offloaded states."""

from __future__ import annotations

import numpy as np

from ..hardware.catalogue import host
from ..models.optimizer import by_operation_bytes, step_share, step_traffic_bytes
from .activations import saved_of
from .columns import Floats
from .crossings import passes
from .held import Held
from .kernels import LayerSeconds
from .law import law
from .layout import Layout
from .products import memory_rate
from .recipes import per_parameter
from .sharding import sharding
from .stacks import stack_has
from .states import local_parameters, weight_bytes
from .terms import Note, Term, ns

_STEP = Note(
    "1.2 x 30 bytes a local parameter / (0.85 HBM), 80 of Adam operation by operation (PyTorch's foreach)",
    "regression of 2026-11; torch.optim.adam",
    "M",
    "s",
)
_HOST = Note(
    "28 bytes a parameter (other optimizers in proportion) / (eta DRAM), all cards of a node at once",
    "ml_engineering-001..012",
    "M",
    "s",
)
_PARAMETERS = Note(
    "max(0.1 copy, copy - compute)", "pinned PCIe rates; FSDP2 copies in the prefetch", "A", "s"
)

_ACTIVATIONS = Note(
    "max(0, copy - forward) + max(0, copy - backward), or 2 copies where they block",
    "torchtune training/_activation_offloading.py (streams); torch.autograd.graph.save_on_cpu (blocks)",
    "D",
    "s",
)


def optimizer_term(layout: Layout) -> Term:
    """The step on the card; offloaded layers leave it."""
    layer, first, last = local_parameters(layout)
    each = law("optimizer_factor") * _traffic(layout) / memory_rate(layout)
    on_card = np.where(layout.strategies.away("offload_optimizer"), 0.0, each)
    gone = np.where(layout.strategies.away("offload_optimizer"), each, 0.0)
    return Term(
        "optimizer",
        "stage",
        _STEP,
        ns(
            layer=layer * each[:, None],
            offloaded=-layer * gone[:, None],
            first=first * on_card,
            last=last * on_card,
        ),
    )


def _traffic(layout: Layout) -> Floats:
    """Bytes a local parameter that the step reads and writes: in one kernel, or operation by operation."""
    fused = step_traffic_bytes(layout.training)
    apart = by_operation_bytes(layout.training) or fused
    return np.where(stack_has(layout, "step_kernel", "foreach"), apart, fused)


def host_step_term(layout: Layout) -> Term:
    """CPU Adam of offloaded states, transfers included; the node's rate is shared by its cards.

    States on NVMe are read before their step and written after it, weights written where they live there.
    """
    away = layout.strategies.away("offload_optimizer")
    if not away.any():
        return Term("optimizer", "stage", _HOST, {})
    layer, first, last = local_parameters(layout)
    node, s, law_of_host = layout.cluster.node, layout.strategies, host()
    cards = min(node.gpus, layout.cluster.gpus)
    seconds = step_share(layout.training) * cards / node.cpu_adam_parameters_per_s
    each = np.where(away, seconds, 0.0)
    both = 1.0 / law_of_host.nvme_read_bytes_per_s + 1.0 / law_of_host.nvme_write_bytes_per_s
    states = per_parameter(layout, "optimizer_bytes") * both
    weights = per_parameter(layout, "weights_bytes") / law_of_host.nvme_write_bytes_per_s
    each = each + s.is_("offload_optimizer", "nvme") * cards * states
    each = each + s.is_("offload_params", "nvme") * cards * weights
    return Term(
        "optimizer",
        "stage",
        _HOST,
        ns(offloaded=layer * each[:, None], first=first * each, last=last * each),
    )


def activation_copy_term(layout: Layout, work: LayerSeconds) -> Term:
    """Offloaded inputs of recomputed layers: out in the forward, back in the backward.

    On a stream of their own what outlasts the layer's work shows, else all of it.
    """
    if not layout.training.offload_activations:
        return Term("offload_exposed", "chunk", _ACTIVATIONS, {})
    one = saved_of(layout).full / layout.cluster.node.host_link_bytes_per_s
    again = work.backward + work.full
    beside = np.maximum(one - work.forward, 0.0) + np.maximum(one - again, 0.0)
    waits = stack_has(layout, "activation_copies", "blocking")[:, None]
    shown = np.where(waits, 2.0 * one, beside) * layout.run_again
    return Term("offload_exposed", "chunk", _ACTIVATIONS, ns(full=shown))


def _copy_seconds(layout: Layout) -> Floats:
    """Seconds of a byte of weights on its way to the card: over the host's link, or as NVMe reads it."""
    node = layout.cluster.node
    read = min(node.gpus, layout.cluster.gpus) / host().nvme_read_bytes_per_s
    link = 1.0 / node.host_link_bytes_per_s
    return np.where(layout.strategies.is_("offload_params", "nvme"), max(link, read), link)


def parameter_copy_term(layout: Layout, work: LayerSeconds) -> Term:
    """Copies of offloaded parameters to the card before each gather, and of gradients back."""
    away = layout.strategies.away("offload_params")
    if not away.any():
        return Term("offload_exposed", "chunk", _PARAMETERS, {})
    gather, reduce, _, _ = passes(layout)
    down = Held.of(layout, layout.trained, sharding(layout)[0])
    down = down.scaled(per_parameter(layout, "gradients_bytes") * reduce)
    moved = down.beside(weight_bytes(layout, layout.portions).scaled(gather))
    copied = moved.scaled(away * _copy_seconds(layout))
    compute = work.forward + work.backward
    exposed = np.maximum(law("offload_exposed") * copied.layer, copied.layer - compute)
    return Term(
        "offload_exposed", "chunk", _PARAMETERS, ns(offloaded=exposed, first=copied.first, last=copied.last)
    )
