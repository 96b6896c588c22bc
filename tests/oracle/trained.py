"""Which backends run a way of training, and with which cut, stage and place: told from the outside."""

from __future__ import annotations

from shardwise.plans import Request

PARTIAL = ("deepspeed", "fsdp")
"""Backends that can leave a part of the model as it is."""


def trains(request: Request, name: str, tensor: int, stage: int, params: str) -> bool:
    """Whether a backend runs the job with such a cut, ZeRO stage and place of the parameters.

    Megatron-LM trains everything. FSDP's written cut of tensors knows plain linears only. DeepSpeed
    leaves packed 4-bit weights whole, so that ZeRO-3 is not offered for them; nobody offloads them.
    """
    job = request.training
    packed = str(job.trainable).startswith("qlora")
    partial = job.trainable != "all" or bool(job.frozen)
    if partial and (name not in PARTIAL or (name == "fsdp" and tensor > 1)):
        return False
    if packed and (params == "cpu" or (name == "deepspeed" and stage == 3)):
        return False
    if job.mtp_layers and name != "megatron":
        return False
    if not job.master_weights and name != "fsdp":
        return False
    if not job.sync_each_batch and name == "deepspeed":
        return False
    return not job.optimizer_in_backward
