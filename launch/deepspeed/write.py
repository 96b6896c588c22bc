"""Writing `ds_config.json`."""

from __future__ import annotations

import json

from ...models.strategy import Place
from ...plans.plan import Buckets, Plan
from .schema import (
    ActivationCheckpointing,
    AdamW,
    AdamWParams,
    Bf16,
    DataTypes,
    DsConfig,
    Fp16,
    Lion,
    LionParams,
    Offload,
    Sgd,
    SgdParams,
    ZeroOptimization,
)

FILE = "ds_config.json"
NVME_PATH = "/local_nvme"
"""Where states on NVMe go until a site says otherwise; the launch line looks for it."""
LR_PLACEHOLDER = 1e-4
"""The learning rate is no decision of a plan: training recipes replace it."""


def config(plan: Plan) -> DsConfig:
    """The configuration of `plan`, checked by its own schema."""
    strategy, training = plan.strategy, plan.request.training
    full = strategy.recompute == "full"
    sharded_sgd = training.optimizer.startswith("sgd") and strategy.zero_stage
    return DsConfig(
        train_batch_size=training.global_batch_size,
        train_micro_batch_size_per_gpu=strategy.micro_batch_size,
        gradient_accumulation_steps=strategy.gradient_accumulation_steps,
        gradient_clipping=1.0,
        sequence_parallel_size=strategy.context_parallel if strategy.context_parallel > 1 else None,
        zero_optimization=_zero(plan),
        bf16=Bf16(enabled=True) if strategy.precision == "bf16" else None,
        fp16=_fp16() if strategy.precision == "fp16" else None,
        data_types=DataTypes(grad_accum_dtype="fp32") if strategy.gradient_dtype == "fp32" else None,
        zero_allow_untested_optimizer=True if sharded_sgd else None,
        optimizer=_optimizer(training.optimizer),
        activation_checkpointing=_checkpointing(strategy.layers) if full else None,
    )


def write(plan: Plan) -> dict[str, str]:
    """`ds_config.json` by name."""
    values = config(plan).model_dump(exclude_none=True)
    return {FILE: json.dumps(values, indent=2) + "\n"}


def _zero(plan: Plan) -> ZeroOptimization:
    strategy, buckets = plan.strategy, plan.buckets
    if strategy.zero_stage == 0:
        return ZeroOptimization(stage=0)
    optimizer, params = (_offload(place) for place in (strategy.offload_optimizer, strategy.offload_params))
    common: dict[str, object] = {
        "overlap_comm": strategy.overlap_gradient_reduce,
        "contiguous_gradients": True,
        "reduce_scatter": True,
        "reduce_bucket_size": buckets.reduce_bucket_elements,
        "offload_optimizer": optimizer,
        "offload_param": params,
    }
    second = strategy.secondary_shard_group_size
    common["zero_hpz_partition_size"] = second if second > 1 else None
    own = _stage3(buckets) if strategy.zero_stage == 3 else _stage12(buckets)
    return ZeroOptimization.model_validate({"stage": strategy.zero_stage, **common, **own})


def _offload(place: Place) -> Offload | None:
    if place == "none":
        return None
    return Offload(device=place, pin_memory=True, nvme_path=NVME_PATH if place == "nvme" else None)


def _stage12(buckets: Buckets) -> dict[str, object]:
    return {"allgather_partitions": True, "allgather_bucket_size": buckets.allgather_bucket_elements}


def _stage3(buckets: Buckets) -> dict[str, object]:
    return {
        "sub_group_size": buckets.sub_group_elements,
        "stage3_prefetch_bucket_size": buckets.prefetch_bucket_elements,
        "stage3_param_persistence_threshold": buckets.persistence_threshold,
        "stage3_max_live_parameters": buckets.max_live_parameters,
        "stage3_max_reuse_distance": buckets.max_live_parameters,
    }


def _fp16() -> Fp16:
    return Fp16(
        enabled=True,
        loss_scale=0.0,
        initial_scale_power=16,
        loss_scale_window=1000,
        hysteresis=2,
        min_loss_scale=1,
    )


def _optimizer(name: str) -> AdamW | Sgd | Lion:
    if name in ("sgd", "sgd-no-momentum"):
        momentum = 0.9 if name == "sgd" else 0.0
        return Sgd(type="SGD", params=SgdParams(lr=LR_PLACEHOLDER, momentum=momentum))
    if name == "lion":
        return Lion(type="Lion", params=LionParams(lr=LR_PLACEHOLDER, betas=[0.9, 0.99], weight_decay=0.1))
    params = AdamWParams(lr=LR_PLACEHOLDER, betas=[0.9, 0.95], eps=1e-8, weight_decay=0.1)
    return AdamW(type="AdamW", params=params)


def _checkpointing(layers: int) -> ActivationCheckpointing:
    return ActivationCheckpointing(
        partition_activations=False,
        cpu_checkpointing=False,
        contiguous_memory_optimization=False,
        number_checkpoints=layers,
        synchronize_checkpoint_boundary=False,
        profile=False,
    )
