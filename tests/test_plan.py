"""Plans end to end: optimal with proof, whole numbers that add up, judged again, the same bytes each time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import shardwise
from shardwise.hardware import Cluster
from shardwise.models import Training
from shardwise.plans import NoPlan, OutOfTime, Plan, Request, as_json
from shardwise.solver import check
from shardwise.solver.judge import Misjudged, judge

pytestmark = pytest.mark.slow

CONFIGS = Path(__file__).parent / "data" / "hf_configs"


def ask(model: str, preset: str, nodes: int, batch: int, sequence: int, **rest: Any) -> Request:
    """A request in one line."""
    return Request(
        model=model,
        cluster=Cluster.preset(preset, nodes=nodes),
        training=Training(global_batch_size=batch, sequence_length=sequence),
        **rest,
    )


QUESTIONS = {
    "llama-3.1-70b on 64 H100": ("llama-3.1-70b", "dgx-h100", 8, 512, 8192),
    "a config.json on 16 H100": (str(CONFIGS / "llama3_1_8b.json"), "dgx-h100", 2, 256, 8192),
    "gpt3-175b on 1,024 A100": ("gpt3-175b", "dgx-a100-80gb", 128, 1536, 2048),
    "llama-3.1-405b on 16,384 H100": ("llama-3.1-405b", "dgx-h100", 2048, 2048, 8192),
    "qwen3-30b-a3b on 32 H100": ("qwen3-30b-a3b", "dgx-h100", 4, 512, 4096),
}


@pytest.fixture(scope="module", params=list(QUESTIONS.values()), ids=list(QUESTIONS))
def answered(request: pytest.FixtureRequest) -> tuple[Request, Plan]:
    """A question and its plan."""
    question = ask(*request.param)
    answer = shardwise.plan(question)
    assert isinstance(answer, Plan)
    return question, answer


def nanoseconds(seconds: float) -> int:
    """Seconds of an answer back as the whole nanoseconds they were."""
    return round(seconds * 1e9)


def test_it_is_proved(answered: tuple[Request, Plan]) -> None:
    """The plan is optimal: no gap, and every row but the winner is excluded by a named means."""
    _, answer = answered
    proof = answer.proof

    assert answer.status == "optimal"
    assert proof.gap == 0.0
    assert nanoseconds(proof.bound_seconds) == nanoseconds(answer.time.step_seconds)
    assert sum(proof.rows_excluded_by.values()) == proof.rows_considered - 1


def test_terms_add_up_in_whole_numbers(answered: tuple[Request, Plan]) -> None:
    """Bytes of every stage and nanoseconds of the step are the sums of their terms, exactly."""
    _, answer = answered

    assert sum(map(nanoseconds, answer.time.terms_seconds.values())) == nanoseconds(answer.time.step_seconds)
    for stage in answer.memory.stages:
        assert sum(stage.terms_bytes.values()) == stage.total_bytes
    assert answer.memory.total_bytes == max(stage.total_bytes for stage in answer.memory.stages)
    assert sum(answer.memory.terms_bytes.values()) == answer.memory.total_bytes


def test_it_is_within_its_limits(answered: tuple[Request, Plan]) -> None:
    """Cards, batch, layers and memory are those of the request."""
    question, answer = answered
    s = answer.strategy

    assert s.world == question.cluster.gpus
    batch = s.data_parallel * s.micro_batch_size * s.gradient_accumulation_steps
    assert batch == question.training.global_batch_size
    assert s.layers == question.model.layers
    assert answer.memory.total_bytes <= answer.memory.limit_bytes
    assert answer.memory.host_bytes_per_node <= answer.memory.host_usable_bytes


def test_check_agrees(answered: tuple[Request, Plan]) -> None:
    """`check` of the plan's own strategy: no breach, the same step, no loss."""
    question, answer = answered
    found = check(question, answer.strategy)

    assert found.verdict in ("fits", "risky")
    assert found.verdict == answer.memory.verdict
    assert not found.breaches
    assert nanoseconds(found.time.step_seconds) == nanoseconds(answer.time.step_seconds)
    assert found.loss_percent == 0.0


def test_no_alternative_is_faster(answered: tuple[Request, Plan]) -> None:
    """Alternatives are other classes, and none beats the plan."""
    _, answer = answered

    assert all(other.loss_percent >= 0 for other in answer.alternatives)
    assert {other.name for other in answer.alternatives} & {"folk", "fsdp", "deepspeed"}


def test_it_reads_back(answered: tuple[Request, Plan]) -> None:
    """A plan round-trips through JSON."""
    _, answer = answered

    assert Plan.model_validate_json(answer.model_dump_json(by_alias=True)) == answer


def test_same_request_same_bytes() -> None:
    """Fresh processes with other hash seeds print the same JSON."""
    arguments = ["plan", "llama-3.1-8b", "--cluster", "dgx-h100", "--nodes", "1", "--global-batch-size", "64"]
    command = [sys.executable, "-c", "from shardwise.cli import main; main()", *arguments]
    command += ["--sequence-length", "4096", "--json"]
    seen = set()
    for seed in ("0", "1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        ran = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
        seen.add(ran.stdout)

    assert len(seen) == 1
    assert json.loads(seen.pop())["status"] == "optimal"


def test_a_stopped_search_tells_a_true_gap() -> None:
    """With little time the answer is feasible with a bound at or below the optimum, or out of time."""
    question = ask("llama-3.1-70b", "dgx-h100", 8, 512, 8192)
    full = shardwise.plan(question)
    assert isinstance(full, Plan)
    for limit in (0.01, 0.3, 0.8):
        part = shardwise.plan(question, time_limit=limit)
        bound = part.bound_seconds if isinstance(part, OutOfTime) else part.proof.bound_seconds  # type: ignore[union-attr]
        assert bound is None or bound <= full.time.step_seconds
        if isinstance(part, Plan) and part.status == "feasible":
            assert part.time.step_seconds >= full.time.step_seconds
            assert part.proof.gap >= 0


def test_nothing_fits_and_what_cures_it() -> None:
    """70B on one node without offload: the reason has numbers, each cure gives its step when set."""
    question = ask("llama-3.1-70b", "dgx-h100", 1, 64, 4096, choose={"offload_optimizer": "none"})
    answer = shardwise.plan(question)

    assert isinstance(answer, NoPlan)
    assert any("GiB" in reason for reason in answer.reasons)
    assert {"choose.offload_optimizer"} <= {entry.limit for entry in answer.conflict}
    assert answer.cures
    for cure in answer.cures:
        field, _, value = cure.set.partition("=")
        changed = question.changed({field: int(value) if value.isdigit() else value})
        mended = shardwise.plan(changed)
        assert isinstance(mended, Plan)
        assert nanoseconds(mended.time.step_seconds) == nanoseconds(cure.resulting_step_seconds)


def test_a_deadline_is_a_limit() -> None:
    """A deadline just above the optimum is met; just below it there is no plan, and dropping it cures."""
    question = ask("llama-3.1-8b", "dgx-h100", 1, 64, 4096)
    best = shardwise.plan(question)
    assert isinstance(best, Plan)
    step = best.time.step_seconds
    met = shardwise.plan(question.changed({"limits.max_step_seconds": step + 1e-6}))
    missed = shardwise.plan(question.changed({"limits.max_step_seconds": step - 1e-6}))

    assert isinstance(met, Plan) and met.time.step_seconds == step
    assert isinstance(missed, NoPlan)
    assert any(cure.set.startswith("limits.max_step_seconds=") for cure in missed.cures)


def test_the_judge_refuses_what_differs() -> None:
    """A plan whose step, world or memory is not what the ledger says is never returned."""
    question = ask("llama-3.1-8b", "dgx-h100", 1, 64, 4096)
    best = shardwise.plan(question)
    assert isinstance(best, Plan)
    step = nanoseconds(best.time.step_seconds)

    assert judge(question, best.strategy, step).step_ns == step
    with pytest.raises(Misjudged, match="the search said"):
        judge(question, best.strategy, step + 1)
    with pytest.raises(Misjudged, match="cards"):
        judge(question.changed({"cluster.nodes": 2}), best.strategy, step)
    with pytest.raises(Misjudged, match="KiB"):
        judge(question.changed({"limits.memory_margin": 0.9}), best.strategy, step)


def test_json_tells_derived_words() -> None:
    """The strategy in JSON also carries recompute and the pipeline's schedule."""
    answer = shardwise.plan(ask("llama-3.1-8b", "dgx-h100", 1, 64, 4096))
    told = json.loads(as_json(answer))["strategy"]

    assert told["recompute"] in ("none", "selective", "full")
    assert told["pipeline_schedule"] in ("none", "1f1b", "interleaved")
