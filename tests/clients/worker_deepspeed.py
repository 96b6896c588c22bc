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
    engine, *_ = deepspeed.initialize(model=model, config=case["config"], model_parameters=model.parameters())
    micro, steps = engine.train_micro_batch_size_per_gpu(), engine.gradient_accumulation_steps()
    losses, norms, second = [], [], 0
    tokens = tiny_model.batch(0, micro * steps * WORLD)
    for _ in range(STEPS):
        total = torch.zeros(())
        for part in range(steps):
            first = (part * WORLD + RANK) * micro
            loss = tiny_model.loss_of(engine, tokens[first : first + micro])
            engine.backward(loss)
            second = max(second, second_copy(engine))  # dropped when the weights change
            engine.step()
            total += loss.detach().float() / steps
        dist.all_reduce(total)
        losses.append(total.item() / WORLD)
        norms.append(float(engine.get_global_grad_norm() or 0))
    return {"losses": losses, "norms": norms, "second_copy": second, **account(engine)}


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


def plain(params: dict[str, Any], zero_steps: int) -> dict[str, list[float]]:
    """Training without DeepSpeed, after `zero_steps` steps of the optimizer on zero gradients."""
    model = tiny_model.build()
    params.pop("torch_adam")
    adamw = torch.optim.AdamW(model.parameters(), **params)
    for _ in range(zero_steps):
        for weight in model.parameters():
            weight.grad = torch.zeros_like(weight)
        adamw.step()
        adamw.zero_grad()
    return tiny_model.plain_training(model, adamw, [tiny_model.batch(0, 4 * WORLD)] * STEPS)


if __name__ == "__main__":
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # else a kernel is compiled for minutes
    deepspeed.init_distributed(dist_backend="gloo")
    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    found = {name: attempt(case) for name, case in job.items()}
    if RANK == 0:
        params = next(iter(job.values()))["config"]["optimizer"]["params"]
        found["plain"] = plain({**params}, zero_steps=0)
        found["plain, one step ahead"] = plain({**params}, zero_steps=1)
    (folder / f"out{RANK}.json").write_text(json.dumps(found), encoding="utf-8")
