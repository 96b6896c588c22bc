"""Random small requests: tiny transformers on tiny clusters whose memory binds. One seed, one request."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from random import Random
from typing import Any

from shardwise.hardware import Cluster
from shardwise.models import Attention, Block, FeedForward, Run, Training, Transformer
from shardwise.models.counts import count
from shardwise.plans import Request

from .evaluate import Evaluator
from .prices import Costs, costs_of
from .rows import Row, every_row
from .stages import layouts
from .wishes import recompute_words

GIB = 2**30
FAMILIES = {
    "dense": "llama",
    "gpt": "gpt2",
    "experts": "mixtral",
    "windows": "mistral",
    "mixed": "qwen3_moe",
}
"""A family for each kind of tiny model."""

SAMPLE = 8
"""Rows looked at before the memory of a card is drawn."""

ROOM = (-0.35, 1.2)
"""Where that memory lies between the tightest layout (0) and the roomiest (1)."""

CARDS = ("dgx-h100", "dgx-a100-40gb", "ws-8x-rtx-4090", "dgx-b200", "NC96ads_A100_v4")


def cluster(rng: Random, preset: str, gpus: int, nodes: int) -> Cluster:
    """`nodes` machines of `gpus` cards each, made from a catalogue node."""
    node = Cluster.preset(preset).node
    island = gcd(gpus, node.island_size)
    small = node.model_copy(
        update={
            "gpus": gpus,
            "island_size": island,
            "domain_size": island,
            "nics": max(1, node.nics * gpus // node.gpus),
            "host_memory_bytes": rng.choice((16, 64, 2048)) * GIB,
        }
    )
    return Cluster(name=f"small-{preset}", node=small, nodes=nodes)


def attention(rng: Random, hidden: int, grouped: bool = True) -> Attention:
    """Four or eight heads, grouped or not."""
    heads = rng.choice((4, 8))
    kv_heads = rng.choice((2, 4)) if grouped else heads
    return Attention(heads=heads, kv_heads=kv_heads, head_dim=hidden // heads, qkv_bias=not grouped)


def model(name: str, hidden: int, vocab: int, runs: list[tuple[Block, int]], **more: Any) -> Transformer:
    """A transformer of runs of blocks."""
    return Transformer(
        name=name,
        family=FAMILIES[name],
        hidden_size=hidden,
        vocab_size=vocab,
        runs=tuple(Run(block=block, layers=layers) for block, layers in runs if layers),
        **more,
    )


def dense(rng: Random, layers: int) -> Transformer:
    """Grouped queries, gated feed-forward."""
    hidden = rng.choice((1024, 2048))
    forward = FeedForward(width=hidden * rng.choice((2, 4)))
    block = Block(attention=attention(rng, hidden), feed_forward=forward)
    return model("dense", hidden, rng.choice((8000, 32000, 64000)), [(block, layers)])


def gpt(rng: Random, layers: int) -> Transformer:
    """Multi-head attention, plain feed-forward, biases, learned positions, tied embeddings."""
    hidden = rng.choice((1024, 1536))
    forward = FeedForward(width=4 * hidden, gated=False, bias=True)
    block = Block(attention=attention(rng, hidden, grouped=False), feed_forward=forward, norm="layer")
    tied = rng.random() < 0.5
    return model("gpt", hidden, 50257, [(block, layers)], tied_embeddings=tied, positions=4096)


def routed(rng: Random, hidden: int) -> FeedForward:
    """Two of four experts, with or without a shared one."""
    shared = rng.choice((0, hidden))
    return FeedForward(width=hidden, experts=4, experts_per_token=2, shared_width=shared)


def experts(rng: Random, layers: int) -> Transformer:
    """Every layer a mixture of experts."""
    hidden = rng.choice((1024, 2048))
    block = Block(attention=attention(rng, hidden), feed_forward=routed(rng, hidden))
    return model("experts", hidden, 32000, [(block, layers)])


def mixed(rng: Random, layers: int) -> Transformer:
    """Two kinds: dense layers, then wider ones, or ones of experts, or windows that alternate."""
    hidden = 1024
    looks = attention(rng, hidden)
    plain = Block(attention=looks, feed_forward=FeedForward(width=2 * hidden))
    first = rng.randint(1, layers - 1)
    if rng.random() < 0.4:
        near = Block(attention=looks.model_copy(update={"window": 256}), feed_forward=plain.feed_forward)
        return model("windows", hidden, 32000, [((near, plain)[i % 2], 1) for i in range(layers)])
    wide = FeedForward(width=6 * hidden) if rng.random() < 0.5 else routed(rng, hidden)
    other = Block(attention=looks, feed_forward=wide)
    return model("mixed", hidden, 32000, [(plain, first), (other, layers - first)])


def training(rng: Random, batches: tuple[int, ...]) -> Training:
    """A batch of sequences."""
    return Training(
        global_batch_size=rng.choice(batches), sequence_length=rng.choice((512, 1024, 2048, 4096))
    )


def with_memory(whole: Request, bytes_: int) -> Request:
    """The request on cards of which a process can allocate so many bytes."""
    node = whole.cluster.node
    gpu = node.gpu.model_copy(update={"memory_usable_bytes": bytes_})
    cards = whole.cluster.model_copy(update={"node": node.model_copy(update={"gpu": gpu})})
    return whole.model_copy(update={"cluster": cards})


def binding(rng: Random, whole: Request) -> Request:
    """The request on cards so small that memory binds.

    Of a few rows, what the roomiest layout needs and what the tightest needs; the card lies between the
    least of both, or a little outside.
    """
    rows = list(every_row(whole))
    some = rng.sample(rows, min(len(rows), SAMPLE))
    place = rng.uniform(*ROOM)
    if not some:
        return with_memory(whole, 8 * GIB)
    peaks = [_extremes(whole, row, costs) for row, costs in zip(some, costs_of(whole, some), strict=True)]
    tight = min(low for low, _ in peaks)
    loose = max(min(high for _, high in peaks), tight * 6 // 5)
    wanted = tight + (loose - tight) * place
    return with_memory(whole, int(wanted / (1 - whole.limits.memory_margin)) * 1024)


def _extremes(whole: Request, row: Row, costs: Costs) -> tuple[int, int]:
    """Least and largest peak, KiB, over the layouts of a row."""
    evaluator = Evaluator(whole, row, costs)
    found = [
        max(evaluator.weight(stage, held).peak_kib for stage, held in enumerate(layout))
        for layout in layouts(row, whole.model.layers, recompute_words(whole))
    ]
    return (min(found), max(found)) if found else (4 * GIB // 1024, 8 * GIB // 1024)


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
    """Several chunks a stage."""
    stages = rng.choice(([2], [2], [4]))
    transformer = dense(rng, rng.choice((4, 6, 8)) if stages == [2] else 8)
    choose = {
        "backend": "megatron",
        "pipeline_parallel": stages,
        "virtual_pipeline": rng.choice(([2], [1, 2], [2, 4], [3])),
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


def routing(rng: Random) -> dict[str, Any]:
    """Experts over cards, with tensor parallel beside or across them."""
    transformer = experts(rng, rng.randint(2, 5))
    across, cut = rng.choice((([2], [2]), ([2], [2]), ([2], None), ([1, 2], None), (None, [1]), (None, None)))
    choose: dict[str, Any] = {
        "backend": "megatron",
        "expert_parallel": rng.choice(([2], [2], [1, 2], [2, 4], None)),
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


MACHINES_OF: tuple[tuple[str, list[str] | None], ...] = (
    ("p3dn.24xlarge", None),
    ("p3dn.24xlarge", None),
    ("p3dn.24xlarge", ["fp16", "bf16"]),
    ("dgx-a100-40gb", ["fp16"]),
    ("dgx-a100-40gb", ["fp16"]),
    ("p3dn.24xlarge", None),
    ("dgx-a100-40gb", ["fp32", "fp8"]),
    ("dgx-h100", ["fp32"]),
    ("dgx-h100", ["fp32"]),
    ("dgx-a100-40gb", ["fp32"]),
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
    pipeline, anything, two_kinds, tensor, pipeline, context, routing, hosted, pipeline, zero,
    pipeline, sharded, two_kinds, interleaved, arithmetic, arithmetic, routing, hosted, arithmetic, zero,
    pipeline, sharded, two_kinds, hosted, anything, arithmetic, two_kinds, hosted, arithmetic, sharded,
)  # fmt: skip

RULES = (
    "tensor_parallel * pipeline_parallel <= 4",
    "micro_batch_size * 2 <= gradient_accumulation_steps or zero_stage >= 2",
    "data_parallel >= pipeline_parallel",
    "not (pipeline_parallel == 2 and virtual_pipeline == 1)",
    "gradient_accumulation_steps % pipeline_parallel == 0",
    "1 <= micro_batch_size < 4",
    "data_parallel // tensor_parallel != 1",
    "sequence_parallel + zero_stage * 2 > 1",
)
"""Rules on two knobs or more, of every operator."""


def request(seed: int) -> Request:
    """The request of a seed: a theme, and now and then a rule, a deadline, a margin, a reach.

    >>> request(7) == request(7)
    True
    """
    rng = Random(seed)
    fields = THEMES[seed % len(THEMES)](rng)
    if rng.random() < 0.2:
        fields["choose"]["rules"] = rng.sample(RULES, rng.choice((1, 1, 2)))
    if rng.random() < 0.25:
        fields["limits"]["max_step_seconds"] = 0.01 * 100 ** rng.random()
    if rng.random() < 0.15:
        fields["limits"]["memory_margin"] = rng.choice((0.0, 0.02, 0.2))
    if rng.random() < 0.15:
        fields["limits"]["tensor_parallel_within"] = rng.choice(("island", "node", "leaf"))
    return binding(rng, Request(**fields))
