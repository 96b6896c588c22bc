"""Tiny clusters made from catalogue nodes, with cards so small that memory binds."""

from __future__ import annotations

from math import gcd
from random import Random

from shardwise.hardware import Cluster
from shardwise.plans import Request

from .evaluate import Evaluator
from .prices import Costs, costs_of
from .rows import Row, every_row
from .stack import stack_of
from .stages import layouts
from .wishes import recompute_words

GIB = 2**30
SAMPLE = 8
"""Rows looked at before the memory of a card is drawn."""

ROOM = (-0.35, 1.2)
"""Where that memory lies between the tightest layout (0) and the roomiest (1)."""


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
        for layout in layouts(row, stack_of(whole), recompute_words(whole))
    ]
    return (min(found), max(found)) if found else (4 * GIB // 1024, 8 * GIB // 1024)
