"""Kinds of requests: each leaves some knobs free, so that every value is optimal somewhere."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from shardwise.models import Training, Transformer
from shardwise.models.counts import count

from .machines import cluster
from .transformers import dense, experts, gpt, mixed, predicting

CARDS = ("dgx-h100", "dgx-a100-40gb", "ws-8x-rtx-4090", "dgx-b200", "NC96ads_A100_v4")


def training(rng: Random, batches: tuple[int, ...]) -> Training:
    """A batch of sequences."""
    return Training(
        global_batch_size=rng.choice(batches), sequence_length=rng.choice((512, 1024, 2048, 4096))
    )


Theme = Callable[[Random], dict[str, Any]]


def asked(
    rng: Random,
    transformer: Transformer,
    machines: tuple[str, int, int],
    batches: tuple[int, ...],
    choose: dict[str, Any],
    limits: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The fields of a request; `machines` are (preset, cards a node, nodes)."""
    return {
        "model": transformer,
        "cluster": cluster(rng, *machines),
        "training": training(rng, batches),
        "choose": choose,
        "limits": limits or {},
    }


def anything(rng: Random) -> dict[str, Any]:
    """Nothing is chosen: every backend, every degree; now and then three cards of a node of four."""
    transformer = rng.choice((dense, gpt, experts, mixed))(rng, rng.randint(2, 6))
    machines = (rng.choice(CARDS), rng.choice((1, 2, 4, 4)), 1)
    fields = asked(rng, transformer, machines, (2, 4, 8, 12), {})
    if machines[1] == 4 and rng.random() < 0.3:
        fields["cluster"] = fields["cluster"].model_copy(update={"cards": rng.choice((2, 3))})
    return fields


def pipeline(rng: Random) -> dict[str, Any]:
    """Stages of a model whose layers seldom divide evenly."""
    stages = rng.choice(([2], [2], [4], [2, 4], [3]))
    gpus = 3 if stages == [3] else rng.choice((2, 4))
    layers = rng.choice([n for n in range(max(stages) + 1, 9) if n % 2 or rng.random() < 0.5])
    transformer = rng.choice((dense, gpt))(rng, layers)
    nodes = max(rng.choice((1, 2)), max(stages) // gpus)
    choose: dict[str, Any] = {
        "backend": "megatron",
        "pipeline_parallel": stages,
        "micro_batch_size": rng.choice(([1], [1, 2], [4])),
        "zero_stage": rng.choice((None, None, None, [0])),
    }
    return asked(rng, transformer, (rng.choice(CARDS), gpus, nodes), (8, 16), choose)


def interleaved(rng: Random) -> dict[str, Any]:
    """Several chunks a stage, of layers that they divide or not, of one kind or two."""
    stages = rng.choice(([2], [2], [4]))
    layers = rng.choice((4, 5, 6, 7, 7, 8)) if stages == [2] else rng.choice((7, 8))
    transformer = rng.choice((dense, dense, mixed))(rng, layers)
    choose = {
        "backend": "megatron",
        "pipeline_parallel": stages,
        "virtual_pipeline": rng.choice(([2], [1, 2], [2, 4], [2, 3], None)),
    }
    machines = (rng.choice(CARDS), 4, rng.choice((1, 2)))
    return asked(rng, transformer, machines, (8, 16), choose)


def tensor(rng: Random) -> dict[str, Any]:
    """Tensor parallel with and without sequence parallel."""
    transformer = rng.choice((dense, gpt))(rng, rng.randint(2, 6))
    choose: dict[str, Any] = {
        "backend": rng.choice((["megatron"], ["fsdp"], ["fsdp", "megatron"])),
        "tensor_parallel": rng.choice(([2], [4], [2, 4])),
        "sequence_parallel": rng.choice((None, [False], [True])),
        "pipeline_parallel": rng.choice(([1], [1, 2])),
    }
    return asked(rng, transformer, (rng.choice(CARDS), 4, rng.choice((1, 2))), (4, 8), choose)


def context(rng: Random) -> dict[str, Any]:
    """The sequence over two cards or more."""
    transformer = rng.choice((dense, gpt, mixed))(rng, rng.randint(3, 6))
    choose: dict[str, Any] = {
        "backend": "megatron",
        "context_parallel": rng.choice(([2], [2, 4], [1, 2])),
        "pipeline_parallel": rng.choice(([1], [2], [1, 2])),
        "zero_stage": rng.choice((None, [0])),
    }
    return asked(rng, transformer, (rng.choice(CARDS), 4, rng.choice((1, 2))), (2, 4), choose)


def exchanged(rng: Random) -> dict[str, Any]:
    """The sequence over two cards or more, in a way that is asked for."""
    transformer = rng.choice((dense, dense, gpt, mixed))(rng, rng.randint(3, 5))
    kinds = rng.choice((["all_gather"], ["ulysses"], ["ulysses+ring"], ["ring", "ulysses", "ulysses+ring"]))
    choose: dict[str, Any] = {
        "backend": "megatron",
        "tensor_parallel": [1],
        "context_parallel": [4] if "ulysses+ring" in kinds else rng.choice(([2], [2, 4])),
        "context_parallel_kind": kinds,
        "pipeline_parallel": rng.choice(([1], [1, 2])),
    }
    return asked(rng, transformer, (rng.choice(CARDS), 4, rng.choice((1, 2))), (2, 4), choose)


def shared(rng: Random) -> dict[str, Any]:
    """FSDP and DeepSpeed: a sequence over two cards or more, states over the ranks of it too."""
    transformer = rng.choice((dense, dense, gpt, mixed))(rng, rng.randint(2, 5))
    backend, kinds = rng.choice(
        (("fsdp", None), ("fsdp", ["all_gather"]), ("fsdp", ["ring", "all_gather"]), ("deepspeed", None))
    )
    choose: dict[str, Any] = {
        "backend": [backend],
        "tensor_parallel": rng.choice((None, [1])),
        "context_parallel": rng.choice(([2], [2, 4])),
        "context_parallel_kind": kinds,
        "recompute": rng.choice((None, ["full"], ["none"])),
    }
    return asked(rng, transformer, (rng.choice(CARDS), 4, rng.choice((1, 2))), (2, 4), choose)


def crowded(rng: Random) -> dict[str, Any]:
    """Several ways to exchange a sequence over two cards or four, many micro-batches to choose from."""
    fields = exchanged(rng)
    kinds = rng.choice((["all_gather", "ulysses"], ["ring", "all_gather", "ulysses"]))
    fields["choose"] |= {"context_parallel_kind": kinds, "context_parallel": [2, 4]}
    size = {"global_batch_size": rng.choice((8, 16)), "sequence_length": rng.choice((4096, 8192, 16384))}
    return fields | {"training": fields["training"].model_copy(update=size)}


CUTS: tuple[tuple[list[int] | None, list[int] | None], ...] = (
    ([2], [2]), ([1], [2, 4]), ([2], [1, 2, 4]), ([2], None), ([1, 2], None), (None, [1]), (None, None),
)  # fmt: skip
"""Tensor parallel of the rest and of experts; None: free."""


def routing(rng: Random) -> dict[str, Any]:
    """Experts over cards, with tensor parallel beside or across them."""
    transformer = experts(rng, rng.randint(2, 5))
    across, cut = rng.choice(CUTS)
    choose: dict[str, Any] = {
        "backend": "megatron",
        "expert_parallel": rng.choice(([2], [2], [1, 2], [2, 4], None, None)),
        "tensor_parallel": across,
        "expert_tensor_parallel": cut,
        "pipeline_parallel": rng.choice(([1], [2], [1, 2])),
    }
    return asked(rng, transformer, (rng.choice(CARDS), 4, rng.choice((1, 2))), (4, 8), choose)


def two_kinds(rng: Random) -> dict[str, Any]:
    """Stages of a stack of two kinds."""
    transformer = mixed(rng, rng.randint(4, 7))
    choose: dict[str, Any] = {
        "backend": "megatron",
        "pipeline_parallel": rng.choice(([2], [4], [2, 4])),
        "zero_stage": rng.choice((None, [1])),
    }
    return asked(rng, transformer, (rng.choice(CARDS), 4, 1), (4, 8), choose)


def further(rng: Random) -> dict[str, Any]:
    """Modules that predict further tokens are trained, on the last stage."""
    transformer = predicting(rng, rng.randint(3, 6))
    choose: dict[str, Any] = {
        "backend": rng.choice(("megatron", "megatron", None)),
        "pipeline_parallel": rng.choice(([2], [2], [4], [2, 4], [1, 2, 4])),
        "zero_stage": rng.choice((None, [0], [1])),
        "recompute": rng.choice((None, None, None, ["full"])),
        "offload_optimizer": rng.choice((["none"], None)),
    }
    fields = asked(rng, transformer, (rng.choice(CARDS), 4, rng.choice((1, 1, 2))), (4, 8), choose)
    modules = rng.randint(1, transformer.predictor_depth)
    return fields | {"training": fields["training"].model_copy(update={"mtp_layers": modules})}


def sharded(rng: Random) -> dict[str, Any]:
    """FSDP: shards over a node or over all, layers recomputed one by one, offloaded one by one."""
    transformer = rng.choice((dense, gpt, mixed, experts))(rng, rng.randint(2, 5))
    gpus, nodes = rng.choice((2, 4)), rng.choice((1, 2, 2, 2))
    choose: dict[str, Any] = {
        "backend": "fsdp",
        "offload_optimizer": rng.choice((None, None, ["none"], ["cpu"])),
        "shard_group_size": rng.choice((None, [gpus], [gpus])) if nodes > 1 else None,
        "zero_stage": rng.choice((None, None, [2], [3])),
        "recompute": rng.choice((None, None, ["selective", "full"], ["none", "selective"], ["full"])),
    }
    return asked(rng, transformer, (rng.choice(CARDS), gpus, nodes), (8, 16), choose)


def zero(rng: Random) -> dict[str, Any]:
    """DeepSpeed: a ZeRO stage, states on the card or the host."""
    transformer = rng.choice((dense, gpt, mixed))(rng, rng.randint(2, 8))
    third = rng.random() < 0.5
    choose: dict[str, Any] = {
        "backend": "deepspeed",
        "zero_stage": [3] if third else rng.choice((None, [0, 1], [2], [1, 2])),
        "offload_optimizer": rng.choice((None, None, ["cpu"])),
        "offload_params": ["cpu"] if third and rng.random() < 0.3 else None,
        "recompute": rng.choice((None, None, ["full"], ["none"])),
    }
    machines = (rng.choice(CARDS), rng.choice((2, 4)), rng.choice((1, 2)))
    return asked(rng, transformer, machines, (8, 16), choose)


def beside(rng: Random) -> dict[str, Any]:
    """Switches of overlap that are asked for, or free where turning one off frees memory."""
    transformer = rng.choice((dense, gpt, mixed))(rng, rng.randint(2, 6))
    values = rng.choice(([False], [True], [False, True]))
    choose: dict[str, Any] = {
        "backend": rng.choice((["megatron"], ["deepspeed"], ["deepspeed", "megatron"])),
        "overlap_gradient_reduce": rng.choice((values, None)),
        "overlap_parameter_gather": rng.choice((values, None, None)),
        "overlap_tensor_parallel": rng.choice((None, [False, True])),
        "rules": rng.choice(([], [], ["overlap_parameter_gather <= overlap_gradient_reduce"])),
    }
    return asked(
        rng, transformer, (rng.choice(CARDS), rng.choice((2, 4)), rng.choice((1, 2))), (8, 16), choose
    )


def doubled(rng: Random) -> dict[str, Any]:
    """DeepSpeed ZeRO-3 on two machines: a second copy of the weights in each, or over pairs."""
    transformer = rng.choice((dense, gpt, mixed))(rng, rng.randint(2, 5))
    gpus = rng.choice((2, 4))
    choose: dict[str, Any] = {
        "backend": "deepspeed",
        "zero_stage": [3],
        "secondary_shard_group_size": rng.choice(([gpus], [2], [2, gpus])),
        "offload_params": ["none"],
    }
    return asked(rng, transformer, (rng.choice(CARDS), gpus, 2), (8, 16), choose)


MACHINES_OF: tuple[tuple[str, list[str] | None], ...] = (
    ("p3dn.24xlarge", None),
    ("p3dn.24xlarge", None),
    ("p3dn.24xlarge", None),
    ("p3dn.24xlarge", ["fp16", "bf16"]),
    ("dgx-a100-40gb", ["fp16"]),
    ("dgx-a100-40gb", ["fp16"]),
    ("dgx-a100-40gb", ["fp32"]),
    ("dgx-a100-40gb", ["fp32", "fp8"]),
    ("dgx-h100", ["fp32"]),
    ("dgx-h100", ["fp32"]),
    ("dgx-h100", ["fp8"]),
    ("ws-8x-rtx-4090", ["fp8"]),
    ("dgx-b200", ["fp8", "fp32"]),
    ("dgx-b200", ["mxfp8"]),
)
"""Cards with precisions; an old card has fp16 alone, and not each has 8-bit arithmetic."""


def arithmetic(rng: Random) -> dict[str, Any]:
    """Precisions and gradient types."""
    transformer = rng.choice((dense, gpt))(rng, rng.randint(2, 5))
    preset, precision = rng.choice(MACHINES_OF)
    choose: dict[str, Any] = {
        "precision": precision,
        "gradient_dtype": rng.choice((None, None, ["bf16", "fp16", "fp32"])),
        "pipeline_parallel": None if precision == ["fp32"] else rng.choice((None, [2])),
    }
    return asked(rng, transformer, (preset, rng.choice((2, 4)), 1), (4, 8), choose)


def hosted(rng: Random) -> dict[str, Any]:
    """Stages that share the host memory of a node, in nodes they sometimes do not fill evenly."""
    transformer = rng.choice((dense, gpt, mixed))(rng, rng.randint(3, 7))
    gpus = rng.choice((2, 3, 4))
    share = 24 * count(transformer).total
    choose: dict[str, Any] = {
        "backend": "megatron",
        "pipeline_parallel": [gpus] if rng.random() < 0.3 else [2, 3, 4],
        "offload_optimizer": rng.choice((["cpu"], ["cpu"], None)),
        "rank_order": rng.choice((None, ["tp-cp-pp-dp"], ["tp-cp-dp-pp"])),
    }
    limits = {"host_memory_bytes": int(share * (0.3 + 0.9 * rng.random()))}
    batches = (6, 12) if gpus == 3 else (8, 16)
    return asked(rng, transformer, (rng.choice(CARDS), gpus, 2), batches, choose, limits)


THEMES: tuple[Theme, ...] = (
    pipeline, anything, further, tensor, pipeline, context, routing, hosted, pipeline, zero,
    pipeline, sharded, two_kinds, interleaved, arithmetic, arithmetic, routing, hosted, arithmetic, zero,
    beside, sharded, further, hosted, anything, doubled, two_kinds, hosted, arithmetic, sharded,
)  # fmt: skip
