"""How long and how many dollars, down to the batch job: 8 billion parameters, 10 billion tokens, 16 A100.

The expert's answer: 6 P T = 4.8e20 FLOP; two nodes; hours from the MFU reached, dollars from the hours
($2 a card), and a `--time` a fifth above them (60 h at 45 % of 312 TFLOP/s, about $1.9k, 72 h).
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from shardwise.cli import main

REQUEST = """
model = "llama-3.1-8b"
[cluster]
preset = "dgx-a100-80gb"
nodes = 2
usd_per_hour = 16.0
[training]
global_batch_size = 512
sequence_length = 2048
total_tokens = "10B"
"""
CARDS, TOKENS, PEAK_FLOPS, PARAMETERS = 16, 10**10, 312e12, 8.03e9


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, str], str]:
    """(the plan, the options of its job, the job's text)."""
    folder = tmp_path_factory.mktemp("job")
    (folder / "job.toml").write_text(REQUEST, encoding="utf-8")
    run = folder / "run"
    assert main(["plan", str(folder / "job.toml"), "--emit", "slurm", "-o", str(run), "-q"]) == 0
    text = (run / "job.sbatch").read_text(encoding="utf-8")
    options = dict(re.findall(r"^#SBATCH --([a-z-]+)=?(\S*)$", text, re.MULTILINE))
    return json.loads((run / "plan.json").read_text(encoding="utf-8")), options, text


def hours_of(clock: str) -> float:
    """Hours of Slurm's days-hours:minutes:seconds."""
    days, rest = clock.split("-")
    hour, minute, second = map(int, rest.split(":"))
    return 24 * int(days) + hour + minute / 60 + second / 3600


def test_days_follow_from_tokens_and_speed(asked: tuple[dict[str, Any], dict[str, str], str]) -> None:
    """All tokens at the plan's own rate; and 6 P T over the FLOPs it reaches, within 15 % for attention."""
    plan = asked[0]
    hours = plan["cost"]["days"] * 24
    reached = plan["time"]["mfu"] * PEAK_FLOPS * CARDS

    assert hours == pytest.approx(TOKENS / plan["time"]["tokens_per_second"] / 3600, rel=0.01)
    assert hours == pytest.approx(6 * PARAMETERS * TOKENS / reached / 3600, rel=0.15)


def test_dollars_follow_from_hours(asked: tuple[dict[str, Any], dict[str, str], str]) -> None:
    """Sixteen cards at two dollars an hour each."""
    cost = asked[0]["cost"]

    assert cost["usd_per_hour"] == 32.0
    assert cost["usd_total"] == pytest.approx(cost["days"] * 24 * CARDS * 2.0, rel=0.01)


def test_days_and_dollars_have_the_interval_of_the_step(
    asked: tuple[dict[str, Any], dict[str, str], str],
) -> None:
    """Both ends stand to the whole as those of the step's seconds to the step."""
    cost, time = asked[0]["cost"], asked[0]["time"]

    for end in ("low", "high"):
        share = time["uncertainty"][f"{end}_seconds"] / time["step_seconds"]
        assert cost[f"days_{end}"] == pytest.approx(cost["days"] * share, rel=1e-4)
        assert cost[f"usd_total_{end}"] == pytest.approx(cost["usd_total"] * share, rel=1e-4)
    assert cost["days_low"] < cost["days"] < cost["days_high"]


def test_the_job_asks_for_a_fifth_more(asked: tuple[dict[str, Any], dict[str, str], str]) -> None:
    """Two nodes of eight cards for 1.2 times the hours and half an hour for the start, to the minute."""
    plan, options, _ = asked
    hours = plan["cost"]["days"] * 24

    assert (options["nodes"], options["gres"]) == ("2", "gpu:8")
    assert hours_of(options["time"]) == pytest.approx(1.2 * hours + 0.5, rel=0.005)


def test_the_job_is_chained_by_requeueing(asked: tuple[dict[str, Any], dict[str, str], str]) -> None:
    """A queue with a shorter limit runs it in parts: it asks to be requeued, and says what must resume."""
    assert "requeue" in asked[1]
    assert "resume from its newest checkpoint" in asked[2]
