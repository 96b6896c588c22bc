"""Environment variables a plan needs, with the reason for each."""

from __future__ import annotations

from ..plans.plan import Plan
from .shape import shape

ALLOCATOR = "expandable_segments:True"
"""Lets PyTorch's allocator grow its segments, which gathers of changing size would fragment."""


def settings(plan: Plan) -> dict[str, str]:
    """Values by name, in the order written; each gives way to what the user has set.

    Megatron-LM wants kernels of a card in one queue, so that communication starts before its compute
    (`CUDA_DEVICE_MAX_CONNECTIONS`). Machines that share one NVLink domain need nothing: NCCL finds it by
    itself (2.21 and later, src/init.cc: MNNVL_ENABLE is 2, as the hardware allows). Where the cards of an
    island are not numbered one after another, ranks visit them island by island (`CUDA_VISIBLE_DEVICES`;
    the deepspeed launcher sets that itself). An optimizer on the host steps with all threads of its rank, of
    which torchrun and Accelerate give one where nothing is said (torch 2.13.0, distributed/run.py), and the
    deepspeed launcher as many as there are cores, to each rank (`OMP_NUM_THREADS`).
    """
    found = {"PYTORCH_CUDA_ALLOC_CONF": ALLOCATOR}
    if plan.strategy.backend == "megatron":
        found["CUDA_DEVICE_MAX_CONNECTIONS"] = "1"
    if plan.strategy.offload_optimizer != "none":
        node = plan.request.cluster.node
        found["OMP_NUM_THREADS"] = str(max(1, node.cpu_cores // node.gpus))
    order = plan.request.cluster.node.card_order
    if order and plan.strategy.backend != "deepspeed" and shape(plan).cards == len(order):
        found["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, order))
    return found


def deepspeed_env(plan: Plan) -> str:
    """`.deepspeed_env`: what the deepspeed launcher must hand to the other machines over ssh."""
    return "".join(f"{name}={value}\n" for name, value in settings(plan).items())
