"""What lives on the NVMe of a machine, and whether its drives hold it."""

from __future__ import annotations

from ..models.backend import Backend
from ..models.work import parameters
from ..plans import Request


def bytes_on_drives(request: Request, known: Backend, optimizer: str, params: str) -> float:
    """Bytes of one machine's drives under these places of the states, all machines alike.

    DeepSpeed swaps whole states: those of the backend's leanest recipe for the asked optimizer.
    """
    held, training = parameters(request.training, request.model), request.training
    precisions = request.choose.precision or ("bf16", "fp16")
    found = [known.recipe(p, g, training) for p in precisions for g in known.recipes.get(p, {})]
    recipes = [each for each in found if each is not None]
    states = min((r.optimizer_bytes for r in recipes), default=0.0) if optimizer == "nvme" else 0.0
    weights = min((r.weights_bytes for r in recipes), default=0.0) if params == "nvme" else 0.0
    return (states * held.trained + weights * held.total) / request.cluster.nodes


def drives_hold(request: Request, known: Backend, optimizer: str, params: str) -> bool:
    """Whether the drives hold it; drives of unknown size are taken to."""
    size = request.cluster.node.nvme_bytes
    if not size or "nvme" not in (optimizer, params):
        return True
    return bytes_on_drives(request, known, optimizer, params) <= size
