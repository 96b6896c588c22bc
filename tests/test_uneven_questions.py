"""Questions about free cards and pools: compared and forced as on equal machines, never told nonsense."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shardwise import Plan, Request, plan
from shardwise.cli import main
from shardwise.plans.row import CompareRow
from shardwise.solver import Case, compare, why

UNEVEN: dict[str, dict[str, Any]] = {
    "free cards": {"machine": "dgx-h100", "free": [[4, 4], [2]]},
    "pools": {"pool": [{"machine": "dgx-h100"}, {"machine": "dgx-a100-80gb"}]},
}


def asked(name: str, **choose: Any) -> Request:
    """A small job on one of `UNEVEN`."""
    return Request.model_validate(
        {
            "model": "qwen2.5-0.5b",
            "cluster": UNEVEN[name],
            "training": {"global_batch_size": 64, "sequence_length": 1024},
            "choose": {"backend": "megatron", **choose},
        }
    )


@pytest.mark.parametrize("name", UNEVEN)
def test_a_case_is_the_plan_of_its_request(name: str) -> None:
    """The row of a case has the step of the plan with that choice; a case without one tells why."""
    cases = [Case("one", {"choose.zero_stage": 1}), Case("three", {"choose.tensor_parallel": 3})]
    rows: dict[str, CompareRow] = {row.name: row for row in compare(asked(name), cases).rows}
    alone = plan(asked(name, zero_stage=1))

    assert isinstance(alone, Plan)
    assert rows["one"].step_seconds == alone.time.step_seconds
    assert rows["one"].memory_bytes == alone.memory.total_bytes
    assert rows["three"].strategy is None and "tensor_parallel 3 does not divide" in rows["three"].reason


@pytest.mark.parametrize("name", UNEVEN)
def test_a_forced_change_adds_up(name: str) -> None:
    """The named terms sum to the loss in whole nanoseconds."""
    base = plan(asked(name))
    assert isinstance(base, Plan)
    found = why(base, {"choose.zero_stage": 0})

    assert found.forced is not None and found.forced_step_seconds is not None
    loss = round(1e9 * found.forced_step_seconds) - round(1e9 * found.planned_step_seconds)
    assert sum(round(1e9 * term.delta_seconds) for term in found.terms) == loss
    assert found.planned_step_seconds == base.time.step_seconds


def test_a_strategy_is_judged_on_free_cards_by_the_cards_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Eight of ten free cards are priced; all ten, which do not divide the batch, are refused by name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.json").write_text(
        json.dumps(
            {
                "model": "qwen2.5-0.5b",
                "cluster": UNEVEN["free cards"],
                "training": {"global_batch_size": 64, "sequence_length": 1024},
            }
        )
    )
    (tmp_path / "all.json").write_text('{"backend": "fsdp"}')
    (tmp_path / "some.json").write_text('{"backend": "fsdp", "data_parallel": 8}')

    assert main(["check", "job.json", "--strategy", "all.json"]) == 2
    assert "data_parallel 10 x micro_batch_size 1 = 10 does not divide" in capsys.readouterr().err
    assert main(["check", "job.json", "--strategy", "some.json"]) == 0
    assert "dp 8" in capsys.readouterr().out
