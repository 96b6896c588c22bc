"""What commands print as JSON obeys the published schemas, derived words and all."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from shardwise.cli import main

pytestmark = pytest.mark.tree

VALIDATOR: Any = import_module("jsonschema").Draft202012Validator

ROOT = Path(__file__).resolve().parent.parent
JOB = ["qwen2.5-0.5b", "--cluster", "dgx-h100", "--global-batch-size", "64", "--sequence-length", "1024"]
STRATEGY = {"backend": "deepspeed", "zero_stage": 3, "micro_batch_size": 1}
LINES: dict[str, list[str]] = {
    "plan": ["plan", *JOB, "-v"],
    "no_plan": ["plan", *JOB, "--set", "limits.max_step_seconds=0.001"],
    "check": ["check", *JOB, "--strategy", "s.json"],
    "diagnosis": ["check", *JOB, "--strategy", "s.json", "--message", "oom.txt"],
    "compare": ["compare", *JOB, "--vary", "nodes=1,2"],
    "curve": ["curve", *JOB, "--gpus", "8,16"],
    "why": ["why", "plan.json", "tensor_parallel=2"],
    "emitted": ["emit", "plan.json", "--to", "megatron"],
    "field": ["explain", "micro_batch_size"],
    "term": ["explain", "zero2.weights"],
    "ledger": ["ledger", "8B", "--gpus", "8"],
    "list": ["list", "clusters"],
    "model": ["show", "model", "mixtral-8x7b"],
    "cluster": ["show", "cluster", "dgx-h100", "--nodes", "2"],
    "seen_cluster": ["show", "cluster", "topo.txt"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a strategy, a plan, a message and a matrix."""
    made = tmp_path_factory.mktemp("answers")
    (made / "s.json").write_text(json.dumps(STRATEGY))
    (made / "oom.txt").write_text((ROOT / "examples" / "out_of_memory.txt").read_text())
    (made / "topo.txt").write_text((ROOT / "examples" / "10_cut_matrix.txt").read_text())
    assert main(["plan", *JOB, "-o", str(made / "plan.json"), "-q"]) == 0
    return made


@pytest.mark.parametrize("name", LINES)
def test_an_answer_obeys_its_schema(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No field is missing, none is unknown, each has its type."""
    monkeypatch.chdir(folder)
    assert main([*LINES[name], "--json"]) in (0, 1)
    answer = json.loads(capsys.readouterr().out)
    schema = json.loads((ROOT / "docs" / "schemas" / f"{name}.json").read_text())

    assert [error.message for error in VALIDATOR(schema).iter_errors(answer)] == []


def test_the_parts_of_a_plan_obey_theirs(folder: Path) -> None:
    """Its request and its strategy are answers too."""
    plan = json.loads((folder / "plan.json").read_text())
    for name in ("request", "strategy"):
        schema = json.loads((ROOT / "docs" / "schemas" / f"{name}.json").read_text())
        assert [error.message for error in VALIDATOR(schema).iter_errors(plan[name])] == []
