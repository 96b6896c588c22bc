"""What a forced change costs: terms that add up to the loss, and limits whose absence would help."""

from __future__ import annotations

import shlex
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from shardwise import InputError, Plan, Request, plan
from shardwise.cli import main
from shardwise.plans.report import price
from shardwise.plans.settings import parsed
from shardwise.solver import why

PLANS: dict[str, dict[str, Any]] = {
    "dense": {
        "model": "llama-3.1-8b",
        "cluster": {"preset": "dgx-h100", "nodes": 2},
        "training": {"global_batch_size": 128, "sequence_length": 4096},
    },
    "experts": {
        "model": "mixtral-8x7b",
        "cluster": {"preset": "dgx-a100-80gb", "nodes": 4},
        "training": {"global_batch_size": 128, "sequence_length": 4096},
    },
    "tight": {
        "model": "llama-3.1-70b",
        "cluster": {"preset": "dgx-h100", "nodes": 4},
        "training": {"global_batch_size": 64, "sequence_length": 4096},
    },
}
FORCED: tuple[dict[str, Any], ...] = (
    {"choose.tensor_parallel": 1},
    {"choose.tensor_parallel": 8},
    {"choose.pipeline_parallel": 4},
    {"choose.zero_stage": 3},
    {"choose.micro_batch_size": 1},
    {"choose.recompute": "full"},
    {"choose.backend": "deepspeed"},
    {"choose.backend": "fsdp"},
    {"choose.context_parallel": 2},
    {"choose.offload_optimizer": "cpu"},
)


@cache
def planned(name: str) -> Plan:
    """The plan of one of `PLANS`."""
    found = plan(Request.model_validate(PLANS[name]))
    assert isinstance(found, Plan)
    return found


def ns(seconds: float) -> int:
    """Whole nanoseconds."""
    return round(seconds * 1e9)


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("change", FORCED, ids=lambda change: next(iter(change)) + str(*change.values()))
def test_the_terms_sum_to_the_loss(name: str, change: dict[str, Any]) -> None:
    """Differences of all named terms add up, in whole nanoseconds, to the loss; it is never a gain."""
    base = planned(name)
    found = why(base, change)
    if found.forced is None or found.forced_step_seconds is None or found.loss_percent is None:
        assert found.reasons
        return
    loss = ns(found.forced_step_seconds) - ns(found.planned_step_seconds)
    assert sum(ns(term.delta_seconds) for term in found.terms) == loss
    assert loss >= 0
    assert found.loss_percent == pytest.approx(100 * loss / ns(found.planned_step_seconds), abs=1e-3)
    deltas = [term.delta_seconds for term in found.terms]
    assert deltas == sorted(deltas, reverse=True)
    field, value = next(iter(change.items()))
    assert getattr(found.forced, field.removeprefix("choose.")) == value
    forced = price(base.request.changed(change), [found.forced])[0]
    assert forced.step_ns == ns(found.forced_step_seconds)


@pytest.mark.slow
def test_what_binds_would_help() -> None:
    """Without a limit that is said to bind the step is shorter than the forced one."""
    found = why(planned("tight"), {"choose.tensor_parallel": 1})
    assert found.forced_step_seconds is not None
    assert found.binds, "70B without tensor parallel is held back by memory"
    assert all(limit.resulting_step_seconds < found.forced_step_seconds for limit in found.binds)
    assert "cluster.node.gpu.memory_usable_bytes" in {limit.limit for limit in found.binds}


def test_what_the_plan_already_has_costs_nothing() -> None:
    """Forcing a choice of the plan changes nothing and says so."""
    base = planned("dense")
    found = why(base, {"choose.tensor_parallel": base.strategy.tensor_parallel})

    assert found.held and found.loss_percent == 0
    assert all(term.delta_seconds == 0 for term in found.terms)


def test_an_impossible_force_tells_why() -> None:
    """A degree the heads do not divide leaves no plan, with the reason."""
    found = why(planned("dense"), {"choose.tensor_parallel": 3})

    assert (found.status, found.forced) == ("infeasible", None)
    assert "heads" in found.reasons[0]


def test_the_ladder_ends_at_the_plan() -> None:
    """Rungs lead from plain data parallel to the plan; memory falls with each stage of sharding."""
    base = planned("tight")
    assert base.ladder[0].lever == "plain data parallel"
    assert base.ladder[0].verdict == "does_not_fit"
    stages = [rung.memory_bytes for rung in base.ladder if rung.set.startswith("zero_stage=")]
    assert stages == sorted(stages, reverse=True)
    assert base.ladder[-1].step_seconds == base.time.step_seconds
    assert base.ladder[-1].memory_bytes == base.memory.total_bytes
    straight = [rung for rung in base.ladder if rung.lever not in ("twice the cards", "8-bit moments")]
    assert sum(rung.verdict == "fits" for rung in straight[:-1]) <= 1
    for below, rung in zip(straight, straight[1:], strict=False):
        assert rung.bought_bytes == below.memory_bytes - rung.memory_bytes
        assert ns(rung.paid_seconds) == ns(rung.step_seconds) - ns(below.step_seconds)


def test_each_lever_keeps_the_ones_below() -> None:
    """Offloading comes on top of recompute: it buys memory, never costs some."""
    rungs = {rung.lever: rung for rung in planned("tight").ladder}
    assert all(
        rung.bought_bytes > 0 for lever, rung in rungs.items() if not lever.startswith(("plain", "the plan"))
    )
    assert rungs["twice the cards"].bought_bytes < rungs["shard the weights"].memory_bytes / 2


def test_more_tokens_a_step_are_compared_a_token() -> None:
    """Twice the sequence is twice the tokens: the loss of a token is told beside that of a step."""
    forced = why(planned("dense"), {"training.sequence_length": 8192})
    times = (forced.forced_step_seconds or 0.0) / forced.planned_step_seconds

    assert (forced.planned_tokens, forced.forced_tokens) == (128 * 4096, 128 * 8192)
    assert forced.loss_percent == pytest.approx(100 * (times - 1), abs=1e-3)
    assert forced.loss_per_token_percent == pytest.approx(100 * (times / 2 - 1), abs=1e-3)


def test_a_plan_edited_to_another_batch_is_refused() -> None:
    """Its step would be compared with one of other sequences."""
    made = planned("dense")
    steps = made.strategy.gradient_accumulation_steps
    other = made.strategy.model_copy(update={"gradient_accumulation_steps": 2 * steps})

    with pytest.raises(InputError, match="the global batch is 128"):
        why(made.model_copy(update={"strategy": other}), {"choose.tensor_parallel": 2})


@pytest.mark.parametrize("change", ["overlap_tensor_parallel=true", 'choose.rules=["tensor_parallel >= 2"]'])
def test_a_forced_change_is_told_as_it_can_be_pasted(
    change: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The words of the last line, taken apart by a shell, set what was asked."""
    path = tmp_path / "plan.json"
    path.write_text(planned("dense").model_dump_json(), encoding="utf-8")
    main(["why", str(path), change])
    words = shlex.split(capsys.readouterr().err.rpartition("REQUEST")[2])

    assert words[0] == "--set" and parsed(words[1])[:2] == parsed(change)[:2]
