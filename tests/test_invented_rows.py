"""Bounds, options and leaves on invented coefficients: sharper contrasts than any ledger has.

The real coefficients of a row are replaced by random small numbers, so that what the search claims of them
cannot rest on how this ledger happens to be.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from random import Random
from typing import NamedTuple

import numpy as np
import pytest
from oracle.evaluate import Evaluator
from oracle.machines import cluster, with_memory
from oracle.prices import Affine, Costs, Moment
from oracle.rows import Row
from oracle.stack import stack_of
from oracle.stages import layouts
from oracle.transformers import model
from oracle.wishes import recompute_words

from shardwise.costs.columns import NAMES, Strategies
from shardwise.costs.moments import MOMENTS
from shardwise.costs.terms import Note, Per, Term
from shardwise.models import Attention, Block, FeedForward, Training
from shardwise.models.schedule import usual_schedule
from shardwise.plans import Request
from shardwise.solver.bounds import can_fit, within
from shardwise.solver.coefficients import Coefficients
from shardwise.solver.frontier import frontier, row_bound
from shardwise.solver.leaf import Leaf
from shardwise.solver.lower import NEVER, time_bound
from shardwise.solver.options import row_options
from shardwise.solver.uniform import uniform

FAR = 2**61
WORDS = (
    ["none", "selective", "full"],
    ["none", "full"],
    ["full"],
    ["selective", "full"],
    ["none", "selective"],
)
NOTE = Note("invented", "this test", "A")


class Invented(NamedTuple):
    """One row with invented costs, for both sides."""

    evaluator: Evaluator
    coefficients: Coefficients

    @property
    def least(self) -> int | None:
        """The least step of all layouts."""
        asked, row = self.evaluator.request, self.evaluator.row
        steps = [self.evaluator.step_ns(one) for one in layouts(row, stack_of(asked), recompute_words(asked))]
        return min((step for step in steps if step is not None), default=None)


class Shape(NamedTuple):
    """What a random row is like."""

    backend: str
    stages: int
    chunks: int
    kinds: list[int]
    steps: int
    host: bool


def shape(rng: Random) -> Shape:
    """Stages under Megatron, or one stage with free layers under FSDP."""
    name = rng.choice(("megatron", "megatron", "fsdp"))
    stages = rng.choice((1, 2, 3, 3, 4)) if name == "megatron" else 1
    layers = rng.randint(max(stages, 2), 8 if stages > 1 else 5)
    kinds = [0] * layers if rng.random() < 0.5 else [0, *rng.choices((0, 1), k=layers - 1)]
    equal = [v for v in range(1, layers + 1) if layers % v == 0 and stages * v <= layers]
    chunks = rng.choice([1, *equal[1:]]) if stages > 1 and max(kinds) == 0 else 1
    steps = stages * rng.choice((1, 2, 4)) if chunks > 1 else rng.choice((1, 2, 8))
    return Shape(name, stages, chunks, kinds, steps, rng.random() < 0.4)


def costs(rng: Random, kind: Shape) -> Costs:
    """Random coefficients with the signs of real ones: recompute costs time or nothing, and frees memory."""
    number, zeros = max(kind.kinds) + 1, (0,) * (max(kind.kinds) + 1)

    def each(low: int, high: int) -> tuple[int, ...]:
        return tuple(rng.randint(low, high) for _ in range(number))

    def part(of: tuple[int, ...], least: int = 0) -> tuple[int, ...]:
        return tuple(rng.choice((least, rng.randint(least, value))) for value in of)

    def freed(of: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(-value for value in part(of))

    layer, after = each(5, 60), each(0, 30)
    copies = each(0, 10) if kind.host and kind.backend == "fsdp" else zeros
    chunk = Affine(
        rng.randint(0, 5), rng.randint(0, 40), rng.randint(0, 40), layer, part(layer), part(layer), copies
    )
    gone = tuple(rng.randint(-value, 60) if kind.host else 0 for value in after)
    tail = Affine(rng.randint(0, 9), rng.randint(0, 40), rng.randint(0, 40), after, zeros, zeros, gone)
    host = Affine(
        0, rng.randint(0, 9) * kind.host, 0, zeros, zeros, zeros, each(0, 20) if kind.host else zeros
    )
    moments = []
    for _ in MOMENTS:
        held, saved = each(1, 40), each(0, 40)
        fixed, first, last, entry = (rng.randint(0, high) for high in (20, 40, 40, 10))
        stay = Affine(fixed, first, last, held, zeros, zeros, freed(held) if kind.host else zeros)
        moments.append(Moment(stay, Affine(0, entry, 0, saved, freed(saved), freed(saved), zeros)))
    silent = Affine(0, 0, 0, zeros, zeros, zeros, zeros)
    whole = [
        kind.chunks * end - rng.randint(0, min(kind.chunks - 1, end)) for end in (chunk.first, chunk.last)
    ]
    return Costs(chunk, tail, host, silent, silent, silent, silent, tuple(moments), *whole)


def row_of(kind: Shape, data: int) -> Row:
    """The knobs that matter to layouts and placement; the rest at rest."""
    fsdp = kind.backend == "fsdp"
    return Row(
        backend=kind.backend,
        software_stack="fsdp-compile-2024" if fsdp else "megatron-bridge-2025",
        precision="bf16",
        gradient_dtype="fp32",
        loss_kernel="megatron",
        tensor_parallel=1,
        context_parallel=1,
        pipeline_parallel=kind.stages,
        data_parallel=data,
        context_parallel_kind="none",
        ulysses_group_size=1,
        expert_parallel=1,
        expert_tensor_parallel=1,
        zero_stage=2 if fsdp else 1,
        shard_group_size=data,
        secondary_shard_group_size=1,
        reshard_after_forward=False,
        overlap_gradient_reduce=True,
        overlap_parameter_gather=True,
        offload_optimizer="cpu" if kind.host else "none",
        offload_params="cpu" if kind.host and fsdp else "none",
        sequence_parallel=False,
        overlap_tensor_parallel=False,
        rank_order="tp-cp-dp-pp",
        micro_batch_size=1,
        gradient_accumulation_steps=kind.steps,
        virtual_pipeline=kind.chunks,
        pipeline_schedule=usual_schedule(kind.stages, kind.chunks),
    )


def terms(part: Affine, per: Per) -> list[Term]:
    """A sum as one term of the ledger."""
    return [Term("invented", per, NOTE, {name: np.array([value]) for name, value in asdict(part).items()})]


def lacking_shape(rng: Random) -> Shape:
    """Stages of several chunks of one kind of layers, of which the last stage lacks some."""
    stages = rng.choice((2, 3, 4))
    able = [
        (layers, v)
        for layers in range(stages + 1, 9)
        for v in range(2, layers)
        if layers % v and -(-layers // stages) % v == 0 and -(-layers // v) >= stages
    ]
    layers, chunks = rng.choice(able)
    return Shape("megatron", stages, chunks, [0] * layers, stages * rng.choice((1, 2)), rng.random() < 0.4)


def several_shape(rng: Random) -> Shape:
    """Stages of several chunks of two kinds of layers, which the chunks divide or not."""
    stages = rng.choice((2, 2, 3, 4))
    able = [
        (layers, v)
        for layers in range(stages + 1, 10)
        for v in range(2, layers)
        if -(-layers // stages) % v == 0
    ]
    layers, chunks = rng.choice(able)
    kinds = [0, *rng.choices((0, 1), k=layers - 2), 1]
    if rng.random() < 0.3:
        kinds = [0] * rng.randint(1, 3) + [1] * layers
    return Shape("megatron", stages, chunks, kinds[:layers], stages * rng.choice((1, 2)), rng.random() < 0.4)


def invented(seed: int, shaped: Callable[[Random], Shape] = shape) -> Invented:
    """The row of a seed: one to four stages on nodes that hold one or more of them."""
    rng = Random(seed)
    kind, data = shaped(rng), rng.choice((1, 2))
    together = rng.choice([n for n in range(1, kind.stages + 1) if kind.stages % n == 0])
    blocks = [
        Block(attention=Attention(heads=2, kv_heads=2, head_dim=8), feed_forward=FeedForward(width=width))
        for width in (16, 32)
    ]
    asked = Request(
        model=model("invented", 16, 64, [(blocks[k], 1) for k in kind.kinds]),
        cluster=cluster(rng, "dgx-h100", together * data, kind.stages // together),
        training=Training(global_batch_size=data * kind.steps, sequence_length=8),
        choose={"recompute": rng.choice(WORDS)},
        limits={"memory_margin": 0.0, "host_memory_bytes": rng.choice((2**40, rng.randint(20, 300) * 1024))},
    )
    asked = with_memory(asked, rng.randint(60, 500) * 1024)
    row, made = row_of(kind, data), costs(rng, kind)
    known = Coefficients(asked, Strategies.of_rows({name: [getattr(row, name)] for name in NAMES}))
    moments = zip(MOMENTS, made.moments, strict=True)
    known.__dict__.update(
        spread_chunk=known._sum(terms(made.chunk, "chunk")),
        ends={"first": np.array([made.whole_first]), "last": np.array([made.whole_last])},
        tail=known._without(known._sum(terms(made.tail, "stage"))),
        host=known._without(known._sum(terms(made.host, "stage"))),
        memory={
            name: known._without(known._sum(terms(m.stay, "stage") + terms(m.flight, "flight")))
            for name, m in moments
        },
    )
    return Invented(Evaluator(asked, row, made), known)


def claims(one: Invented, least: int | None) -> list[str]:
    """What the search's parts say of the row that is not so."""
    known, wrong = one.coefficients, []
    bounds = time_bound(known)
    if int(uniform(known)[0]) < (NEVER if least is None else least):
        wrong.append("the uniform plan is none")
    if least is not None:
        if bounds[0] > least:
            wrong.append("the time bound is too high")
        if not can_fit(known)[0]:
            wrong.append("the row is called too large")
        if not within(known, bounds, least)[0]:
            wrong.append("the row is called slower than its optimum")
    for limit in (FAR,) if least is None else (FAR, least):
        options = row_options(known, 0, limit)
        plan = Leaf(options, limit).solve(None).plan if options else None
        if (plan.step_ns if plan else None) != least:
            wrong.append(f"the leaf within {limit} finds {plan}")
        if options and least is not None and (row_bound(options, frontier(options)) or 0) > least:
            wrong.append(f"the frontier bound within {limit} is too high")
    return wrong


BLOCK = 25


@pytest.mark.parametrize("block", range(10))
def test_bounds_and_leaves_hold_for_any_coefficients(block: int) -> None:
    """For invented rows every bound is admissible, no row with a plan is dropped, and the leaf is exact."""
    wrong = {}
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        one = invented(seed)
        if found := claims(one, one.least):
            wrong[seed] = found
    assert wrong == {}


@pytest.mark.parametrize("block", range(6))
def test_they_hold_for_last_stages_that_lack_layers(block: int) -> None:
    """The same of rows whose chunks do not divide the layers."""
    wrong, feasible = {}, 0
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        one = invented(seed, lacking_shape)
        feasible += one.least is not None
        if found := claims(one, one.least):
            wrong[seed] = found
    assert wrong == {} and feasible >= 5


@pytest.mark.parametrize("block", range(12))
def test_they_hold_for_chunks_of_several_kinds(block: int) -> None:
    """The same of rows whose chunks hold layers of two kinds, and not all as many."""
    wrong, feasible = {}, 0
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        one = invented(seed, several_shape)
        feasible += one.least is not None
        if found := claims(one, one.least):
            wrong[seed] = found
    assert wrong == {} and feasible >= 2


@pytest.mark.parametrize("seed", [640, 2182, 2294])
def test_recompute_that_costs_nothing(seed: int) -> None:
    """Layers recomputed in the shadow of communication cost no time, yet they free memory."""
    one = invented(seed)
    assert 0 in one.evaluator.costs.chunk.full + one.evaluator.costs.chunk.selective
    assert one.least is not None
    assert claims(one, one.least) == []


def test_invented_rows_are_of_use() -> None:
    """Some hold nothing; some need recompute, some offload, some have two kinds of layers."""
    drawn = [invented(seed) for seed in range(100)]
    least = [one.least for one in drawn]
    assert sum(step is None for step in least) >= 15
    above = [int(uniform(one.coefficients)[0]) for one in drawn]
    assert sum(step is not None and step < upper for step, upper in zip(least, above, strict=True)) >= 25
    assert sum(len(one.evaluator.request.model.kinds) == 2 for one in drawn) >= 30
    assert sum(one.evaluator.row.offload_optimizer == "cpu" for one in drawn) >= 25
    assert sum(one.evaluator.row.virtual_pipeline > 1 for one in drawn) >= 5
