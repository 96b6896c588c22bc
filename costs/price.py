"""Pricing: the ledger of each of some strategies, entry by entry."""

from __future__ import annotations

from collections.abc import Sequence

from ..hardware import Cluster
from ..models.stack import stack, stack_names
from ..models.strategy import Strategy
from ..models.training import Training
from ..models.transformer import Transformer
from ..models.work import flops_per_token, parameters
from .buffers import buckets, whole_rank
from .columns import Strategies
from .context import ACTIVATION_BYTES
from .frame import by_name
from .group import Group
from .host import host_share_bytes, stage_block
from .interval import peak_interval
from .law import law
from .layout import Layout
from .ledger import Ledger, StageEntry
from .moments import MOMENTS
from .recipes import fixed_recipe_of, recipe_of
from .stacks import stack_has
from .stage_counts import Counts
from .totals import Prices, price_columns


def price(
    transformer: Transformer, training: Training, cluster: Cluster, strategies: Sequence[Strategy]
) -> list[Ledger]:
    """A `Ledger` for each of `strategies`, which must use all cards of the cluster and hold all layers."""
    if not strategies:
        return []
    counts = Counts.of(strategies, transformer.kind_of_layer)
    prices = price_columns(transformer, training, cluster, Strategies.of(strategies), counts)
    return [_ledger(prices, row) for row in range(len(strategies))]


def _ledger(prices: Prices, row: int) -> Ledger:
    layout = prices.book.layout
    flops = flops_per_token(layout.training, layout.transformer) * layout.training.tokens
    known = recipe_of(layout, row)
    ratio = peak_interval()
    weights, optimizer = (known.weights_bytes, known.optimizer_bytes) if known else (0.0, 0.0)
    kept = fixed_recipe_of(layout, row, layout.training.way.kind == "qlora")
    planned = stack_has(layout, "allocator", "planned")
    return Ledger(
        stages=tuple(_stage(prices, row, stage) for stage in range(int(prices.counts.held[row].sum()))),
        terms_ns=_time_terms(prices, row),
        hidden_ns=_hidden(prices, row),
        host_node_kib=int(prices.host_node_kib[row]),
        host_terms_kib=_host_terms(prices, row),
        host_divides=bool((layout.shard == layout.data_ranks)[row] and layout.strategies.zero_stage[row] > 0),
        host_load_kib=_host_load_kib(layout),
        traffic_bytes=_traffic(prices, row),
        uplink_bytes=int(prices.uplink_bytes[row]),
        usable_kib=layout.cluster.node.gpu.memory_usable_bytes // 1024,
        host_usable_kib=host_share_bytes(layout.cluster.node) // 1024,
        fragmentation_refused=0.0 if planned[row] else law("refusal_share"),
        limit_ns=_limit_ns(layout, row, flops),
        step_flops=int(flops),
        recomputed_flops=int(prices.flops_again[row]),
        recipe=known.name if known else "none",
        recipe_bytes={
            "weights": weights,
            "gradients": known.gradients_bytes if known else 0.0,
            "optimizer": optimizer,
            "frozen": kept.weights_bytes if kept and len(layout.portions) > 1 else 0.0,
        },
        buckets=buckets(layout, row),
        placement=_placement(layout, row),
        checkpoint_bytes=_checkpoint_bytes(layout, row),
        peak_low=ratio.low,
        peak_high=ratio.high,
        peak_basis=f"{ratio.rows} published peaks of {ratio.sources} sources left out in turn",
        load_whole_kib=_load_whole_kib(layout, row),
    )


def _host_terms(prices: Prices, row: int) -> dict[str, int]:
    """Host memory of the fullest node by term: the stages that share it, times their cards."""
    layout = prices.book.layout
    count, cards = (int(part[row]) for part in stage_block(layout)[:2])
    stages = int(prices.counts.held[row].sum())
    blocks = []
    for first in range(0, stages, count):
        found: dict[str, int] = {}
        for stage in range(first, min(first + count, stages)):
            for name, kib in by_name(prices.book.host, prices.frame, row, stage).items():
                found[name] = found.get(name, 0) + kib * cards
        blocks.append(found)
    return max(blocks, key=lambda block: sum(block.values()))


def _host_load_kib(layout: Layout) -> int:
    """The whole model in 16 bits for each card of a node."""
    cards = min(layout.cluster.node.gpus, layout.cluster.gpus)
    return cards * ACTIVATION_BYTES * layout.counted.total // 1024


def _load_whole_kib(layout: Layout, row: int) -> int:
    """16-bit weights of a rank, where the software stack puts them on the card before it shards them."""
    if not stack(stack_names()[int(layout.strategies.software_stack[row])]).loads_whole:
        return 0
    return int(ACTIVATION_BYTES * whole_rank(layout, layout.portions)[row]) // 1024


def _checkpoint_bytes(layout: Layout, row: int) -> int:
    """Weights and optimizer states of what is trained; the frozen rest too, but for a base under adapters."""
    held, known = parameters(layout.training, layout.transformer), recipe_of(layout, row)
    kept = fixed_recipe_of(layout, row, False)
    each = known.weights_bytes + known.optimizer_bytes if known else 0.0
    beside = 0.0 if kept is None or layout.training.way.adapts else held.frozen * kept.weights_bytes
    return int(held.trained * each + beside)


def _placement(layout: Layout, row: int) -> dict[str, str]:
    """The smallest tier that holds a group of each axis; "card" where the axis is 1."""
    groups = {
        "tensor_parallel": layout.tensor_group,
        "context_parallel": layout.context_group,
        "data_parallel": layout.data_group,
        "pipeline_parallel": layout.pipe_group,
        "expert_parallel": layout.expert_group,
        "shard_group": layout.shard_group,
    }
    return {axis: _tier(layout, group, row) for axis, group in groups.items()}


def _tier(layout: Layout, group: Group, row: int) -> str:
    if int(group.size[row]) == 1:
        return "card"
    return layout.cluster.tiers().tiers[int(group.level[row])].name


def _stage(prices: Prices, row: int, stage: int) -> StageEntry:
    book, frame = prices.book, prices.frame
    return StageEntry(
        stage=stage,
        moments_kib={moment: by_name(book.memory[moment], frame, row, stage) for moment in MOMENTS},
        host_kib=sum(by_name(book.host, frame, row, stage).values()),
        chunk_ns=by_name(book.chunk, frame, row, stage),
        tail_ns=by_name(book.tail, frame, row, stage),
    )


def _time_terms(prices: Prices, row: int) -> dict[str, int]:
    """Terms of the step: the slowest stage's chunks, the bubble over the others, the longest tail."""
    composed, book, frame = prices.step, prices.book, prices.frame
    passes = int(prices.passes[row])
    slowest, tail = int(composed.slowest[row]), int(composed.tail_stage[row])
    found = {name: passes * ns for name, ns in by_name(book.chunk, frame, row, slowest).items()}
    if composed.bubble[row]:
        found["pipeline_bubble"] = int(composed.bubble[row])
    for name, ns in by_name(book.tail, frame, row, tail).items():
        found[name] = found.get(name, 0) + ns
    return dict(sorted(found.items()))


def _hidden(prices: Prices, row: int) -> dict[str, int]:
    """Communication of the same stages that compute hides: whole time less what shows."""
    composed, book, frame = prices.step, prices.book, prices.frame
    slowest, tail = int(composed.slowest[row]), int(composed.tail_stage[row])
    whole = int(prices.passes[row]) * sum(by_name(book.raw_chunk, frame, row, slowest).values())
    whole += sum(by_name(book.raw_tail, frame, row, tail).values())
    shown = _time_terms(prices, row).get("data_comm_exposed", 0)
    return {"data_comm": whole - shown} if whole > shown else {}


def _traffic(prices: Prices, row: int) -> dict[str, dict[str, int]]:
    """Bytes a card of the busiest stage sends in a step, by axis and the tier its group spans."""
    found: dict[str, dict[str, int]] = {}
    for axis, (total, group) in prices.traffic_bytes.items():
        if (most := int(total[row].max())) > 0:
            found[axis] = {_tier(prices.book.layout, group, row): most}
    return found


def _limit_ns(layout: Layout, row: int, flops: float) -> int:
    """FLOPs of the model at the card's peak on all cards, nothing exposed, nanoseconds."""
    word = layout.strategies.row(row)["precision"]
    peak = layout.cluster.node.gpu.peak_flops_per_s(word)
    return int(flops / (layout.cluster.gpus * peak) * 1e9) if peak else 0
