"""What a refusal offers can be pasted behind the command that was refused, and gives what was promised."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from shardwise.cli import main

JOB = ("--global-batch-size", "64", "--sequence-length", "4096")

UNTOLD = """
model = "llama-3.1-70b"
[cluster]
gpus_per_node = 8
gpu = "A100-SXM-80GB"
[training]
global_batch_size = 64
sequence_length = 4096
[choose]
offload_optimizer = "none"
"""

REFUSED = {
    "a network nobody told": ("untold.toml",),
    "states too large for a target that never offloads": (
        "llama-3.1-70b", "--cluster", "dgx-a100-80gb", *JOB, "--emit", "torchtitan",
    ),
    "one of the ways of a target": (
        "llama-3.1-8b", "--cluster", "ws-8x-rtx-4090", *JOB, "--emit", "accelerate",
    ),
    "arithmetic no file of the target says": (
        "llama-3.1-8b", "--cluster", "dgx-h100", *JOB, "--set", "precision=fp8", "--emit", "deepspeed",
    ),
    "part of a machine": (
        "llama-3.1-8b", "--cluster", "dgx-h100", "--gpus", "1", *JOB, "--set", "offload_optimizer=none",
        "--emit", "transformers",
    ),
    "host memory said by hand": (
        "yi-34b", "--cluster", "dgx-a100-40gb", *JOB, "--set", "host_memory_bytes=300GB",
    ),
    "rules against each other": (
        "llama-3.1-8b", "--cluster", "dgx-h100", *JOB,
        "--set", 'rules=["tensor_parallel >= 4", "tensor_parallel * 2 <= 4"]',
    ),
    "the fewest cards in time": (
        "llama-3.1-8b", "--cluster", "dgx-h100", *JOB, "--set", "minimize=gpus,max_step_seconds=2",
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", REFUSED)
def test_every_cure_can_be_pasted(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same words with a cure behind them end with 0, the promised step and verdict, and launch files."""
    (tmp_path / "untold.toml").write_text(UNTOLD)
    monkeypatch.chdir(tmp_path)
    words = ["plan", *REFUSED[name]]

    assert main([*words, "--json"]) == 1
    cures = json.loads(capsys.readouterr().out)["cures"]
    assert cures
    for cure in cures:
        assert main([*words, "--set", cure["set"], "--json"]) == 0, cure["set"]
        plan = json.loads(capsys.readouterr().out)
        verdicts = (plan["memory"]["verdict"], plan["memory"]["host_verdict"])
        assert plan["time"]["step_seconds"] == cure["resulting_step_seconds"], cure["set"]
        assert cure["verdict"] == ("risky" if "risky" in verdicts else "fits")


def test_what_is_printed_is_one_word_of_a_shell(capsys: pytest.CaptureFixture[str]) -> None:
    """Rules stand in quotes inside quotes: what a shell makes of the line is the setting itself."""
    words = ["plan", *REFUSED["rules against each other"]]

    assert main(words) == 1
    offered = [line for line in capsys.readouterr().err.splitlines() if line.startswith("  --set ")]
    assert main([*words, "--json"]) == 1
    cures = json.loads(capsys.readouterr().out)["cures"]
    assert [shlex.split(line) for line in offered] == [["--set", cure["set"]] for cure in cures]


def test_a_network_is_said_where_several_machines_need_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The cure names the network it was solved with: the slow one that stands for what nobody told."""
    asked = tmp_path / "untold.toml"
    asked.write_text(UNTOLD)

    assert main(["plan", str(asked), "--json"]) == 1
    (cure,) = json.loads(capsys.readouterr().out)["cures"]
    assert cure["set"].endswith("cluster.nic_gbit_per_s=10,cluster.nics_per_node=1")
    assert main(["plan", str(asked), "--set", cure["set"].partition(",")[0], "--json"]) == 2


@pytest.mark.parametrize("words", [("plan", "--gpus", "16"), ("curve", "--gpus", "8,16")])
def test_more_cards_than_a_machine_has_ask_for_a_network(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Counted in cards or in machines, several machines need a network that somebody told."""
    asked = tmp_path / "untold.toml"
    asked.write_text(UNTOLD)
    command, *flags = words

    assert main([command, str(asked), *flags, "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["field"] == "cluster.nic_gbit_per_s"


def test_a_part_of_a_machine_grows_before_machines_are_added(capsys: pytest.CaptureFixture[str]) -> None:
    """The fewest cards of the one machine that hold the job, not all of them."""
    words = ["plan", "llama-3.1-70b", "--cluster", "dgx-a100-40gb", "--gpus", "1", "--json"]
    words += ["--global-batch-size", "16", "--sequence-length", "2048", "--set", "trainable=qlora(16)"]
    words += ["--set", "offload_optimizer=none", "--set", "offload_params=none"]
    assert main(words) == 1
    (cure,) = json.loads(capsys.readouterr().out)["cures"]

    assert (cure["set"], cure["new_gpus"]) == ("cluster.gpus=4", 3)
    assert main([*words, "--set", cure["set"]]) == 0
    assert main([*words, "--set", "cluster.gpus=2"]) == 1


@pytest.mark.slow
def test_knobs_are_freed_together_where_no_fewer_are_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Told are those whose value changes: tensor parallel stays as it was."""
    monkeypatch.chdir(tmp_path)
    pools = "".join(
        f'[[cluster.pool]]\nmachine = "{name}"\nnodes = 1\n' for name in ("dgx-h100", "dgx-a100-80gb")
    )
    job = "[training]\nglobal_batch_size = 64\nsequence_length = 32768\n"
    knobs = 'recompute = "none"\noffload_optimizer = "none"\npipeline_parallel = 2\ntensor_parallel = 1\n'
    Path("pools.toml").write_text(f'model = "llama-3.1-70b"\n{pools}{job}[choose]\n{knobs}', encoding="utf-8")
    assert main(["plan", "pools.toml", "--json"]) == 1
    (cure,) = json.loads(capsys.readouterr().out)["cures"]

    assert {one.partition("=")[0] for one in cure["set"].split(",")} == {
        "choose.recompute", "choose.offload_optimizer", "choose.pipeline_parallel",
    }  # fmt: skip
    assert main(["plan", "pools.toml", "-q", "--set", cure["set"]]) == 0
