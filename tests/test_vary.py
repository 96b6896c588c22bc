"""Cases and curves: rankings, fronts, exact batches, checkpoints that must be converted."""

from __future__ import annotations

import pytest

from shardwise import Cluster, Plan, Planner, Request, plan
from shardwise.inputs import InputError
from shardwise.plans.settings import settings_in
from shardwise.solver import Case, compare, curve
from shardwise.solver.counts import SHARDED, exact_batches
from shardwise.solver.points import front


def request() -> Request:
    """A small model on one node."""
    return Request.model_validate(
        {
            "model": "llama-3.2-1b",
            "cluster": {"preset": "p5.48xlarge", "gpus": 8},
            "training": {"global_batch_size": 64, "sequence_length": 2048},
        }
    )


def test_cases_are_ranked_by_tokens() -> None:
    """The fastest a token comes first, also where batches differ; a case without a plan has no rank."""
    cases = [
        Case("one", {"cluster.gpus": 1}),
        Case("eight", {"cluster.gpus": 8}),
        Case("none", {"limits.max_step_seconds": 1e-6}),
        Case("half batch", {"training.global_batch_size": 32}),
    ]
    found = compare(request(), cases)
    rates = {row.name: row.tokens_per_second or 0.0 for row in found.rows}

    assert [rates[name] for name in found.ranking] == sorted((r for r in rates.values() if r), reverse=True)
    missing = next(row for row in found.rows if row.name == "none")
    assert missing.rank is None and missing.status == "infeasible" and missing.reason
    assert found.margin_percent is not None and found.margin_percent >= 0


BRIDGE = (Case("bare", {"cluster.link": "pcie"}), Case("bridge", {"cluster.link": "pairs"}))


@pytest.mark.parametrize(("batch", "settled"), [(4, True), (32, False)])
def test_what_both_cases_share_leaves_their_ratio(batch: int, settled: bool) -> None:
    """On a card nobody measured intervals overlap, and yet what a bridge gives is known where it is much."""
    asked = Request.model_validate(
        {
            "model": "qwen2.5-1.5b",
            "cluster": {"gpu": "A100-PCIe-80GB", "gpus_per_node": 2, "link": "pcie"},
            "training": {"global_batch_size": batch, "sequence_length": 2048},
            "choose": {"backend": "deepspeed", "zero_stage": 0, "micro_batch_size": 2},
        }
    )
    found = compare(asked, BRIDGE)
    first, second = sorted(found.rows, key=lambda row: row.rank or 9)

    assert first.name == "bridge"
    assert (first.high_seconds or 0.0) > (second.low_seconds or 0.0)
    assert found.settled is settled


def test_cards_on_pcie_are_joined_by_the_link_that_is_asked_for() -> None:
    """A bridge joins two of four cards, NVSwitch all; what asked for the link is silent then."""
    four = Request.model_validate(
        {
            "model": "llama-3.2-1b",
            "cluster": {"gpu": "A100-PCIe-80GB", "gpus_per_node": 4},
            "training": {"global_batch_size": 64, "sequence_length": 2048},
        }
    )
    assert any("give link" in note for note in four.cluster.notes)
    bare = four.changed({"cluster.link": "pcie"})
    bridged = bare.changed({"cluster.link": "pairs"})

    assert (bare.cluster.node.island_size, bridged.cluster.node.island_size) == (1, 2)
    assert not any("give link" in note for note in bare.cluster.notes)
    with pytest.raises(InputError, match=r"cluster.link = pairs .*joins no cards of a machine of 4 L4"):
        bare.changed({"cluster.gpu": "L4"}).changed({"cluster.link": "pairs"})


def test_less_is_shared_by_other_software_or_cards() -> None:
    """Two backends, or two cards, need a larger lead than two layouts of one backend on one card."""
    layouts = [Case(f"zero {stage}", {"choose.zero_stage": stage}) for stage in (2, 3)]
    backends = [Case(name, {"choose.backend": name}) for name in ("fsdp", "megatron")]
    cards = [Case(name, {"cluster.preset": name}) for name in ("dgx-h100", "dgx-a100-80gb")]
    one = request().changed({"choose.backend": "fsdp"})
    alike = compare(one, layouts).settles_percent
    apart = {compare(request(), backends).settles_percent, compare(one, cards).settles_percent}

    assert alike is not None and all(alike < (needed or 0.0) for needed in apart)


def test_dollars_rank_where_they_are_the_objective() -> None:
    """With usd_per_token a smaller cluster may win over a faster one."""
    cheap = request().changed({"objective.minimize": "usd_per_token"})
    found = compare(cheap, [Case("1 node", {"cluster.nodes": 1}), Case("8 nodes", {"cluster.nodes": 8})])
    dollars = {row.name: row.usd_per_million_tokens or 0.0 for row in found.rows}

    assert found.ranking == tuple(sorted(dollars, key=lambda name: dollars[name]))


def test_a_break_even_parts_the_winners() -> None:
    """Below the value one case wins, above it the other."""
    cases = [Case("bf16", {"choose.precision": "bf16"}), Case("fp8", {"choose.precision": "fp8"})]
    asked = request().changed({"choose.backend": "megatron"})
    field = "cluster.node.gpu.fp8_flops_per_s"
    found = compare(asked, cases, (field, 1e14, 2e15)).break_even
    assert found is not None and found.value is not None
    assert (found.below, found.above) == ("bf16", "fp8")
    step = 0.01 * (found.high - found.low)
    for value, winner in ((found.value - step, "bf16"), (found.value + step, "fp8")):
        assert compare(asked.changed({field: value}), cases).ranking[0] == winner


def test_two_cases_of_one_name_are_refused() -> None:
    """Names tell cases apart."""
    with pytest.raises(InputError, match="twice"):
        compare(request(), [Case("a", {}), Case("a", {})])


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        ([(1.0, 1.0)], [True]),
        ([(1.0, 2.0), (2.0, 1.0), (2.0, 2.0)], [True, True, False]),
        ([(1.0, 1.0), (1.0, 1.0)], [True, True]),
    ],
)
def test_the_front(points: list[tuple[float, ...]], expected: list[bool]) -> None:
    """A point is on the front unless another is no worse in all and better in one."""
    assert front(points) == expected


def test_a_curve_tells_what_a_scheduler_needs() -> None:
    """Cards a node, exact batches, the nearest ones, and where a checkpoint must be converted."""
    rows = curve(request(), [4, 8, 16, 24], envelope=True).rows

    assert [(row.gpus, row.nodes, row.gpus_per_node) for row in rows] == [
        (4, 1, 4), (8, 1, 8), (16, 2, 8), (24, 3, 8),
    ]  # fmt: skip
    assert [row.global_batch_exact for row in rows] == [True, True, True, False]
    assert rows[-1].nearest_exact_batches == (48, 72)
    assert not rows[0].needs_reshard
    for before, row in zip(rows, rows[1:], strict=False):
        assert before.strategy and row.strategy
        differ = any(getattr(before.strategy, n) != getattr(row.strategy, n) for n in SHARDED)
        assert row.needs_reshard == differ
    best = 0.0
    for row in rows:
        best = max(best, row.tokens_per_second or 0.0)
        chosen = next(r for r in rows if r.gpus == row.envelope_gpus)
        assert chosen.tokens_per_second == best


def test_the_planner_draws_the_same_curve() -> None:
    """`Planner.curve` is `curve` on its cluster; its rows show in a notebook."""
    planner = Planner(Cluster.preset("p5.48xlarge"))
    found = planner.curve(request(), [8, 16])

    assert found == curve(request(), [8, 16])
    assert found._repr_html_().startswith("<table>")


def test_batches_that_divide() -> None:
    """The batch itself where the cards divide it, else the nearest below and above."""
    assert exact_batches(512, 64) == (512,)
    assert exact_batches(512, 48) == (480, 528)
    assert exact_batches(5, 8) == (8,)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("a=1", ["a=1"]),
        ("a=1,b=2", ["a=1", "b=2"]),
        ("a=[1, 2],b=x", ["a=[1, 2]", "b=x"]),
        ('rules=["a % 2 == 0", "b=c"],nodes=2', ['rules=["a % 2 == 0", "b=c"]', "nodes=2"]),
        ("tensor_parallel=1,2", ["tensor_parallel=1,2"]),
    ],
)
def test_several_settings_in_one(text: str, pieces: list[str]) -> None:
    """Commas part settings only where a new key begins, never inside brackets or quotes."""
    assert settings_in(text) == pieces


def test_what_if_takes_the_words_of_set() -> None:
    """A last word, a dotted field with two underlines, and a word of no field, which is refused."""
    found = plan(request())
    assert isinstance(found, Plan)
    planner = Planner(found.request.cluster)
    short = planner.whatif(found, global_batch_size=32)
    dotted = planner.whatif(found, training__global_batch_size=32)

    assert isinstance(short, Plan) and short.request.training.global_batch_size == 32
    assert short == dotted
    with pytest.raises(InputError, match=r"tensor_paralel .*legal: tensor_parallel"):
        planner.whatif(found, tensor_paralel=2)
