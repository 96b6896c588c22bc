"""What lives on the NVMe of a machine, and whether its drives hold it."""

from __future__ import annotations

from ..models.work import parameters
from ..plans import Request

STATE_BYTES = 12.0
"""Master copy and moments of AdamW in fp32, a trained parameter (DeepSpeed swaps whole states)."""
WEIGHT_BYTES = 2.0
"""A 16-bit weight."""


def bytes_on_drives(request: Request, optimizer: str, params: str) -> float:
    """Bytes of one machine's drives under these places of the states, all machines alike."""
    held = parameters(request.training, request.model)
    states = STATE_BYTES * held.trained if optimizer == "nvme" else 0.0
    weights = WEIGHT_BYTES * held.total if params == "nvme" else 0.0
    return (states + weights) / request.cluster.nodes


def drives_hold(request: Request, optimizer: str, params: str) -> bool:
    """Whether the drives hold it; drives of unknown size are taken to."""
    known = request.cluster.node.nvme_bytes
    return (
        not known or "nvme" not in (optimizer, params) or bytes_on_drives(request, optimizer, params) <= known
    )
