"""Stacks of two kinds at every size of card: where spans that gain memory meet spans that run out of time."""

from __future__ import annotations

import pytest
from oracle.brute import brute
from oracle.evaluate import Evaluator
from oracle.machines import with_memory
from oracle.prices import costs_of
from oracle.rows import every_row
from oracle.stack import stack_of
from oracle.stages import layouts
from oracle.transformers import model
from oracle.wishes import recompute_words

from shardwise.hardware import Cluster
from shardwise.models import Attention, Block, FeedForward, Training
from shardwise.plans import Request
from shardwise.solver.search import Search

GIB = 2**30

STACKS = {
    "hhlhhh": ("dgx-b200", 1024, Attention(heads=8, kv_heads=8, head_dim=128), 8192, 16),
    "hhllhh": ("NC96ads_A100_v4", 8192, Attention(heads=8, kv_heads=1, head_dim=64), 8192, 8),
    "lhhhllh": ("dgx-a100-40gb", 4096, Attention(heads=8, kv_heads=1, head_dim=64), 8192, 16),
}
"""Layers heavy to compute (h) and light ones with many parameters (l), on three stages."""


def stack(name: str) -> Request:
    """Three cards, one row: only the split and the number of recomputed layers are left to choose."""
    preset, length, attention, width, experts = STACKS[name]
    heavy = Block(attention=attention, feed_forward=FeedForward(width=width))
    routed = FeedForward(width=2048, experts=experts, experts_per_token=1)
    blocks = {"h": heavy, "l": Block(attention=attention, feed_forward=routed)}
    node = Cluster.preset(preset).node
    three = node.model_copy(update={"gpus": 3, "island_size": 1, "domain_size": 1})
    return Request(
        model=model(name, 1024, 16000, [(blocks[letter], 1) for letter in name]),
        cluster=Cluster(name="three", node=three),
        training=Training(global_batch_size=16, sequence_length=length),
        choose={
            "backend": "megatron",
            "pipeline_parallel": 3,
            "recompute": ["none", "full"],
            "micro_batch_size": 1,
            "zero_stage": 1,
            "offload_optimizer": "none",
        },
        limits={"memory_margin": 0.0},
    )


def peaks(asked: Request) -> list[int]:
    """Every peak a layout can have, KiB: between two of them nothing changes."""
    (row,) = every_row(asked)
    (costs,) = costs_of(asked, [row])
    evaluator = Evaluator(asked, row, costs)
    found = {
        max(evaluator.weight(stage, held).peak_kib for stage, held in enumerate(layout))
        for layout in layouts(row, stack_of(asked), recompute_words(asked))
    }
    return sorted(found)


@pytest.mark.parametrize("name", STACKS)
def test_every_size_of_card(name: str) -> None:
    """At each memory at which something changes, with a deadline at the optimum, the optimum is found."""
    asked = with_memory(stack(name), 50 * GIB)
    needed = 0
    for peak in peaks(asked):
        tight = with_memory(asked, peak * 1024)
        least = brute(tight)
        assert least.best is not None and least.best.layout is not None and least.step_ns is not None
        limits = tight.limits.model_copy(update={"max_step_seconds": (least.step_ns + 1) / 1e9})
        found = Search(tight.model_copy(update={"limits": limits})).run().best
        assert (found.step_ns if found else None) == least.step_ns, peak
        needed += any(held.full > 1 for held in least.best.layout)
    assert needed >= 1
