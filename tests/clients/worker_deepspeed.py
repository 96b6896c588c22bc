"""One rank: loads each `ds_config.json` of the job into DeepSpeed, trains, tells what the engine holds."""

from __future__ import annotations

import faulthandler
import json
import os
import sys
from pathlib import Path
from typing import Any

folder, seconds = Path(sys.argv[1]), float(sys.argv[2])
faulthandler.dump_traceback_later(seconds, exit=True)
sys.path.insert(0, str(Path(__file__).parents[1]))

import deepspeed  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from clients import tiny_model  # noqa: E402

STEPS = 5
RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def train(case: dict[str, Any]) -> dict[str, Any]:
    """Losses and gradient norms of steps on one and the same batch, and the engine's account of itself."""
    model = tiny_model.build()
    if case["recompute"]:
        model.gradient_checkpointing_enable()
    given = {"model": model, "config": case["config"], "model_parameters": model.parameters()}
    ranks = case["config"].get("sequence_parallel_size", 1)
    engine, *_ = deepspeed.initialize(**given, **shared(model, case["config"]))
    micro, steps = engine.train_micro_batch_size_per_gpu(), engine.gradient_accumulation_steps()
    rank, count = RANK // ranks, WORLD // ranks
    losses, norms, second = [], [], 0
    tokens = tiny_model.batch(0, micro * steps * count)
    for _ in range(STEPS):
        total = torch.zeros(())
        for part in range(steps):
            first = (part * count + rank) * micro
            loss = tiny_model.loss_of(engine, tokens[first : first + micro], RANK % ranks, ranks)
            engine.backward(loss / ranks if engine.zero_optimization_stage() < 3 else loss)
            second = max(second, second_copy(engine))  # dropped when the weights change
            engine.step()
            total += loss.detach().float() / steps
        dist.all_reduce(total)
        losses.append(total.item() / WORLD)
        norms.append(float(engine.get_global_grad_norm() or 0))
    return {"losses": losses, "norms": norms, "second_copy": second, **account(engine)}


def shared(model: Any, config: dict[str, Any]) -> dict[str, Any]:
    """What DeepSpeed is handed where ranks share a sequence; once a process, as it patches transformers."""
    if "sequence_parallel_size" not in config:
        return {}
    from deepspeed.runtime.sequence_parallel.ulysses_sp import UlyssesSPAttentionHF

    mpu = UlyssesSPAttentionHF.register_with_transformers(
        model,
        core_attn_implementation="sdpa",
        sequence_parallel_size=config["sequence_parallel_size"],
        micro_batch_size=config["train_micro_batch_size_per_gpu"],
    )
    return {"mpu": mpu}


def account(engine: Any) -> dict[str, Any]:
    """Stage, world, batches, buckets and this rank's share of the master weights, told by the engine."""
    stage = engine.zero_optimization_stage()
    return {
        "stage": stage,
        "world": engine.dp_world_size,
        "batch": [
            engine.train_batch_size(),
            engine.train_micro_batch_size_per_gpu(),
            engine.gradient_accumulation_steps(),
        ],
        "clip": engine.gradient_clipping(),
        "optimizer": type(engine.optimizer).__name__,
        "basic": type(engine.basic_optimizer).__name__,
        "dtypes": [str(kind).removeprefix("torch.") for kind in engine.get_data_types()],
        "reduce_bucket": engine.zero_reduce_bucket_size(),
        "prefetch_bucket": engine.zero_prefetch_bucket_size(),
        "persistence": engine.zero_param_persistence_threshold(),
        "max_live": engine.zero_max_live_parameters(),
        "overlap": engine.zero_overlap_comm(),
        "offload": str(getattr(engine.zero_offload_optimizer(), "device", None)),
        "masters": masters(engine.optimizer),
        "weights": sum(getattr(weight, "ds_tensor", weight).numel() for weight in engine.module.parameters()),
    }


def second_copy(engine: Any) -> int:
    """Elements on this rank of the second copy of the weights, which hpZ keeps inside a machine."""
    found = [getattr(weight, "ds_secondary_tensor", None) for weight in engine.module.parameters()]
    return sum(part.numel() for part in found if part is not None)


def masters(optimizer: Any) -> int:
    """Elements of the weights that this rank's optimizer steps."""
    for name in (
        "single_partition_of_fp32_groups",
        "fp32_partitioned_groups_flat",
        "fp32_groups_flat_partition",
        "fp32_groups",
    ):
        groups = getattr(optimizer, name, None)
        if groups is not None:
            flat = [part for group in groups for part in (group if isinstance(group, list) else [group])]
            return sum(part.numel() for part in flat)
    return sum(weight.numel() for group in optimizer.param_groups for weight in group["params"])


def attempt(case: dict[str, Any]) -> dict[str, Any]:
    """What `case` gives; a case that must be refused tells by whom."""
    if not case["refused"]:
        return train(case)
    try:
        train(case)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return {"error": None}


def plain(params: dict[str, Any], sequences: int, zero_steps: int) -> dict[str, list[float]]:
    """Training without DeepSpeed, after `zero_steps` steps of the optimizer on zero gradients."""
    model = tiny_model.build()
    params.pop("torch_adam")
    adamw = torch.optim.AdamW(model.parameters(), **params)
    for _ in range(zero_steps):
        for weight in model.parameters():
            weight.grad = torch.zeros_like(weight)
        adamw.step()
        adamw.zero_grad()
    return tiny_model.plain_training(model, adamw, [tiny_model.batch(0, sequences)] * STEPS)


def plain_twins(config: dict[str, Any]) -> dict[str, Any]:
    """Ordinary training of the same batch, before any case changes how transformers attends."""
    params, batch = config["optimizer"]["params"], config["train_batch_size"]
    return {
        "plain": plain({**params}, batch, zero_steps=0),
        "plain, one step ahead": plain({**params}, batch, zero_steps=1),
    }


if __name__ == "__main__":
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # else a kernel is compiled for minutes
    deepspeed.init_distributed(dist_backend="gloo")
    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    found = plain_twins(next(iter(job.values()))["config"]) if RANK == 0 else {}
    found |= {name: attempt(case) for name, case in job.items()}
    (folder / f"out{RANK}.json").write_text(json.dumps(found), encoding="utf-8")
