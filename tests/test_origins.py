"""Errors say where a value stands and in the words it was written; what is offered can be pasted."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from shardwise.cli import main

JOB = """model = "llama-3.2-1b"
[cluster]
{cluster}
[training]
global_batch_size = 16
sequence_length = 1024
"""

POOLS = '[[cluster.pool]]\nmachine = "dgx-h100"\nnodes = 1\n[[cluster.pool]]\nmachine = "{}"\n{} = {}'


@pytest.mark.parametrize(
    ("cluster", "told"),
    [
        (POOLS.format("dgx-a100", "nodes", 1), "cluster.pool.1.machine = dgx-a100 (from job.toml:7)"),
        (POOLS.format("dgx-a100-80gb", "nodes", 0), "cluster.pool.1.nodes = 0 (from job.toml:8)"),
        (POOLS.format("dgx-a100-80gb", "nods", 1), "cluster.pool.1.nods = 1 (from job.toml:8)"),
        ('machine = "dgx-h100"\nfree = [[9, 6], [3]]', "cluster.free = [[9, 6], [3]] (from job.toml:4)"),
        ('machine = "dgx-h100"\nfree = true', "cluster.free = true (from job.toml:4)"),
        ('preset = "dgx-h100"\nnodes = [1, 2]', "cluster.nodes = [1, 2] (from job.toml:4)"),
    ],
)
def test_a_value_of_the_cluster_is_told_with_its_line(
    cluster: str,
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of several pools the one it stands in, by its number from 0; no table of ours is printed for it."""
    monkeypatch.chdir(tmp_path)
    Path("job.toml").write_text(JOB.format(cluster=cluster), encoding="utf-8")

    assert main(["plan", "job.toml"]) == 2
    assert f"error: {told}: " in capsys.readouterr().err


JSON_JOB = """{"model": "llama-3.2-1b",
 "cluster": {"pool": [
  {"machine": "dgx-h100", "nodes": 1},
  {%s}]},
 "training": {"global_batch_size": 16,
  "sequence_length": 1024}}
"""


@pytest.mark.parametrize(
    ("pool", "told"),
    [
        ('"machine": "dgx-a100-80gb",\n   "nodes": 0', "cluster.pool.1.nodes = 0 (from job.json:5)"),
        ('"machine": "dgx-a100",\n   "nodes": 1', "cluster.pool.1.machine = dgx-a100 (from job.json:4)"),
        ('"nodes": 1,\n   "nics_per_node": 1', "cluster.pool.1.gpu = nothing (from job.json:4)"),
    ],
)
def test_a_value_of_a_pool_in_json_is_told_with_its_line(
    pool: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in TOML; what a pool lacks is told with the pool's own first line, and what to write there."""
    monkeypatch.chdir(tmp_path)
    Path("job.json").write_text(JSON_JOB % pool, encoding="utf-8")

    assert main(["plan", "job.json"]) == 2
    assert f"error: {told}: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("cluster", "told"),
    [
        ('machine = "dgx-h100"\nnodes = 0', "cluster.nodes = 0 (from lab.toml:2)"),
        ('machine = "dgx-h100"\n[measured_bus_gb_per_s]\nnvlink = 4', ".nvlink = 4 (from lab.toml:3)"),
        ('machine = "dgx-h100"\ntopology = "no.txt"', "cluster.topology = no.txt (from lab.toml:2)"),
        ('machine = "dgx-h100"\nlink = "pairs"', "cluster.nics_per_node = 0 (from --set nics_per_node=0)"),
    ],
)
def test_a_value_of_a_cluster_file_is_told_with_its_line(
    cluster: str,
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its own line there, wherever the file is named; a setting over the file is told as the setting."""
    monkeypatch.chdir(tmp_path)
    Path("lab.toml").write_text(cluster, encoding="utf-8")
    Path("job.toml").write_text(JOB.format(cluster='file = "lab.toml"'), encoding="utf-8")
    words = ["--set", "nics_per_node=0"] if "--set" in told else []

    assert main(["plan", "job.toml", *words]) == 2
    assert f"{told}: " in capsys.readouterr().err


def test_a_value_of_a_stage_is_told_with_its_number_and_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tables of a list count from 0, in a strategy as in a request."""
    monkeypatch.chdir(tmp_path)
    Path("job.toml").write_text(JOB.format(cluster='preset = "dgx-h100"'), encoding="utf-8")
    stages = '[{"layers": 8},\n {"layers": -1}]'
    text = f'{{"backend": "megatron", "pipeline_parallel": 2, "stages": {stages}}}'
    Path("mine.json").write_text(text, encoding="utf-8")

    assert main(["check", "job.toml", "--strategy", "mine.json"]) == 2
    assert "strategy.stages.1.layers = -1 (from mine.json:2): " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            '{"model_type": "llama",\n "hidden_size: 64}',
            "is not JSON: Unterminated string (at line 2, column 2)",
        ),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "is a pointer of Git LFS"),
        ("<!DOCTYPE html><html></html>", "is a web page"),
    ],
)
def test_a_model_file_that_is_none_says_what_it_is(
    text: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The place where JSON ends; pointers and web pages, as downloads leave them, by their names."""
    monkeypatch.chdir(tmp_path)
    Path("config.json").write_text(text, encoding="utf-8")
    words = ["--cluster", "dgx-h100", "--global-batch-size", "16", "--sequence-length", "1024"]

    assert main(["plan", "./config.json", *words]) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["compare", "--case", "gpus=16,nodes=4"],
            "cluster.gpus = 16 (from case gpus=16,nodes=4): contradicts",
        ),
        (["compare", "--vary", "nodez=1,2"], "--vary = nodez (from --vary): is no field"),
        (["curve", "--gpus", "8..64:0"], "gpus = 8..64:0 (from --gpus): must be counts"),
        (["plan", "--set", "gpus=12"], "cluster.gpus = 12 (from --set gpus=12): must be whole nodes"),
    ],
)
def test_what_contradicts_itself_is_refused(
    words: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One thing said twice in a case, a step of nothing: no answer stands for a question nobody asked."""
    job = tmp_path / "job.toml"
    job.write_text(JOB.format(cluster='preset = "dgx-h100"'), encoding="utf-8")

    assert main([words[0], str(job), *words[1:]]) == 2
    assert f"error: {told}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("lora_targets=q_proj", 'training.lora_targets = ["q_proj"]'),
        ("tensor_parallel=[true, 2]", "choose.tensor_parallel = true"),
        ("max_step_seconds=true", "limits.max_step_seconds = true"),
    ],
)
def test_values_are_told_as_files_have_them(
    setting: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lists, truth and nothing in the words of TOML and JSON, never in those of Python."""
    (tmp_path / "job.toml").write_text(JOB.format(cluster='preset = "dgx-h100"'), encoding="utf-8")

    assert main(["plan", str(tmp_path / "job.toml"), "--set", setting]) == 2
    assert capsys.readouterr().err.startswith(f"error: {told} (from --set {setting}): ")


def test_a_setting_over_a_strategy_names_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What fills a blank of the file stands where it was set, what the file says in the file."""
    monkeypatch.chdir(tmp_path)
    Path("job.toml").write_text(JOB.format(cluster='preset = "dgx-h100"'), encoding="utf-8")
    Path("s.json").write_text('{"backend": "fsdp"}', encoding="utf-8")
    words = ["check", "job.toml", "--strategy", "s.json", "--set", "micro_batch_size=5"]
    assert main(words) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: strategy.micro_batch_size = 5 (from --set micro_batch_size=5): ")
    assert told.endswith("legal: 2, 1\n")
    Path("s.json").write_text('{"backend": "fsdp",\n "micro_batch_size": 5}', encoding="utf-8")
    assert main(words[:4]) == 2
    assert "strategy.micro_batch_size = 5 (from s.json:2)" in capsys.readouterr().err


def test_a_forced_value_names_the_word_that_forced_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As it stands on the command line."""
    monkeypatch.chdir(tmp_path)
    Path("job.toml").write_text(JOB.format(cluster='preset = "dgx-h100"'), encoding="utf-8")
    assert main(["plan", "job.toml", "-q", "-o", "plan.json"]) == 0
    capsys.readouterr()

    assert main(["why", "plan.json", "total_tokens=many"]) == 2
    assert "training.total_tokens = many (from KEY=VALUE total_tokens=many): " in capsys.readouterr().err


def test_what_is_hinted_can_be_pasted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Offers and next commands of a plan whose paths have blanks, split as a shell does, run."""
    monkeypatch.chdir(tmp_path)
    Path("my job.toml").write_text(JOB.format(cluster='preset = "dgx-h100"'), encoding="utf-8")
    assert main(["plan", "my job.toml", "-o", "the plan.json"]) == 0
    told = capsys.readouterr().err
    offers = re.findall(r"^hint: --set (.*) would pay", told, re.MULTILINE)
    commands = re.findall(r"shardwise (emit .*)$", told, re.MULTILINE)
    assert offers and commands
    for offer in offers:
        (word,) = shlex.split(offer)
        assert main(["plan", "my job.toml", "--set", word, "-q"]) == 0
    for command in commands:
        assert main(shlex.split(command)) == 0
    plan = json.loads(Path("the plan.json").read_text(encoding="utf-8"))
    plan["request"]["training"]["sequence_length"] = 512
    Path("the plan.json").write_text(json.dumps(plan), encoding="utf-8")
    capsys.readouterr()
    assert main(["emit", "the plan.json", "--to", plan["writable_by"][0], "-o", "again"]) == 0
    (command,) = re.findall(r"shardwise (check .*)$", capsys.readouterr().err, re.MULTILINE)
    assert main(shlex.split(command.replace("REQUEST", "'my job.toml'"))) == 0


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("nodes = -1", "cluster.nodes = -1 (from job.toml:8): must be at least 1"),
        ("zero_stage = 7", "choose.zero_stage = 7 (from job.toml:8): must be at most 3"),
        ("nodez = 1", "key = nodez (from job.toml:8): is no field of a request; legal: nodes"),
    ],
)
def test_a_value_of_a_case_is_told_with_its_line(
    line: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A case of a request file stands there, as everything else of it does."""
    monkeypatch.chdir(tmp_path)
    job = JOB.format(cluster='preset = "dgx-h100"')
    Path("job.toml").write_text(f"{job}[cases.small]\n{line}\n[cases.big]\nnodes = 2\n", encoding="utf-8")

    assert main(["compare", "job.toml"]) == 2
    assert f"error: {told}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("told", "values"),
    [
        ("training.frozen = atention (from job.toml:9): ", ("atention", "2", "data_parallel > 0")),
        ("choose.tensor_parallel = 0 (from job.toml:12): ", ("head", "0", "data_parallel > 0")),
        ("choose.tensor_parallel = x (from job.toml:12): ", ("head", '"x"', "data_parallel > 0")),
        ("choose.rules = data_paralel > 0 (from job.toml:16): ", ("head", "2", "data_paralel > 0")),
    ],
)
def test_a_value_in_a_list_is_told_with_its_own_line(
    told: str,
    values: tuple[str, str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Not with that of the key; a setting over the file is told as the setting."""
    monkeypatch.chdir(tmp_path)
    frozen, degree, rule = values
    job = JOB.format(cluster='preset = "dgx-h100"').rstrip()
    job += f'\nfrozen = ["attention",\n  # the head too\n  "{frozen}"]\n'
    job += f"[choose]\ntensor_parallel = [\n  1, {degree}]\n"
    job += f'rules = [\n  "tensor_parallel < 16",\n\n  "{rule}",\n]\n'
    Path("job.toml").write_text(job, encoding="utf-8")

    assert main(["plan", "job.toml"]) == 2
    assert f"error: {told}" in capsys.readouterr().err
    assert main(["plan", "job.toml", "--set", "tensor_parallel=[1, 0]"]) == 2
    error = capsys.readouterr().err
    assert "tensor_parallel = 0 (from --set tensor_parallel=[1, 0]): " in error or "frozen" in error
