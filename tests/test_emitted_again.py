"""What was emitted checks back to the plan it came from, on free cards and on pools too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shardwise.cli import main

JOB = 'model = "llama-3.1-8b"\n[training]\nglobal_batch_size = 64\nsequence_length = 4096\n'

CLUSTERS = {
    "free": '[cluster]\nmachine = "dgx-a100-80gb"\nfree = [[8, 6], [3]]\n',
    "pools": "".join(
        f'[[cluster.pool]]\nmachine = "{name}"\nnodes = 2\n' for name in ("dgx-h100", "dgx-a100-80gb")
    ),
    "one pool": "".join(
        f'[[cluster.pool]]\nmachine = "{name}"\nnodes = {nodes}\n'
        for name, nodes in (("dgx-h100", 4), ("dgx-a100-40gb", 1))
    ),
}


@pytest.mark.parametrize("target", ["megatron", "fsdp"])
@pytest.mark.parametrize("name", CLUSTERS)
def test_an_emitted_folder_checks_back_to_its_plan(
    name: str, target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same strategy and step, of the same job, with nothing edited: by its files, and by its plan."""
    (tmp_path / "job.toml").write_text(JOB + CLUSTERS[name], encoding="utf-8")
    job, folder = str(tmp_path / "job.toml"), str(tmp_path / "out")
    assert main(["plan", job, "--emit", target, "-o", folder, "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    for given in (["--config", folder], ["--plan", f"{folder}/plan.json"]):
        assert main(["check", job, *given, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        differ = {key for key, value in found["strategy"].items() if value != made["strategy"].get(key)}
        assert differ <= {"placement", "writable_by"}
        assert found["time"]["step_seconds"] == made["time"]["step_seconds"]
        if found["files"]:
            told = {key: found["files"][key] for key in ("edited_files", "edited", "other_job")}
            assert told == {"edited_files": [], "edited": [], "other_job": []}


def test_files_without_their_plan_lie_where_they_are_fastest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a plan.json stages stand on pools in the order of machines that is fastest."""
    (tmp_path / "job.toml").write_text(JOB + CLUSTERS["pools"], encoding="utf-8")
    job, folder = str(tmp_path / "job.toml"), tmp_path / "out"
    assert main(["plan", job, "--emit", "megatron", "-o", str(folder), "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    (folder / "plan.json").unlink()

    assert main(["check", job, "--config", str(folder), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["time"]["step_seconds"] <= made["time"]["step_seconds"]


def test_files_for_cards_that_are_not_there_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of two pools of 16 cards files for 12 take neither, and the message says what could be."""
    (tmp_path / "job.toml").write_text(JOB + CLUSTERS["pools"], encoding="utf-8")
    (tmp_path / "mine.json").write_text(
        json.dumps({"backend": "megatron", "data_parallel": 4, "pipeline_parallel": 2}), encoding="utf-8"
    )
    assert main(["check", str(tmp_path / "job.toml"), "--strategy", str(tmp_path / "mine.json")]) == 2
    told = capsys.readouterr().err
    assert "no pools of the cluster (16 of dgx-h100, 16 of dgx-a100-80gb) make up 2 stages of 4 cards" in told
    assert "legal: 32, 16" in told
