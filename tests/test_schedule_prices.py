"""Schedules in the ledger: what a strategy of each costs in time and memory."""

from __future__ import annotations

import pytest

from shardwise.costs import price
from shardwise.costs.ledger import Ledger
from shardwise.hardware import Cluster
from shardwise.inputs import InputError
from shardwise.models import Strategy, Training, Transformer
from shardwise.models.schedule import SCHEDULES, ScheduleName
from shardwise.plans import Request
from shardwise.plans.complete import read_strategy
from shardwise.runs.choices import schedule_named
from shardwise.runs.record import Record
from shardwise.solver.legal import breaches

MODEL = Transformer.preset("llama-3.1-8b")
CLUSTER = Cluster.preset("dgx-h100", nodes=1)
TRAINING = Training(global_batch_size=64, sequence_length=4096)
CHUNKS = {"interleaved": 2, "looped-bfs": 2, "interleaved-zb": 2, "zb-v": 2, "dualpipe-v": 2}


def strategy(name: ScheduleName, **more: object) -> Strategy:
    """Four stages of eight layers on two data ranks."""
    given = {"backend": "megatron", "pipeline_parallel": 4, "pipeline_schedule": name, "zero_stage": 1}
    given |= {"virtual_pipeline": CHUNKS.get(name, 1), **more}
    return read_strategy(given, MODEL, "test", TRAINING, CLUSTER.gpus)


def ledger(name: ScheduleName, **more: object) -> Ledger:
    """Its price."""
    return price(MODEL, TRAINING, CLUSTER, [strategy(name, **more)])[0]


LEDGERS = {name: ledger(name) for name in SCHEDULES[1:]}


def bubble(name: ScheduleName) -> int:
    """Nanoseconds of the pipeline's bubble."""
    return LEDGERS[name].terms_ns.get("pipeline_bubble", 0)


def term_kib(found: Ledger, stage: int, term: str) -> int:
    """A memory term of a stage in the backward."""
    return found.stages[stage].moments_kib["backward"][term]


def test_bubbles_stand_in_the_order_of_the_papers() -> None:
    """ZB-H2 < ZB-H1 < 1F1B; chunks halve both kinds; GPipe is 1F1B at equal ends or longer."""
    assert bubble("zb-h2") < bubble("zb-h1") < bubble("1f1b") <= bubble("gpipe")
    assert bubble("interleaved-zb") < bubble("zb-h1")
    assert bubble("interleaved-zb") < bubble("interleaved") < bubble("1f1b")
    assert bubble("dualpipe") < bubble("zb-h1")


def test_steps_are_the_sum_of_their_terms() -> None:
    """Every schedule's named terms add up, and differ from 1F1B's little but for the bubble."""
    for name, found in LEDGERS.items():
        assert found.step_ns == sum(found.terms_ns.values()), name
        assert found.step_ns < 1.4 * LEDGERS["1f1b"].step_ns, name


def test_activations_follow_the_chunks_in_flight() -> None:
    """On inner stages, which hold layers alone: 3 of 1F1B are 4 of ZB-H1, 7 of ZB-H2 and all 32 of GPipe."""
    one = term_kib(LEDGERS["1f1b"], 1, "activations") / 3
    held = {name: term_kib(found, 1, "activations") / one for name, found in LEDGERS.items()}
    assert held["zb-h1"] == pytest.approx(4, rel=1e-4)
    assert held["zb-h2"] == pytest.approx(7, rel=1e-4)
    assert held["gpipe"] == pytest.approx(32, rel=1e-4)
    assert held["dualpipe"] == pytest.approx(5, rel=1e-4)
    assert held["zb-v"] == pytest.approx(4, rel=1e-4)
    assert held["dualpipe-v"] == pytest.approx(4.5, rel=1e-4)


def test_dualpipe_holds_all_parameters_twice() -> None:
    """Each rank has its stage of both directions, the ends with embedding and head each."""
    once, twice = LEDGERS["1f1b"], LEDGERS["dualpipe"]
    assert term_kib(twice, 1, "weights") == pytest.approx(2 * term_kib(once, 1, "weights"), rel=1e-6)
    ends = term_kib(once, 0, "weights") + term_kib(once, 3, "weights")
    assert [term_kib(twice, stage, "weights") for stage in (0, 3)] == [ends, ends]
    assert term_kib(twice, 1, "runtime") == term_kib(once, 1, "runtime")


def test_a_v_lays_embedding_and_head_on_the_first_stage() -> None:
    """The last stage is one of layers alone."""
    vee, inner = LEDGERS["zb-v"], term_kib(LEDGERS["1f1b"], 1, "weights")
    assert term_kib(vee, 3, "weights") == inner
    ends = sum(term_kib(LEDGERS["1f1b"], stage, "weights") for stage in (0, 3))
    assert term_kib(vee, 0, "weights") == pytest.approx(ends - inner, rel=1e-6)
    chunks = [sum(stage.chunk_ns.values()) for stage in vee.stages]
    assert chunks[0] == max(chunks) and chunks[1] == chunks[3]


def test_recompute_spares_nothing_of_chunks_that_wait_for_their_weights() -> None:
    """The last stage of ZB-H1 holds four chunks, which all wait; the first keeps inputs alone of three."""
    plain, again = (ledger("zb-h1", recompute=word) for word in ("none", "full"))
    assert term_kib(again, 3, "activations") == pytest.approx(term_kib(plain, 3, "activations"), rel=1e-4)
    assert term_kib(again, 0, "activations") < 0.5 * term_kib(plain, 0, "activations")
    usual = ledger("1f1b", recompute="full")
    assert term_kib(usual, 3, "activations") < 0.5 * term_kib(again, 3, "activations")


def test_a_schedule_no_backend_writes_is_a_breach_beside_its_price() -> None:
    """`check` tells the price and that the backend runs another."""
    request = Request(model=MODEL, cluster=CLUSTER, training=TRAINING)
    found = {breach.rule: breach.reason for breach in breaches(request, strategy("zb-h1"))}
    assert "Megatron Core runs 1F1B" in found["pipeline_schedule"]
    assert "pipeline_schedule" not in {breach.rule for breach in breaches(request, strategy("1f1b"))}


def test_a_word_that_contradicts_the_degrees_is_refused() -> None:
    """Not read over: a stale word would price another run."""
    with pytest.raises(InputError, match="virtual_pipeline 2 or more"):
        strategy("interleaved", virtual_pipeline=1)
    with pytest.raises(InputError, match="pipeline_parallel is 1"):
        strategy("1f1b", pipeline_parallel=1)


@pytest.mark.parametrize(
    ("framework", "notes", "name"),
    [
        ("Megatron-LM", "ZB-2p schedule, m=24 micro-batches", "zb-h2"),
        ("Megatron-LM", "ZB-1p schedule, m=24; 2p is elsewhere", "zb-h1"),
        ("HAI-LLM DualPipe", "H800 cluster", "dualpipe"),
        ("torchtitan", "ZBVZeroBubble; compile", "zb-v"),
        ("Megatron-LM", "1F1B-I schedule, m=24; faster than ZB-1p", None),
        ("torchtitan", "Interleaved 1F1B; async TP", None),
    ],
)
def test_published_runs_name_their_schedule(framework: str, notes: str, name: str | None) -> None:
    """In the framework or in the first words of the notes."""
    found = schedule_named(Record({"framework": framework, "notes": notes}))
    assert (found.name if found else None) == name


def test_a_forward_beside_a_backward_hides_the_exchange_of_tokens() -> None:
    """DualPipe shows less of it than 1F1B, and no other schedule does."""
    model, cluster = Transformer.preset("mixtral-8x7b"), Cluster.preset("dgx-h100", nodes=2)
    shown = {}
    for name in ("1f1b", "zb-h1", "dualpipe"):
        given = {
            "backend": "megatron",
            "pipeline_parallel": 4,
            "expert_parallel": 4,
            "pipeline_schedule": name,
        }
        found = read_strategy({**given, "zero_stage": 1}, model, "test", TRAINING, cluster.gpus)
        shown[name] = price(model, TRAINING, cluster, [found])[0].terms_ns["expert_comm"]
    assert shown["dualpipe"] < 0.9 * shown["1f1b"]
    assert shown["zb-h1"] == shown["1f1b"]
