"""Kinds of context parallel: what each sends, shows and holds, where it is legal, written and read back."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from megatron_by_hand import stages
from oracle.brute import brute
from oracle.requests import sharing
from oracle.themes import exchanged
from plans_by_hand import deepspeed, fsdp, megatron
from plans_by_hand import plan as plan_of
from test_brute_force import differences

from shardwise import Cluster, Ledger, NoPlan, Plan, Request, Training, plan, price
from shardwise.costs.columns import Strategies
from shardwise.costs.layout import Layout
from shardwise.inputs import InputError
from shardwise.launch import emit
from shardwise.launch.documents import documents
from shardwise.launch.lint import lint
from shardwise.launch.read import read_config
from shardwise.models import Strategy, Transformer
from shardwise.solver.exchanges import left_aside, outdone
from shardwise.solver.legal import breaches
from shardwise.solver.search import Search
from shardwise.solver.space import rows

KINDS = [("ring", 1), ("all_gather", 1), ("ulysses", 8), ("ulysses+ring", 2), ("ulysses+ring", 4)]
LAYERS, T, QUERY, KEY = 32, 65536 // 8, 4096, 1024
"""Llama-3.1 8B: layers, tokens of a rank over eight, widths of queries (and output) and of keys."""


def request(model: str = "llama-3.1-8b", nodes: int = 1, length: int = 65536, **choose: Any) -> Request:
    """A long sequence a step on machines of eight H100."""
    training = Training(global_batch_size=nodes, sequence_length=length)
    cluster = Cluster.preset("dgx-h100", nodes=nodes)
    return Request(model=model, cluster=cluster, training=training, choose={"backend": "megatron", **choose})


def cut(kind: str, group: int, **changes: Any) -> Strategy:
    """One sequence over eight cards."""
    values: dict[str, Any] = {"context_parallel": 8, "context_parallel_kind": kind}
    values |= {"ulysses_group_size": group, "stages": stages(1, LAYERS)}
    return megatron(1, 1, **{**values, **changes})


def priced(kind: str, group: int, **changes: Any) -> Ledger:
    """The ledger of one of them."""
    return price(request(), cut(kind, group, **changes))


@pytest.mark.parametrize(("kind", "group"), KINDS)
def test_bytes_on_the_wire_are_those_of_the_papers(kind: str, group: int) -> None:
    """Keys and values (r-1)/r of r ranks three times; q, k, v, o over u ranks twice; no recompute."""
    sent = {axis: sum(tiers.values()) for axis, tiers in priced(kind, group).traffic_bytes.items()}
    ring = 8 // group
    passed = 3 * 2 * 2 * KEY * T * (ring - 1) * LAYERS
    heads = 2 * 2 * (2 * QUERY + 2 * KEY) * T * (group - 1) // group * LAYERS

    assert sent.get("context", 0) == passed
    assert sent.get("context_heads", 0) == heads


@pytest.mark.parametrize(
    ("kind", "group", "held"),
    [
        ("ring", 1, 4 * 2 * KEY * T),
        ("all_gather", 1, 4 * 2 * KEY * T * 8),
        ("ulysses", 8, 2 * (2 * QUERY + 2 * KEY) * T),
        ("ulysses+ring", 2, 4 * 2 * KEY * T + 2 * (2 * QUERY + 2 * KEY) * T),
    ],
)
def test_buffers_inside_the_backward(kind: str, group: int, held: int) -> None:
    """Two chunks in and out; all keys and values with their gradients; what an all-to-all received."""
    found = priced(kind, group).stages[0].moments_kib
    assert found["backward"]["context_buffers"] * 1024 == held
    assert not any("context_buffers" in found[moment] for moment in ("forward", "gradients", "step"))


def test_a_hop_hides_and_a_collective_does_not() -> None:
    """Of a ring 1/r shows behind long attention; a gather and an all-to-all show whole."""
    shown = {kind: priced(kind, group).terms_ns["context_comm"] for kind, group in KINDS[:3]}
    assert shown["ring"] < shown["ulysses"] < shown["all_gather"]


def test_attention_over_whole_sequences_is_no_slower() -> None:
    """Blocks of s / 2c run below the speed of the whole sequence; the FLOPs are the same."""
    compute = [priced(kind, group).terms_ns["compute"] for kind, group in KINDS]
    assert compute[2] < compute[3] <= compute[0] == compute[1]


def test_recompute_exchanges_once_more() -> None:
    """A forward again: a third more of a ring, half more of an all-to-all."""
    full = stages(1, LAYERS, recompute_full_layers=LAYERS)
    for (kind, group), axis, times in ((KINDS[0], "context", 4 / 3), (KINDS[2], "context_heads", 3 / 2)):
        plain, again = (priced(kind, group, stages=s).traffic_bytes[axis] for s in (stages(1, LAYERS), full))
        assert sum(again.values()) == pytest.approx(times * sum(plain.values()))


ILLEGAL = {
    "more groups than heads of keys": ("llama-3.1-8b", cut("ulysses", 8, tensor_parallel=2)),
    "another backend": (
        "llama-3.1-8b",
        fsdp(3, 1, context_parallel=8, context_parallel_kind="ulysses", ulysses_group_size=8,
             shard_group_size=8, stages=stages(1, LAYERS)),
    ),
    "a window in a ring": ("mistral-7b", cut("ring", 1)),
    "latent keys outside a ring": (
        "deepseek-v3", cut("ulysses", 8, stages=stages(1, 61), sequence_parallel=False),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("model", "strategy"), ILLEGAL.values(), ids=ILLEGAL.keys())
def test_what_a_kind_cannot_run_is_refused_by_name(model: str, strategy: Strategy) -> None:
    """Heads that do not divide, windows that would go round, latent attention, a backend without it."""
    asked = request(model).changed({"choose.backend": None})
    assert "context_parallel_kind" in {breach.rule for breach in breaches(asked, strategy)}


def test_a_window_is_legal_where_keys_are_gathered_or_heads_exchanged() -> None:
    """Transformer Engine has sliding windows under all_gather and a2a."""
    found = rows(request("mistral-7b", length=32768))
    kinds = set(found.context_parallel_kind[found.context_parallel > 1].tolist())
    assert kinds == {2, 3}
    assert not breaches(request("mistral-7b", length=32768), cut("all_gather", 1))


@pytest.mark.parametrize(
    ("kind", "group", "context"),
    [("ring", 1, 1), ("none", 1, 2), ("ulysses", 2, 4), ("ulysses+ring", 3, 4), ("ulysses+ring", 4, 4)],
)
def test_a_group_that_is_none_of_its_kind_is_no_strategy(kind: str, group: int, context: int) -> None:
    """One rank exchanges nothing, Ulysses is over all ranks, two levels are a divisor between."""
    with pytest.raises(ValueError, match="context_parallel_kind"):
        cut(kind, group, context_parallel=context)


def test_what_is_left_out_is_as_the_backend_does_by_itself() -> None:
    """Megatron-LM passes keys on, torch gathers them, DeepSpeed exchanges heads."""
    ring = megatron(1, 1, context_parallel=4, stages=stages(1, LAYERS))
    assert (ring.context_parallel_kind, ring.ulysses_group_size) == ("ring", 1)
    values = {**ring.row(), "stages": ring.stages}
    for name, kind, group in (("fsdp", "all_gather", 1), ("deepspeed", "ulysses", 4)):
        left = {k: v for k, v in values.items() if k not in ("context_parallel_kind", "ulysses_group_size")}
        found = Strategy(**{**left, "backend": name})
        assert (found.context_parallel_kind, found.ulysses_group_size) == (kind, group)


def test_the_proof_says_which_ways_were_not_searched() -> None:
    """A short sequence, or an all-to-all that would leave an island; nothing where ways are named."""
    short, long = request(length=4096), request(nodes=2, length=8192)
    for asked, words in ((short, "shorter than 2 x hidden_size"), (long, "inside an island only")):
        told = left_aside(asked)
        assert words in told
        named = told.partition("context_parallel_kind=")[2].partition("'")[0]
        assert not left_aside(asked.changed({"choose.context_parallel_kind": json.loads(named)}))
        found = plan(asked)
        assert isinstance(found, Plan) and told in found.proof.statement
    assert not left_aside(request(length=8192))
    assert not left_aside(request(length=4096, context_parallel=1))


def test_short_sequences_exchange_as_usual_unless_asked() -> None:
    """From twice the hidden size on every kind is free; below it, what is chosen."""
    assert set(rows(request(length=4096)).context_parallel_kind.tolist()) == {0, 1}
    assert set(rows(request(length=8192)).context_parallel_kind.tolist()) == {0, 1, 2, 3}
    assert set(rows(request(length=4096, context_parallel_kind="ulysses")).context_parallel.tolist()) == {
        2,
        4,
        8,
    }
    two = rows(request(length=65536, nodes=2))
    assert set(two.ulysses_group_size[two.context_parallel_kind == 4].tolist()) == {2, 4, 8}


def test_only_what_costs_more_in_every_respect_is_outdone() -> None:
    """All-gather loses to a ring on one island in time and memory; a faster and larger one stays."""
    asked = request()
    found = rows(asked)
    lost = outdone([asked], found)
    kinds = {code: set(lost[found.context_parallel_kind == code].tolist()) for code in (0, 1, 2)}

    assert kinds == {0: {False}, 1: {False}, 2: {True}}


def test_the_search_takes_the_faster_kind_of_a_long_sequence() -> None:
    """64k tokens over a machine: attention over whole sequences gains more than its exchange shows."""
    one: dict[str, Any] = {"tensor_parallel": 1, "pipeline_parallel": 1}
    best, ring = plan(request(**one)), plan(request(context_parallel_kind="ring", **one))

    assert isinstance(best, Plan) and isinstance(ring, Plan)
    assert "ulysses" in best.strategy.context_parallel_kind
    assert best.time.step_seconds < 0.99 * ring.time.step_seconds


def test_the_search_equals_an_exhaustive_one_over_every_kind() -> None:
    """Thirty requests for kinds: feasibility, step and number of rows; each is optimal somewhere."""
    optimal: Counter[str] = Counter()
    for seed in range(30):
        asked = Request(**exchanged(Random(seed)))
        outcome, answer = Search(asked).run(), brute(asked)
        optimal[outcome.best.strategy.context_parallel_kind if outcome.best else "nothing fits"] += 1
        assert differences(asked, outcome, answer) == [], seed

    assert min(optimal[kind] for kind in ("ring", "all_gather", "ulysses", "ulysses+ring")) >= 1, optimal


def test_the_search_equals_an_exhaustive_one_over_fsdp_and_deepspeed() -> None:
    """Sixty requests: every kind is optimal in five, a shard group of a part of the ranks somewhere."""
    optimal: Counter[str] = Counter()
    for seed in range(60):
        asked = sharing(seed)
        outcome, answer = Search(asked).run(), brute(asked)
        if outcome.best:
            found = outcome.best.strategy
            part = 1 < found.shard_group_size < found.data_parallel * found.context_parallel
            optimal.update([f"{found.backend} {found.context_parallel_kind}", *["part"] * part])
        assert differences(asked, outcome, answer) == [], seed

    kinds = ("fsdp all_gather", "fsdp ring", "deepspeed ulysses")
    assert min(optimal[word] for word in kinds) >= 5 and optimal["part"], optimal


FLAGS = {
    ("ring", 1): "--cp-comm-type p2p",
    ("all_gather", 1): "--cp-comm-type all_gather",
    ("ulysses", 8): "--cp-comm-type a2a",
    ("ulysses+ring", 4): "--hierarchical-context-parallel-sizes 4 2",
}


@pytest.mark.parametrize(("kind", "group"), FLAGS)
def test_arguments_are_written_and_read_back(kind: str, group: int, tmp_path: Path) -> None:
    """`--cp-comm-type`, and the sizes of two levels, the all-to-all's first."""
    model = Transformer.preset("llama-3.1-8b")
    made = plan_of(cut(kind, group), model=model, sequence=8192)
    files = emit(made, "megatron")
    (tmp_path / "megatron_args.sh").write_text(files["megatron_args.sh"], encoding="utf-8")
    (tmp_path / "launch.sh").write_text(files["launch.sh"], encoding="utf-8")

    assert FLAGS[kind, group] in files["megatron_args.sh"]
    assert read_config(documents([str(tmp_path)]), made.request).strategy == made.strategy


WRONG = {
    "another word": ("--cp-comm-type ring", "no way to exchange"),
    "two ways": ("--cp-comm-type p2p a2a", "different ways"),
    "no sizes": ("--cp-comm-type a2a+p2p", "hierarchical-context-parallel-sizes"),
    "other sizes": ("--cp-comm-type a2a+p2p --hierarchical-context-parallel-sizes 2 2", "multiply to 8"),
}


@pytest.mark.parametrize(("flags", "reason"), WRONG.values(), ids=WRONG.keys())
def test_arguments_that_say_no_exchange_are_refused(flags: str, reason: str, tmp_path: Path) -> None:
    """With the argument, its value and what is legal."""
    made = plan_of(cut("ring", 1), model=Transformer.preset("llama-3.1-8b"), sequence=8192)
    text = emit(made, "megatron")["megatron_args.sh"].replace("--cp-comm-type p2p", flags)
    (tmp_path / "megatron_args.sh").write_text(text, encoding="utf-8")

    with pytest.raises(InputError, match=reason):
        read_config(documents([str(tmp_path)]), made.request)


@pytest.mark.parametrize("cards", [2, 4, 8, 16, 32])
def test_shards_lie_on_the_same_links_however_data_and_context_share_them(cards: int) -> None:
    """Sixteen and more ranks leave their machine also where all of them hold one sequence."""
    cluster = Cluster.preset("dgx-h100", nodes=4)
    model, training = (
        Transformer.preset("llama-3.1-8b"),
        Training(global_batch_size=32, sequence_length=65536),
    )
    both = Strategies.of(
        [
            fsdp(3, cards // context, context_parallel=context, stages=stages(1, LAYERS))
            for context in (1, 2, cards)
        ]
    )
    group = Layout(model, training, cluster, both).shard_group

    assert set(group.size.tolist()) == {cards}
    assert set(group.per_island.tolist()) == {min(cards, 8)}
    assert len(set(group.level.tolist())) == 1


def test_replicas_stand_a_shard_group_apart() -> None:
    """Two replicas of eight cards are on two machines, whether four or all of the eight hold one sequence."""
    cluster = Cluster.preset("dgx-h100", nodes=2)
    model, training = (
        Transformer.preset("llama-3.1-8b"),
        Training(global_batch_size=16, sequence_length=65536),
    )
    values = [(16, 1), (4, 4), (2, 8)]
    made = [
        fsdp(3, data, context_parallel=context, shard_group_size=8, stages=stages(1, LAYERS))
        for data, context in values
    ]
    group = Layout(model, training, cluster, Strategies.of(made)).replica_group

    assert (group.size.tolist(), group.per_island.tolist()) == ([2] * 3, [1] * 3)


def test_a_sequence_that_fits_no_card_alone_is_split_under_fsdp_and_deepspeed() -> None:
    """131,072 tokens of the 8B: nothing fits with whole sequences, optimal with them over eight H100."""
    for backend in ("fsdp", "deepspeed"):
        asked = request(length=131072, nodes=1, backend=backend, tensor_parallel=1)
        whole, split = plan(asked.changed({"choose.context_parallel": 1})), plan(asked)

        assert isinstance(whole, NoPlan) and isinstance(split, Plan)
        assert split.status == "optimal" and split.strategy.context_parallel == 8
        assert split.memory.verdict != "does_not_fit"
        assert not breaches(asked, split.strategy)


def test_groups_of_shards_hold_whole_groups_of_context_ranks() -> None:
    """A shard group of two ranks cannot hold four that share a sequence."""
    part = fsdp(3, 2, context_parallel=4, shard_group_size=2, stages=stages(1, LAYERS))
    asked = request(backend="fsdp")

    assert "shard_group_size" in {breach.rule for breach in breaches(asked, part)}
    four = request(backend="fsdp", context_parallel=8, length=8192, tensor_parallel=1, nodes=4)
    assert set(rows(four).shard_group_size.tolist()) == {8, 16, 32}


WRITTEN = {
    "fsdp": (fsdp(3, 2, context_parallel=4, context_parallel_kind="ring", stages=stages(1, LAYERS)), "fsdp"),
    "fsdp gathered": (
        fsdp(3, 4, context_parallel=2, shard_group_size=4, stages=stages(1, LAYERS)), "fsdp",
    ),
    "torchtitan": (
        fsdp(3, 4, context_parallel=2, shard_group_size=4, software_stack="fsdp-eager-2023",
             stages=stages(1, LAYERS)), "torchtitan",
    ),
    "accelerate": (
        fsdp(3, 2, context_parallel=4, context_parallel_kind="ring", gradient_dtype="bf16",
             stages=stages(1, LAYERS)), "accelerate",
    ),
    "trainer": (
        fsdp(3, 4, context_parallel=2, shard_group_size=4, gradient_dtype="bf16", loss_kernel="hf-eager",
             stages=stages(1, LAYERS)), "transformers",
    ),
    "deepspeed": (deepspeed(2, 2, context_parallel=4, stages=stages(1, LAYERS)), "deepspeed"),
    "trainer with deepspeed": (
        deepspeed(3, 2, context_parallel=4, gradient_accumulation_steps=2, stages=stages(1, LAYERS)),
        "transformers",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("strategy", "target"), WRITTEN.values(), ids=WRITTEN.keys())
def test_files_of_every_client_are_read_back(strategy: Strategy, target: str, tmp_path: Path) -> None:
    """Emitted, and checked as a folder: the same strategy, and not one finding."""
    made = plan_of(strategy, model=Transformer.preset("llama-3.1-8b"), sequence=8192)
    for name, text in emit(made, target).items():
        if name != "plan.json":
            (tmp_path / name).write_text(text, encoding="utf-8")
    found = read_config(documents([str(tmp_path)]), made.request).strategy

    assert found.model_dump(exclude={"loss_kernel"}) == strategy.model_dump(exclude={"loss_kernel"})
    assert lint(documents([str(tmp_path)])) == []
