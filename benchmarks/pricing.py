"""Prices 100,000 strategies of one job, memory and step time: ``python -m benchmarks.pricing [NUMBER]``

Every combination of tensor and pipeline degree, micro-batch, ZeRO stage, place of the optimizer, order of
ranks, gradients and interleaving of a 70B model on 512 cards under Megatron, again and again up to NUMBER;
layers even, all recomputed or none. `benchmarks.speed` times it as a fresh process.
"""

from __future__ import annotations

import json
import sys
from itertools import product

import numpy as np

from shardwise.costs.columns import Ints, Strategies, code, usual_schedules
from shardwise.costs.stage_counts import Counts
from shardwise.costs.totals import Prices, price_columns
from shardwise.hardware import Cluster
from shardwise.models import Training, Transformer

from .face import tell

NUMBER = 100_000
CARDS = 512
CHOICES: dict[str, tuple[int, ...]] = {
    "tensor_parallel": (1, 2, 4, 8),
    "pipeline_parallel": (1, 2, 4, 8),
    "micro_batch_size": (1, 2, 4),
    "zero_stage": (0, 1),
    "rank_order": (0, 1),
    "sequence_parallel": (0, 1),
    "virtual_pipeline": (1, 2),
}


def rows(number: int, batch: int) -> tuple[Strategies, Ints]:
    """Columns of `number` strategies, and whether each recomputes all layers."""
    grid = np.array(list(product(*CHOICES.values(), (0, 1))), dtype=np.int64)
    every = np.resize(np.arange(len(grid)), number)
    chosen = dict(zip((*CHOICES, "full"), grid[every].T, strict=True))
    full = chosen.pop("full")
    data = CARDS // chosen["tensor_parallel"] // chosen["pipeline_parallel"]
    one = np.ones(number, dtype=np.int64)
    words = {
        "backend": "megatron",
        "software_stack": "megatron-bridge-2025",
        "precision": "bf16",
        "gradient_dtype": "fp32",
        "loss_kernel": "megatron",
        "offload_optimizer": "none",
        "offload_params": "none",
        "context_parallel_kind": "none",
    }
    rest = {
        "data_parallel": data,
        "context_parallel": one,
        "ulysses_group_size": one,
        "expert_parallel": one,
        "expert_tensor_parallel": chosen["tensor_parallel"],
        "shard_group_size": np.where(chosen["zero_stage"] > 0, data, 1),
        "secondary_shard_group_size": one,
        "reshard_after_forward": 0 * one,
        "overlap_gradient_reduce": one,
        "overlap_tensor_parallel": chosen["sequence_parallel"] * (chosen["tensor_parallel"] > 1),
        "overlap_parameter_gather": np.where(chosen["zero_stage"] > 0, 1, 0),
        "gradient_accumulation_steps": np.maximum(batch // data // chosen["micro_batch_size"], 1),
    }
    chosen["pipeline_schedule"] = usual_schedules(chosen["pipeline_parallel"], chosen["virtual_pipeline"])
    coded = {name: one * code(name, word) for name, word in words.items()}
    return Strategies(**{**chosen, **rest, **coded}), full


def priced(number: int = NUMBER) -> Prices:
    """Prices of `number` strategies."""
    model = Transformer.preset("llama-3.1-70b")
    training = Training(global_batch_size=2048, sequence_length=8192)
    strategies, full = rows(number, training.global_batch_size)
    stages = strategies.pipeline_parallel
    held = np.arange(int(stages.max()))[None, :] < stages[:, None]
    layer = np.where(held, model.layers // stages[:, None], 0)[:, :, None]
    none = np.zeros_like(layer)
    counts = Counts(layer, layer * full[:, None, None], none, none, held)
    return price_columns(model, training, Cluster.preset("dgx-h100", nodes=CARDS // 8), strategies, counts)


def main(arguments: list[str]) -> None:
    """Prints how many were priced, and the best that fits a card."""
    prices = priced(int(arguments[0]) if arguments else NUMBER)
    usable = prices.book.layout.cluster.node.gpu.memory_usable_bytes // 1024
    fits = prices.peak_kib <= usable
    best = int(prices.step.total[fits].min()) if fits.any() else 0
    tell(json.dumps({"status": "priced", "rows": len(fits), "fitting": int(fits.sum()), "best_ns": best}))


if __name__ == "__main__":
    main(sys.argv[1:])
