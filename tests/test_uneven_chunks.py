"""Interleaved chunks of several lengths: where their layers lie, what they hold, and the step they take."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pipelines import Link, order_of, run

from shardwise import Cluster, Plan, Request, Training, Transformer, plan
from shardwise.costs import price
from shardwise.costs.book import spread
from shardwise.costs.columns import Ints
from shardwise.costs.frame import Frame, links
from shardwise.costs.schedule import Rounds, step
from shardwise.costs.stage_counts import Counts
from shardwise.costs.sums import add_up
from shardwise.costs.terms import Note, Term
from shardwise.launch import emit
from shardwise.launch.documents import documents
from shardwise.launch.read import read_config
from shardwise.models import Stage, Strategy
from shardwise.models.chunks import chunks_of, in_order, sizes_of, uneven_chunks
from shardwise.plans.limits import Limits
from shardwise.solver.axes import chunk_numbers
from shardwise.solver.legal import breaches
from shardwise.solver.slots import chunk_sizes
from shardwise.solver.space import rows

Sizes = Sequence[Sequence[int]]
"""Layers of each chunk of each stage."""

LAYER, FIRST, LAST = 3000, 60, 2400
"""Time units of a layer, of the embedding and of the head; a third of each goes forward."""


def of(sizes: Sizes, batches: int, **rest: object) -> Strategy:
    """An interleaved strategy whose stages hold chunks of these sizes."""
    stages = tuple(Stage(layers=sum(held), chunk_layers=tuple(held)) for held in sizes)
    return Strategy.model_validate(
        {
            "backend": "megatron", "software_stack": "megatron-core-2025", "pipeline_parallel": len(sizes),
            "virtual_pipeline": len(sizes[0]), "gradient_accumulation_steps": batches, "stages": stages,
            **rest,
        }
    )  # fmt: skip


def formula(sizes: Sizes, batches: int, first: int = FIRST, last: int = LAST) -> int:
    """The step of the ledger, without work once a step, of chunks that take `LAYER` a layer."""
    strategy = of(sizes, batches)
    counts = Counts.of([strategy], [0] * strategy.layers)
    stages, chunks = len(sizes), np.array([len(sizes[0])])
    none: Ints = np.zeros((1, stages), dtype=np.int64)
    off = np.zeros(1, dtype=np.bool_)
    frame = Frame.placed(counts, chunks, {}, vee=off, both=off)
    pieces = {"layer": np.array([[LAYER]]), "first": np.array([first]), "last": np.array([last])}
    term = Term("work", "chunk", Note("made up", "tests", "A"), pieces)
    rounds = Rounds(chunks, *links([term], frame))
    chunk = add_up([spread(term, chunks)], frame)
    return int(step(chunk, none, none == 0, batches * chunks, None, rounds).total[0])


def simulated(sizes: Sizes, batches: int, first: int = FIRST, last: int = LAST) -> float:
    """The step of the event simulation."""
    stages, chunks = len(sizes), len(sizes[0])

    def seconds(stage: int, link: Link, kind: str) -> float:
        own = sizes[stage][link[1] // stages] * LAYER
        own += first * (link[1] == 0) + last * (link[1] == stages * chunks - 1)
        return own / 3 if kind == "F" else own * 2 / 3

    orders = [order_of("interleaved", stage, stages, batches, chunks) for stage in range(stages)]
    return run(orders, seconds).seconds


def lacking(stages: int, chunks: int, layers: int, fewer: int) -> list[list[int]]:
    """Chunks of `layers` each; the last links of the chain lack `fewer` layers together."""
    sizes = [[layers] * chunks for _ in range(stages)]
    for link in reversed(range(stages * chunks)):
        gone = min(fewer, layers)
        sizes[link % stages][link // stages] -= gone
        fewer -= gone
    return sizes


shapes = st.tuples(st.sampled_from((2, 4, 6)), st.integers(2, 4), st.integers(1, 4), st.integers(1, 4))
ends = st.tuples(st.integers(0, 90), st.integers(0, 6000))


@settings(max_examples=60, deadline=None)
@given(shapes, ends)
def test_equal_chunks_take_exactly_the_formula(
    shape: tuple[int, int, int, int], ends: tuple[int, int]
) -> None:
    """With a head of up to two layers on the last link, each share of it rounded up."""
    stages, chunks, layers, rounds = shape
    sizes = [[layers] * chunks] * stages
    told = formula(sizes, stages * rounds, 0, ends[1])
    assert abs(told - simulated(sizes, stages * rounds, 0, ends[1])) <= stages * rounds * chunks


@settings(max_examples=80, deadline=None)
@given(shapes, ends, st.integers(1, 3))
def test_links_that_lack_layers_at_the_end_take_no_longer_than_the_formula(
    shape: tuple[int, int, int, int], ends: tuple[int, int], fewer: int
) -> None:
    """Within what the embedding takes: the formula tells of the longer of the first link and the last."""
    stages, chunks, layers, rounds = shape
    sizes, batches = lacking(stages, chunks, layers, min(fewer, chunks - 1)), stages * rounds
    if any(not sum(held) for held in sizes):
        return
    assert simulated(sizes, batches, *ends) <= formula(sizes, batches, *ends) + 2 * batches * ends[0]


def near(rng: Random) -> tuple[list[list[int]], int]:
    """Stages whose chunks differ by a layer at most, and micro-batches."""
    stages, chunks, layers = rng.choice((2, 4, 6, 8)), rng.choice((2, 3, 4)), rng.choice((2, 3, 4))
    shorter = [rng.randint(0, chunks - 1) for _ in range(stages)]
    sizes = [[layers - (chunk >= chunks - less) for chunk in range(chunks)] for less in shorter]
    return sizes, stages * rng.choice((1, 2, 4))


def test_chunks_that_differ_by_a_layer_bend_the_formula_by_three_percent() -> None:
    """Two hundred pipelines whose stages have any number of shorter chunks, the last ones."""
    rng, least = Random("a layer"), 9.0
    for _ in range(200):
        sizes, batches = near(rng)
        least = min(least, formula(sizes, batches) / simulated(sizes, batches))
    assert least >= 0.97


@pytest.mark.parametrize(
    ("sizes", "most"),
    [
        ([[1, *[2] * 7], *[[2] * 8] * 6, [*[2] * 7, 1]], 1.01),
        ([[2, 3, 3, 3], *[[3] * 4] * 6, [3, 3, 3, 2]], 1.02),
        ([[2, 2]] * 14 + [[2, 1], [2, 0]], 1.08),
    ],
)
def test_published_layouts_are_near_the_simulation(sizes: Sizes, most: float) -> None:
    """405B over 8 x 8 and 94 layers over 8 x 4, embedding and head a layer each; DeepSeek-V3 over 16 x 2."""
    batches = 4 * len(sizes)
    assert 1.0 <= formula(sizes, batches) / simulated(sizes, batches) <= most


def test_layers_lie_round_after_round() -> None:
    """Chunk c of stage i is link c p + i; under a V every second round goes back."""
    strategy = of([(3, 1), (2, 0)], 2)
    assert [[chunk.start for chunk in stage] for stage in chunks_of(strategy)] == [[0, 5], [3, 6]]
    assert in_order(strategy) == [3, 2, 1, 0]
    assert [sizes_of(stage, 2) for stage in strategy.stages] == [(3, 1), (2, 0)]
    vee = of([(3, 1), (2, 0)], 4, pipeline_schedule="zb-v")
    assert [[chunk.start for chunk in stage] for stage in chunks_of(vee)] == [[0, 5], [3, 5]]


def test_chunks_add_up_to_their_stage() -> None:
    """A stage whose chunks hold other layers than it, and one that tells of another number, are refused."""
    with pytest.raises(ValueError, match="add up to layers"):
        Stage(layers=3, chunk_layers=(1, 1))
    with pytest.raises(ValueError, match="tells of 3 chunks"):
        of([(1, 1), (1, 1, 1)], 2)


def test_a_strategy_tells_the_sizes_of_chunks_that_differ() -> None:
    """Longer ones first where nobody says; equal ones are not told."""
    stages = (Stage(layers=5), Stage(layers=4, chunk_layers=(2, 2)), Stage(layers=4, chunk_layers=(1, 3)))
    strategy = Strategy(
        backend="megatron", software_stack="any", pipeline_parallel=3, virtual_pipeline=2, stages=stages
    )
    assert [stage.chunk_layers for stage in strategy.stages] == [(3, 2), None, (1, 3)]


def test_equal_chunks_need_not_be_told() -> None:
    """Chunks told as equal are priced as those of a stage that tells of none, to the last unit."""
    model, cluster = Transformer.preset("llama-3.1-8b"), Cluster.preset("dgx-h100")
    training = Training(global_batch_size=64, sequence_length=4096)
    told = of([[4, 4]] * 4, 32, data_parallel=2)
    bare = tuple(stage.model_copy(update={"chunk_layers": None}) for stage in told.stages)
    untold = told.model_copy(update={"stages": bare})
    uneven = of([[5, 4], [4, 4], [4, 4], [4, 3]], 32, data_parallel=2)
    one, other, _ = price(model, training, cluster, [told, untold, uneven])
    assert one == other == price(model, training, cluster, [untold])[0]


def test_each_stage_holds_the_layers_of_its_own_chunks() -> None:
    """DeepSeek-V3 over 16 x 2: the dense layers stand on the first link, and the last two hold none."""
    model = Transformer.preset("deepseek-v3")
    dense = model.kind_of_layer.count(model.kind_of_layer[0])
    sizes = [[dense, 2], *[[2, 2]] * 13, [2, 0], [2, 0]]
    counts = Counts.of([of(sizes, 16)], model.kind_of_layer)
    assert counts.layer[0, 0].tolist() == [dense, 2]
    assert counts.layer[0, 1].tolist() == [0, 4]
    assert counts.layer[0, -1].tolist() == [0, 2]
    assert counts.layer[0].sum(axis=0).tolist() == [dense, model.layers - dense]


def asked(model: str, cards: int, **choose: object) -> Request:
    """A job of so many H100 under Megatron."""
    return Request.model_validate(
        {
            "model": model,
            "cluster": {"preset": "dgx-h100", "nodes": cards // 8},
            "training": {"global_batch_size": 256, "sequence_length": 8192},
            "choose": {"backend": "megatron", **choose},
        }
    )


@pytest.mark.parametrize(
    ("layers", "stages", "chunks"),
    [
        (126, 8, [1, 2, 3, 4, 6, 7, 8, 9, 14, 16]),
        (94, 8, [1, 2, 3, 4, 6, 12]),
        (61, 16, [1, 2, 4]),
        (5, 4, [1]),
    ],
)
def test_chunks_divide_the_layers_or_those_of_the_fullest_stage(
    layers: int, stages: int, chunks: list[int]
) -> None:
    """126 layers over 8 stages: the fullest holds 16, so 4, 8 and 16 chunks cost it nothing."""
    llama = Transformer.preset("llama-3.1-405b")
    model = llama.model_copy(update={"runs": (llama.runs[0].model_copy(update={"layers": layers}),)})
    assert chunk_numbers(model, stages) == chunks
    assert chunk_numbers(model, 1) == [1]


@pytest.mark.parametrize(
    ("modules", "stages", "chunks"), [(0, 1, [1]), (0, 8, [1, 2, 4, 8]), (1, 16, [1, 2, 4]), (1, 62, [1])]
)
def test_chunks_of_several_kinds_divide_the_fullest_stage(
    modules: int, stages: int, chunks: list[int]
) -> None:
    """61 layers of DeepSeek-V3, of two kinds, and a module that predicts a further token."""
    assert chunk_numbers(Transformer.preset("deepseek-v3").predicting(modules), stages) == chunks


@pytest.mark.parametrize(
    ("modules", "held", "sizes"),
    [
        (0, [4] * 8, [[4, 4]] * 7 + [[4, 1]]),
        (1, [4] * 8, [[4, 4]] * 7 + [[4, 2]]),
        (1, [2] * 16, [[2, 2]] * 14 + [[2, 1], [2, 1]]),
        (1, [2] * 15 + [1], [[2, 2]] * 15 + [[1, 1]]),
    ],
)
def test_the_end_of_the_chain_lacks_layers_but_for_predictors(
    modules: int, held: list[int], sizes: Sizes
) -> None:
    """NVIDIA's layout of DeepSeek-V3 on 8 x 2 is `Et*4|(t*4|)*14tmL`, the second one here."""
    model = Transformer.preset("deepseek-v3").predicting(modules)
    assert [list(stage) for stage in chunk_sizes(model, 2, held)] == sizes


def test_chunks_of_several_kinds_are_planned_and_read_back(tmp_path: Path) -> None:
    """DeepSeek-V3 with its predictor, 16 stages of 1,024 H100: interleaved it is faster, and reads back."""
    job = {"mtp_layers": 1, "global_batch_size": 2048, "sequence_length": 4096}
    request = asked("deepseek-v3", 1024, pipeline_parallel=[16]).changed(
        {f"training.{name}": value for name, value in job.items()}
    )
    found, whole = plan(request), plan(request.changed({"choose.virtual_pipeline": [1]}))
    assert isinstance(found, Plan) and isinstance(whole, Plan)
    assert found.time.step_seconds < 0.97 * whole.time.step_seconds
    assert uneven_chunks(found.strategy) or found.strategy.virtual_pipeline > 1
    assert sum(in_order(found.strategy)) == request.model.layers == 62
    assert not breaches(request, found.strategy)

    for name, text in emit(found, "megatron").items():
        if name not in ("plan.json", "README.md"):
            (tmp_path / name).write_text(text, encoding="utf-8")
    assert read_config(documents([str(tmp_path)]), request).strategy == found.strategy


def test_a_plan_with_chunks_that_differ_is_faster_and_reads_back(tmp_path: Path) -> None:
    """Llama-3.1 405B on 1,024 H100: 126 layers make no 128 chunks, and the last stage lacks two."""
    request = asked("llama-3.1-405b", 1024)
    found, equal = plan(request), plan(asked("llama-3.1-405b", 1024, virtual_pipeline=[1, 2, 3, 6]))
    assert isinstance(found, Plan) and isinstance(equal, Plan)
    assert found.time.step_seconds < 0.95 * equal.time.step_seconds
    assert uneven_chunks(found.strategy) and not uneven_chunks(equal.strategy)
    assert min(in_order(found.strategy)) == 0 and sum(in_order(found.strategy)) == 126
    assert not breaches(request, found.strategy)

    for name, text in emit(found, "megatron").items():
        if name not in ("plan.json", "README.md"):
            (tmp_path / name).write_text(text, encoding="utf-8")
    assert read_config(documents([str(tmp_path)]), request).strategy == found.strategy


@pytest.mark.parametrize(
    ("sizes", "full", "wrong"),
    [
        ([(3, 2), (2, 1)], [2, 2], None),
        ([(3, 2), (2, 1)], [4, 3], None),
        ([(3, 2), (2, 1)], [5, 3], None),
        ([(3, 2), (2, 1)], [4, 2], "recompute_full_layers"),
        ([(3, 2), (2, 1)], [2, 1], "recompute_full_layers"),
    ],
)
def test_every_chunk_recomputes_the_same_number_of_layers(
    sizes: Sizes, full: list[int], wrong: str | None
) -> None:
    """As many as it holds at most: of (3, 2) and (2, 1) one layer each is 2 and 2, two are 4 and 3."""
    stages = tuple(
        Stage(layers=sum(held), chunk_layers=tuple(held), recompute_full_layers=number)
        for held, number in zip(sizes, full, strict=True)
    )
    strategy = of(sizes, 2).model_copy(update={"stages": stages})
    request = Request.model_validate(
        {
            "model": "llama-3.1-8b",
            "cluster": {"preset": "dgx-h100", "nodes": 1},
            "training": {"global_batch_size": 8, "sequence_length": 4096},
        }
    )
    rules = {breach.rule for breach in breaches(request, strategy)} & {
        "recompute_full_layers",
        "virtual_pipeline",
    }
    assert rules == ({wrong} if wrong else set())


def test_only_a_backend_that_tells_of_stages_has_chunks_that_differ() -> None:
    """Limits on what stages send, and pools of cards, are asked of equal chunks."""
    free = rows(asked("llama-3.1-405b", 256, pipeline_parallel=[8]))
    limited = asked("llama-3.1-405b", 256, pipeline_parallel=[8]).model_copy(
        update={"limits": Limits(max_comm_fraction=0.5)}
    )
    assert 8 in free.virtual_pipeline and 8 not in rows(limited).virtual_pipeline
    several = asked("deepseek-v3", 256, pipeline_parallel=[8])
    limited = several.model_copy(update={"limits": Limits(max_comm_fraction=0.5)})
    assert 4 in rows(several).virtual_pipeline and set(rows(limited).virtual_pipeline.tolist()) == {1}
