"""How many free cards to use, in blocks of what size: every number, with what its work takes at least."""

from __future__ import annotations

import numpy as np

from ..costs.book import Book
from ..costs.columns import Ints
from ..costs.layout import Layout
from ..costs.sums import Sum
from ..hardware import Cluster
from ..models.counts import training_flops_per_token
from ..models.divisors import divisors_of, legal_degrees
from ..models.overlap import DATA_KNOBS
from ..plans import Request
from .axes import chunk_numbers
from .lower import layers_by_kind, least_chunks, least_head
from .shape import ideal_cluster, leaves_of
from .space import space

Bounds = dict[int, dict[int, int]]
"""By number of cards and number of stages: nanoseconds that no step is shorter than."""


def block_sizes(cluster: Cluster) -> list[int]:
    """Sizes of a block, larger first: divisors of a machine's cards that lie evenly on its islands."""
    island = cluster.node.island_size
    sizes = [b for b in divisors_of(cluster.node.gpus) if b % island == 0 or island % b == 0]
    return [b for b in sorted(sizes, reverse=True) if any(c >= b for leaf in cluster.free for c in leaf)]


def worlds(cluster: Cluster) -> list[tuple[int, int]]:
    """(cards, block size) of every number of blocks, most cards first, of equals the larger block."""
    found = []
    for size in block_sizes(cluster):
        most = sum(leaf.blocks for leaf in leaves_of(cluster, size))
        found += [(size * number, size) for number in range(1, most + 1)]
    return sorted(found, key=lambda pair: (-pair[0], -pair[1]))


def widths(request: Request) -> list[int]:
    """Cards that can hold one replica of one stage: tensor times context ranks."""
    length, most = request.training.sequence_length, request.cluster.gpus
    tensors = legal_degrees(request.model, "tensor_parallel")
    contexts = [c for c in divisors_of(length) if c == 1 or length % (2 * c) == 0]
    return sorted({t * c for t in tensors for c in contexts if t * c <= most})


def lengths(request: Request, cards: int) -> list[int]:
    """Numbers of stages for which some degrees use so many cards and share the batch out evenly."""
    batch, choose, some = request.training.global_batch_size, request.choose, widths(request)
    return [
        p
        for p in divisors_of(cards)
        if p <= request.model.layers
        and (choose.pipeline_parallel is None or p in choose.pipeline_parallel)
        and any(cards // p % w == 0 and batch % (cards // p // w) == 0 for w in some)
    ]


def work_bounds(request: Request) -> Bounds:
    """What the layers' work takes at least, for all `lengths` of all numbers of cards.

    A card's work on a layer depends on its tensor and context ranks, its backend and its micro-batch alone:
    one replica of one stage shows it, on cards under one leaf. Experts may be laid over replicas: there the
    card's peak is the bound.
    """
    if any(kind.feed_forward.experts for kind in request.model.kinds):
        least = _peak_ns(request)
        counts = {cards for cards, _ in worlds(request.cluster)}
        return {cards: dict.fromkeys(lengths(request, cards), least // cards) for cards in counts}
    found: Bounds = {}
    for width in widths(request):
        for micro, chunk in _works(request, width).items():
            _add(found, request, width, micro, chunk)
    return found


def _peak_ns(request: Request) -> int:
    """Nanoseconds of cards that the step's arithmetic takes at the peak of the fastest precision."""
    job, gpu = request.training, request.cluster.node.gpu
    flops = training_flops_per_token(request.model, job.sequence_length) * job.tokens
    return int(flops / max(gpu.peak_flops_per_s(word) or 0.0 for word in gpu.precisions) * 1e9)


PIECES = ("layer", "first", "last", "fixed")
Chunk = dict[str, Ints]
"""The least nanoseconds of each piece of the work of a card, a layer by its kind."""


def _works(request: Request, width: int) -> dict[int, Chunk]:
    """By micro-batch the work of a card of one replica of one stage; nothing is known of part of machines."""
    ideal = ideal_cluster(request.cluster.node, width)
    if ideal is None:
        none = np.zeros(1, dtype=np.int64)
        return {
            1: {"layer": np.zeros((1, len(request.model.kinds)), dtype=np.int64)}
            | dict.fromkeys(PIECES[1:], none)
        }
    free = (
        "zero_stage", "shard_group_size", "secondary_shard_group_size", "reshard_after_forward",
        *DATA_KNOBS, "offload_optimizer", "offload_params",
        "gradient_accumulation_steps", "rank_order",
    )  # fmt: skip
    one = {"pipeline_parallel": (1,), "data_parallel": (1,), "virtual_pipeline": (1,)}
    choose = request.choose.model_copy(update={**dict.fromkeys(free), **one, "rules": ()})
    alone = request.model_copy(update={"cluster": ideal, "choose": choose})
    shapes = space(alone).spelled()
    if not len(shapes.kind):
        return {}
    works, _ = shapes.works
    terms = Book(Layout(request.model, request.training, ideal, works)).local
    total = Sum.of(terms, len(works), len(request.model.kinds)).stage
    sizes = works.micro_batch_size
    return {
        int(micro): {piece: total[piece][sizes == micro].min(axis=0, keepdims=True) for piece in PIECES}
        for micro in np.unique(sizes)
    }


def _add(found: Bounds, request: Request, width: int, micro: int, work: Chunk) -> None:
    """The bounds of every number of stages and replicas of so many cards, where they are the least yet."""
    model, batch, chosen = request.model, request.training.global_batch_size, request.choose.pipeline_parallel
    count, most = layers_by_kind(request), request.cluster.gpus // width
    stages = [p for p in range(1, min(model.layers, most) + 1) if chosen is None or p in chosen]
    rows = [
        (p, d, v)
        for d in divisors_of(batch // micro)
        for p in stages
        if p * d <= most
        for v in chunk_numbers(model, p)
        if v == 1 or batch // micro // d % p == 0
    ]
    if not rows:
        return
    p, d, v = np.array(rows, dtype=np.int64).T
    chunk = {piece: np.repeat(value, len(rows), axis=0) for piece, value in work.items()}
    chunk |= {"first": -(-chunk["first"] // v), "last": least_head(chunk["last"], model.layers, v)}
    bounds = least_chunks(chunk, count, p, v, batch // micro // d * v)
    for stage, cards, bound in zip(p.tolist(), (p * d * width).tolist(), bounds.tolist(), strict=True):
        table = found.setdefault(cards, {})
        table[stage] = min(table.get(stage, bound), bound)
