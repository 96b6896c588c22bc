"""Where a peak's interval lies about what a card has, and the margin that keeps it inside."""

from __future__ import annotations

import pytest

from shardwise import Plan, Request, plan
from shardwise.cli.plan_text import memory_lines
from shardwise.plans import Check, read_strategy
from shardwise.plans.peak import MemoryReport
from shardwise.solver import check


def asked(micro: int, margin: float = 0.08) -> Request:
    """Llama-3.1 8B on eight A100 of 80 GB, `micro` sequences of 4,096 tokens a card."""
    return Request.model_validate(
        {
            "model": "llama-3.1-8b",
            "cluster": {"preset": "dgx-a100-80gb"},
            "training": {"global_batch_size": 64, "sequence_length": 4096},
            "choose": {"backend": "fsdp", "zero_stage": 3, "micro_batch_size": micro},
            "limits": {"memory_margin": margin},
        }
    )


def judged(micro: int, recompute: str) -> Check:
    """What `check` tells of that many sequences, recomputed so."""
    request = asked(micro)
    knobs = {"backend": "fsdp", "zero_stage": 3, "micro_batch_size": micro, "recompute": recompute}
    return check(request, read_strategy(knobs, request.model, "test", request.training, 8))


def told(memory: MemoryReport) -> str:
    """The line of the peak as printed."""
    return " ".join(" ".join(memory_lines(memory)).split())


@pytest.mark.parametrize(
    ("micro", "recompute", "verdict", "words"),
    [
        (1, "full", "fits", "in 8 of 10 cases: inside the card"),
        (2, "none", "risky", "lie between"),
        (8, "none", "does_not_fit", "in 8 of 10 cases: beyond the card"),
    ],
)
def test_the_interval_is_judged_by_its_ends(micro: int, recompute: str, verdict: str, words: str) -> None:
    """Inside where the upper end is, beyond where the lower end is, between else; the line says which."""
    memory = judged(micro, recompute).memory
    rough = memory.uncertainty
    inside, beyond = rough.high_bytes <= memory.usable_bytes, rough.low_bytes > memory.usable_bytes

    assert rough.verdict == verdict == ("fits" if inside else "does_not_fit" if beyond else "risky")
    assert (rough.holding_margin is None) == inside
    assert words in told(memory)


def test_a_margin_of_that_size_keeps_the_interval_inside() -> None:
    """The plan of the default margin is nearly full; that of the margin it names holds its whole interval."""
    full = plan(asked(2))
    assert isinstance(full, Plan)
    margin = full.memory.uncertainty.holding_margin
    assert full.memory.verdict == "fits" and full.memory.uncertainty.verdict == "risky"
    assert margin is not None and f"memory_margin={margin}" in told(full.memory)
    held = plan(asked(2, margin))
    assert isinstance(held, Plan)

    assert held.memory.uncertainty.verdict == "fits"
    assert held.memory.uncertainty.high_bytes <= held.memory.usable_bytes
    assert held.time.step_seconds > full.time.step_seconds
