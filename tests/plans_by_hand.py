"""Plans made by hand for tests of the launch files: no ledger, no search, numbers that only look right."""

from __future__ import annotations

from typing import Any

from shardwise.hardware import Cluster
from shardwise.models import Attention, Block, FeedForward, Run, Stage, Strategy, Training, Transformer
from shardwise.plans import (
    Buckets,
    BytesPerParameter,
    Cost,
    MemoryReport,
    PeakUncertainty,
    Plan,
    Proof,
    Request,
    StageMemory,
    TimeReport,
    Uncertainty,
)

TINY = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 256,
    "max_position_embeddings": 64,
}
"""The Hugging Face configuration that `tiny` describes."""

SEQUENCE = 32
TERMS = {"states": 3_000_000, "activations": 1_000_000}


def tiny(family: str = "llama", *, tied: bool = False, qkv_bias: bool = False) -> Transformer:
    """A Llama-like model of four layers and 180,800 parameters (164,416 tied)."""
    attention = Attention(heads=4, kv_heads=2, head_dim=16, qkv_bias=qkv_bias)
    block = Block(attention=attention, feed_forward=FeedForward(width=128))
    return Transformer(
        name=f"tiny-{family}",
        family=family,
        hidden_size=64,
        vocab_size=256,
        runs=(Run(block=block, layers=4),),
        tied_embeddings=tied,
    )


def stage(**counts: Any) -> tuple[Stage, ...]:
    """The one stage of the tiny model."""
    return (Stage(layers=4, **counts),)


def deepspeed(zero_stage: int, ranks: int, **changes: Any) -> Strategy:
    """A DeepSpeed strategy over `ranks` data-parallel cards."""
    values: dict[str, Any] = {
        "backend": "deepspeed",
        "software_stack": "deepspeed-2024",
        "loss_kernel": "eager",
        "data_parallel": ranks,
        "zero_stage": zero_stage,
        "shard_group_size": ranks * changes.get("context_parallel", 1) if zero_stage else 1,
        "reshard_after_forward": zero_stage == 3,
        "stages": stage(),
    }
    return Strategy(**{**values, **changes})


def fsdp(zero_stage: int, ranks: int, **changes: Any) -> Strategy:
    """An FSDP strategy over `ranks` data-parallel cards, layers not compiled; shards follow context ranks."""
    values: dict[str, Any] = {
        "backend": "fsdp",
        "software_stack": "fsdp-hf-2023",
        "data_parallel": ranks,
        "zero_stage": zero_stage,
        "shard_group_size": ranks * changes.get("context_parallel", 1),
        "reshard_after_forward": zero_stage == 3,
        "gradient_dtype": "fp32",
        "stages": stage(),
    }
    return Strategy(**{**values, **changes})


def megatron(zero_stage: int, ranks: int, **changes: Any) -> Strategy:
    """A Megatron-LM strategy over `ranks` data-parallel cards; the shards follow its context ranks."""
    values: dict[str, Any] = {
        "backend": "megatron",
        "software_stack": "megatron-bridge-2025",
        "loss_kernel": "megatron",
        "data_parallel": ranks,
        "zero_stage": zero_stage,
        "shard_group_size": ranks * changes.get("context_parallel", 1) if zero_stage else 1,
        "gradient_dtype": "fp32",
        "stages": stage(),
        "pipeline_parallel": len(changes.get("stages", stage())),
    }
    return Strategy(**{**values, **changes})


def plan(
    strategy: Strategy,
    *,
    model: Transformer | None = None,
    cluster: Cluster | None = None,
    optimizer: str = "adamw",
    sequence: int = SEQUENCE,
    **more: object,
) -> Plan:
    """A plan around `strategy`; the batch is what its ranks make, the cluster just holds its world.

    `more` are further fields of the job.
    """
    made = strategy.data_parallel * strategy.micro_batch_size * strategy.gradient_accumulation_steps
    training = {"global_batch_size": made, "sequence_length": sequence, "optimizer": optimizer, **more}
    request = Request(
        model=model or tiny(),
        cluster=cluster or Cluster.of_gpus("dgx-h100", strategy.world),
        training=Training.model_validate(training),
    )
    return Plan(
        status="optimal",
        inputs_hash="0123456789abcdef",
        versions={"shardwise": "0"},
        request=request,
        strategy=strategy,
        writable_by=(),
        placement={"data_parallel": "island"},
        memory=_memory(),
        time=_time(),
        traffic=(),
        cost=Cost(),
        proof=_proof(),
        buckets=Buckets(
            reduce_bucket_elements=50_000,
            allgather_bucket_elements=60_000,
            prefetch_bucket_elements=7_000,
            max_live_parameters=100_000,
            persistence_threshold=80,
            sub_group_elements=90_000,
        ),
    )


def _memory() -> MemoryReport:
    total = sum(TERMS.values())
    worst = StageMemory(stage=0, peak_moment="backward", total_bytes=total, terms_bytes=TERMS)
    return MemoryReport(
        usable_bytes=8_000_000,
        total_bytes=total,
        limit_bytes=7_000_000,
        verdict="fits",
        uncertainty=PeakUncertainty(low_bytes=total // 2, high_bytes=total * 2, basis="made by hand"),
        views_bytes={"allocated": total, "reserved": total, "process": total},
        peak_stage=0,
        peak_moment="backward",
        terms_bytes=TERMS,
        stages=(worst,),
        host_bytes_per_node=2**30,
        host_usable_bytes=2**40,
        host_verdict="fits",
        load_peak_bytes=total,
        checkpoint_bytes=total,
        bytes_per_parameter=BytesPerParameter(recipe="zero-paper", weights=2, gradients=2, optimizer=12),
    )


def _time() -> TimeReport:
    return TimeReport(
        step_seconds=0.25,
        terms_seconds={"compute": 0.25},
        hidden_seconds={},
        comm_fraction=0.0,
        limit_seconds=0.1,
        limit_fraction=0.4,
        tokens_per_second=1024.0,
        tokens_per_second_per_gpu=256.0,
        model_tflops_per_gpu=12.5,
        mfu=0.4,
        hfu=0.5,
        uncertainty=Uncertainty(low_seconds=0.2, high_seconds=0.3, basis="made by hand"),
    )


def _proof() -> Proof:
    return Proof(
        bound_seconds=0.25,
        gap=0.0,
        rows_considered=1,
        rows_excluded_by={},
        leaves_solved=1,
        master_solves=1,
        deterministic_time=0.0,
        statement="made by hand",
    )
