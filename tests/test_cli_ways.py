"""The command line in every way of training: what it answers, what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shardwise.cli import main

WORDS = (
    "llama-3.2-1b", "--cluster", "dgx-a100-80gb", "--gpus", "2", "--global-batch-size", "8",
    "--sequence-length", "1024",
)  # fmt: skip


def told(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Standard output of a command that succeeds."""
    assert main(list(words)) == 0
    return capsys.readouterr().out


def test_a_plan_says_what_is_trained_and_what_is_frozen(capsys: pytest.CaptureFixture[str]) -> None:
    """One line; in JSON the bytes of a frozen weight, and the request as it was asked."""
    text = told(capsys, "plan", *WORDS, "--set", "trainable=lora(16)", "--set", "lora_targets=attention")
    assert "lora(16) on attention; frozen: 1.24e9" in " ".join(text.split())
    found = json.loads(told(capsys, "plan", *WORDS, "--set", "trainable=lora(16)", "--json"))
    assert found["request"]["training"]["trainable"] == "lora(16)"
    assert found["memory"]["bytes_per_parameter"]["frozen"] == 2.0
    assert found["memory"]["terms_bytes"]["frozen_weights"] > found["memory"]["terms_bytes"]["weights"]


def test_a_plan_of_adapters_is_checked_against_the_same_request(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """`check` of the plan it made fits and loses nothing."""
    path = tmp_path / "plan.json"
    path.write_text(told(capsys, "plan", *WORDS, "--set", "trainable=qlora(8)", "--json"), encoding="utf-8")
    found = json.loads(
        told(capsys, "check", *WORDS, "--set", "trainable=qlora(8)", "--plan", str(path), "--json")
    )
    assert found["verdict"] in ("fits", "risky") and found["breaches"] == []
    assert found["loss_percent"] == 0
    assert "in 4 bits" in told(capsys, "check", *WORDS, "--set", "trainable=qlora(8)", "--plan", str(path))


def test_what_no_backend_may_run_is_proved_and_cured(capsys: pytest.CaptureFixture[str]) -> None:
    """Megatron-LM trains every parameter: the reason, and the cure without that backend."""
    words = ["plan", *WORDS, "--set", "trainable=lora(8)", "--set", "backend=megatron", "--json"]
    assert main(words) == 1
    found = json.loads(capsys.readouterr().out)
    assert any("trains every parameter" in reason for reason in found["reasons"])
    assert any(cure["set"].startswith("choose.backend") for cure in found["cures"])


@pytest.mark.parametrize(
    ("setting", "field", "legal"),
    [
        ("trainable=lora(0)", "training.trainable", "lora(1)"),
        ("trainable=lora(x)", "training.trainable", "lora(16)"),
        ("trainable=2", "training.trainable", "all"),
        ("lora_targets=q_proj", "training.lora_targets", "lora(16)"),
        ("frozen=heads", "training.frozen", "head"),
        ("optimizer=adamw-4bit", "training.optimizer", "adamw-8bit"),
        ("mean_document_length=4096", "training.mean_document_length", "1024"),
        ("reference_model=lama", "training.reference_model", "self"),
    ],
)
def test_nonsense_is_one_line_with_legal_values(
    setting: str, field: str, legal: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, the dotted field, where it came from, the nearest legal values."""
    assert main(["plan", *WORDS, "--set", setting, "--json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["field"] == field and error["origin"] == f"--set {setting}"
    assert legal in error["legal"]


def test_a_target_the_model_lacks_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """Llama has no c_attn of its own name but q, k and v; "query" is nothing."""
    words = ["--set", "trainable=lora(8)", "--set", "lora_targets=o_porj", "--json"]
    assert main(["plan", *WORDS, *words]) == 2
    assert "o_proj" in json.loads(capsys.readouterr().out)["error"]["legal"]


def test_the_ledger_takes_the_recipes_that_plans_print(capsys: pytest.CaptureFixture[str]) -> None:
    """70e9 parameters with 8-bit moments and no master copy: 6.03 bytes, 422 GB under plain data parallel."""
    words = ["ledger", "70e9", "--gpus", "64", "--recipe", "zero-paper/adamw-8bit/no-master", "--json"]
    found = json.loads(told(capsys, *words))
    assert found["schemes"][0]["bytes_per_parameter"] == 6.03125
    assert found["schemes"][0]["bytes_per_card"] == round(6.03125 * 70e9)


JOB = ("llama-3.2-1b", "--global-batch-size", "64", "--sequence-length", "1024")


def test_cases_that_name_their_machines_need_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    """No --cluster where each case has a preset; cards stand in a column where they differ."""
    machines = ("--case", "preset=dgx-h100", "--case", "preset=gb200-nvl72")
    head = told(capsys, "compare", *JOB, *machines).splitlines()[0]
    alike = told(capsys, "compare", *JOB, "--vary", "preset=dgx-h100,dgx-a100-80gb").splitlines()[0]

    assert "cards" in head.split() and "cards" not in alike.split()
    assert main(["compare", *JOB, "--case", "preset=dgx-h100", "--case", "nodes=2"]) == 2


def test_files_of_another_job_are_told_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Written for adapters and judged for all parameters: the layout is as written, the job is not."""
    folder = str(tmp_path / "run")
    words = ("--set", "trainable=lora(8)", "--emit", "fsdp", "-o", folder)
    told(capsys, "plan", *WORDS, *words)

    def read(*more: str) -> str:
        main(["check", *WORDS, *more, "--config", f"{folder}/fsdp_plan.py"])
        return " ".join(capsys.readouterr().out.split())

    assert "made for another job (training.trainable lora(8), here all), as written" in read()
    assert "another job" not in read("--set", "trainable=lora(8)")
