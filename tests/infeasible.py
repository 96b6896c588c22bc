"""Sixty requests that no plan fits: memory, host, deadline, shape, batch, backend, rules and mixtures.

Those with an id are of the kinds people ask about in public threads (a: it does not fit, c: a configuration
that cannot start); the others walk through the ways in which limits clash.
"""

from __future__ import annotations

from typing import Any

from shardwise import Request

H100, A100, A40 = "dgx-h100", "dgx-a100-80gb", "dgx-a100-40gb"
DATA = {"tensor_parallel": 1, "pipeline_parallel": 1, "context_parallel": 1}


def _row(
    name: str, model: str, preset: str, gpus: int, batch: int, length: int, **more: Any
) -> tuple[str, dict[str, Any]]:
    training = {"global_batch_size": batch, "sequence_length": length, **more.pop("training", {})}
    return name, {
        "model": model, "cluster": {"preset": preset, "gpus": gpus}, "training": training, **more
    }  # fmt: skip


_ROWS = [
    # states too large for the cards
    _row("a052 mixtral zero 2", "mixtral-8x7b", A100, 8, 64, 4096, choose={"zero_stage": 2}),
    _row("a052 mixtral zero 3", "mixtral-8x7b", A100, 8, 32, 2048,
         choose={"zero_stage": 3, "offload_optimizer": "none"}),
    _row("a095 52B zero 2", "gpt-neox-20b", "p3dn.24xlarge", 8, 64, 2048,
         choose={"zero_stage": 2, "precision": "fp16", "backend": "deepspeed"}),
    _row("70B on one node", "llama-3.1-70b", H100, 8, 64, 4096, choose={"offload_optimizer": "none"}),
    _row("70B zero 1", "llama-3.1-70b", H100, 64, 64, 4096, choose={"zero_stage": 1, **DATA}),
    _row("70B ddp", "llama-3.1-70b", H100, 64, 128, 4096, choose={"zero_stage": 0, "backend": "deepspeed"}),
    _row("8B on one card", "llama-3.1-8b", H100, 1, 8, 4096, choose={"offload_optimizer": "none"}),
    _row("8B ddp on 8", "llama-3.1-8b", A100, 8, 64, 4096, choose={"zero_stage": 0, **DATA}),
    _row("7B on 24 GB cards", "llama-2-7b", "ws-2x-rtx-3090", 2, 8, 2048,
         choose={"offload_optimizer": "none"}),
    _row("a041 7B on 24 GB, zero 2", "llama-2-7b", "g5.48xlarge", 8, 16, 4096,
         choose={"zero_stage": 2, "backend": "fsdp", "offload_optimizer": "none", "recompute": "none",
                 "micro_batch_size": 2, **DATA}),
    _row("405B on a node", "llama-3.1-405b", H100, 8, 64, 4096),
    _row("405B on four nodes on the card", "llama-3.1-405b", H100, 32, 64, 4096,
         choose={"offload_optimizer": "none"}),
    _row("175B megatron on two nodes", "gpt3-175b", A100, 16, 64, 2048,
         choose={"backend": "megatron", "offload_optimizer": "none"}),
    _row("32B ddp", "qwen2.5-32b", H100, 8, 64, 4096, choose={"zero_stage": [0, 1], **DATA}),
    _row("a061 33B", "qwen2.5-32b", A100, 8, 8, 16384,
         choose={"zero_stage": 3, "offload_optimizer": "none", "backend": "deepspeed", "recompute": "none"}),
    _row("14B with little kept", "qwen2.5-14b", A40, 4, 16, 4096,
         choose={"offload_optimizer": "none", "backend": "deepspeed"}),
    _row("mixed stack on two cards", "deepseek-v2-lite", A40, 2, 16, 4096,
         choose={"offload_optimizer": "none"}),
    _row("moe on four cards", "qwen3-30b-a3b", H100, 4, 64, 4096, choose={"offload_optimizer": "none"}),
    _row("20B with two cards", "gpt-neox-20b", A100, 2, 16, 2048, choose={"offload_optimizer": "none"}),
    _row("margin of half", "llama-3.1-8b", A40, 8, 64, 4096, limits={"memory_margin": 0.75},
         choose={"offload_optimizer": "none"}),
    # activations too large
    _row("no recompute", "llama-3.1-8b", A100, 8, 8, 65536, choose={"recompute": "none", **DATA}),
    _row("micro-batch 16", "llama-3.1-8b", A100, 8, 128, 8192,
         choose={"micro_batch_size": 16, "recompute": "none", **DATA}),
    _row("a million tokens", "llama-3.1-8b", H100, 8, 8, 1048576, choose=DATA),
    _row("a035 long sequences", "opt-30b", A100, 16, 16, 65536,
         choose={"zero_stage": 3, "backend": "deepspeed", "context_parallel": 1}),
    _row("eager loss", "llama-3.1-8b", A100, 8, 8, 524288,
         choose={"backend": "fsdp", "loss_kernel": "eager"}),
    _row("large vocabulary", "gemma-2-9b", A40, 8, 64, 32768, choose={"backend": "deepspeed"}),
    # host memory
    _row("a036 host of 300 GB", "yi-34b", A40, 8, 64, 2048, limits={"host_memory_bytes": 300_000_000_000}),
    _row("a038 32B on one card", "qwen2.5-32b", H100, 1, 8, 2048,
         limits={"host_memory_bytes": 500_000_000_000}),
    _row("a047 70B offloaded", "llama-2-70b", A100, 8, 64, 2048,
         choose={"zero_stage": 3, "offload_optimizer": "cpu"},
         limits={"host_memory_bytes": 840_000_000_000}),
    _row("8B offloaded to 64 GB", "llama-3.1-8b", A40, 2, 8, 2048,
         limits={"host_memory_bytes": 64_000_000_000}),
    _row("host of nothing", "llama-3.1-8b", H100, 8, 64, 2048,
         choose={"offload_optimizer": "cpu"}, limits={"host_memory_bytes": 1_000_000_000}),
    # deadlines
    _row("a second", "llama-3.1-8b", H100, 8, 64, 4096, limits={"max_step_seconds": 1.0}),
    _row("ten seconds of 70B", "llama-3.1-70b", H100, 64, 512, 8192, limits={"max_step_seconds": 10}),
    _row("deadline and tp 8", "llama-3.1-8b", H100, 16, 128, 8192,
         choose={"tensor_parallel": 8}, limits={"max_step_seconds": 6.5}),
    _row("deadline and full recompute", "llama-3.1-8b", H100, 16, 128, 8192,
         choose={"recompute": "full"}, limits={"max_step_seconds": 6.5}),
    _row("deadline and deepspeed", "llama-3.1-8b", H100, 16, 128, 8192,
         choose={"backend": "deepspeed"}, limits={"max_step_seconds": 7}),
    _row("deadline and offload", "llama-3.1-8b", A100, 8, 64, 2048,
         choose={"offload_optimizer": "cpu"}, limits={"max_step_seconds": 2}),
    # shapes
    _row("c017 four key-value heads", "qwen3-30b-a3b", H100, 8, 64, 4096,
         choose={"tensor_parallel": 8, "backend": "megatron"}),
    _row("c019 52 heads", "gpt2-xl", H100, 8, 64, 1024, choose={"tensor_parallel": 8}),
    _row("tp 3", "llama-3.1-70b", H100, 64, 512, 8192, choose={"tensor_parallel": 3}),
    _row("more stages than layers", "llama-3.2-1b", H100, 32, 64, 2048, choose={"pipeline_parallel": 32}),
    _row("c025 a ring of three", "llama-3.1-8b", H100, 8, 64, 4096, choose={"context_parallel": 3}),
    _row("experts do not divide", "mixtral-8x7b", H100, 16, 64, 4096, choose={"expert_parallel": 16}),
    _row("context ring and a window", "gemma-2-9b", H100, 8, 64, 8192, choose={"context_parallel": 2}),
    _row("virtual stages", "llama-3.1-8b", H100, 16, 64, 4096,
         choose={"virtual_pipeline": 5, "pipeline_parallel": 2}),
    # batch and cards
    _row("c003 batch below the ranks", "llama-3.1-8b", H100, 16, 8, 4096, choose=DATA),
    _row("batch of 100 on 24", "llama-3.1-8b", H100, 24, 100, 4096, choose=DATA),
    _row("c001 triad", "llama-3.1-8b", H100, 8, 64, 4096,
         choose={"micro_batch_size": 2, "gradient_accumulation_steps": 1, **DATA}),
    _row("batch of 7", "llama-3.2-1b", H100, 8, 7, 2048,
         choose={"backend": "deepspeed", "context_parallel": 1}),
    _row("data 5 of 8", "llama-3.2-1b", H100, 8, 40, 2048, choose={"data_parallel": 5}),
    _row("degrees that do not multiply", "llama-3.2-1b", H100, 8, 64, 2048,
         choose={"tensor_parallel": 4, "pipeline_parallel": 4}),
    # backends
    _row("c013 zero 2 and stages", "llama-3.1-8b", H100, 16, 64, 4096,
         choose={"zero_stage": 2, "pipeline_parallel": 2}),
    _row("c015 zero 3 with megatron", "llama-3.1-8b", H100, 16, 64, 4096,
         choose={"zero_stage": 3, "backend": "megatron"}),
    _row("c043 offloaded weights at zero 2", "llama-3.1-8b", H100, 8, 64, 4096,
         choose={"zero_stage": 2, "offload_params": "cpu", "backend": "deepspeed"}),
    _row("c051 muon with deepspeed", "llama-3.1-8b", H100, 8, 64, 4096,
         training={"optimizer": "muon"}, choose={"backend": "deepspeed"}),
    _row("deepspeed with tensors cut", "llama-3.1-8b", H100, 8, 64, 4096,
         choose={"backend": "deepspeed", "tensor_parallel": 2}),
    _row("fp8 on A100", "llama-3.1-8b", A100, 8, 64, 4096, choose={"precision": "fp8"}),
    _row("selective with deepspeed", "llama-3.1-8b", H100, 8, 64, 4096,
         choose={"backend": "deepspeed", "recompute": "selective"}),
    # rules
    _row("rules against each other", "llama-3.1-8b", H100, 16, 64, 4096,
         choose={"rules": ["tensor_parallel >= 4", "tensor_parallel * 2 <= 4", "micro_batch_size <= 8"]}),
    _row("rule and memory", "llama-3.1-70b", H100, 16, 64, 4096,
         choose={"rules": ["tensor_parallel * pipeline_parallel <= 1", "zero_stage <= 2"]}),
    _row("tensors within a card", "llama-3.1-70b", "ws-8x-rtx-4090", 8, 64, 2048,
         choose={"tensor_parallel": 8, "offload_optimizer": "none"},
         limits={"tensor_parallel_within": "island"}),
]  # fmt: skip

INFEASIBLE: dict[str, Request] = {name: Request(**fields) for name, fields in _ROWS}
