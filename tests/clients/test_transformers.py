"""`training_arguments.json` and `ds_config.hf.json` in the Hugging Face trainer's own arguments."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from random_plans import random_plans

from shardwise.launch import emit
from shardwise.launch.lint.keys import facts
from shardwise.plans import Plan

pytestmark = pytest.mark.clients

PLANS = [plan for plan in random_plans("transformers", 60, seed=3) if plan.strategy.precision != "fp16"][:40]
"""Plans that the trainer takes on a CPU, which has no float16."""


def parsed(plan: Plan, folder: Path, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> Any:
    """`TrainingArguments` of the emitted files, as a script with `HfArgumentParser` gets them, on a CPU."""
    from transformers import HfArgumentParser, TrainingArguments

    for name, text in emit(plan, "transformers").items():
        (folder / name).write_text(text, encoding="utf-8")
    path = folder / "training_arguments.json"
    values = json.loads(path.read_text(encoding="utf-8")) | {"use_cpu": True, **changes}
    path.write_text(json.dumps(values), encoding="utf-8")
    monkeypatch.chdir(folder)
    (found,) = HfArgumentParser(TrainingArguments).parse_json_file(path.name)
    return found


def test_the_trainer_fills_in_what_the_plan_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After its pass over the DeepSpeed file no shared key is auto, and all are the numbers of the plan."""
    for plan in PLANS:
        strategy = plan.strategy
        found = parsed(plan, tmp_path, monkeypatch)
        filled = found.hf_deepspeed_config.config
        own = json.loads(emit(plan, "deepspeed")["ds_config.json"])

        assert found.per_device_train_batch_size == strategy.micro_batch_size
        assert found.gradient_accumulation_steps == strategy.gradient_accumulation_steps
        assert found.gradient_checkpointing == (strategy.recompute == "full")
        assert found.use_liger_kernel == (strategy.loss_kernel == "chunked")
        assert '"auto"' not in json.dumps(filled)
        assert found.hf_deepspeed_config.mismatches == []
        aside = {"train_batch_size", "steps_per_print"}  # of one process; the trainer's own
        assert {k: v for k, v in filled.items() if k not in aside} == {
            k: v for k, v in own.items() if k not in aside
        }


def test_a_number_that_contradicts_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The trainer keeps a list of mismatches: with another micro-batch than the number it is not empty."""
    plan = next(plan for plan in PLANS if plan.strategy.micro_batch_size == 1)
    config = json.loads(emit(plan, "deepspeed")["ds_config.json"])
    found = parsed(plan, tmp_path, monkeypatch, deepspeed=config, per_device_train_batch_size=2)

    assert any("train_micro_batch_size_per_gpu" in each for each in found.hf_deepspeed_config.mismatches)


def test_our_table_of_its_fields_is_its_own() -> None:
    """Names by which `lint` knows a slip, and the keys that the trainer fills in."""
    from dataclasses import fields

    from transformers import TrainingArguments

    assert {field.name for field in fields(TrainingArguments)} <= set(facts("transformers")["names"])


def test_our_table_of_deepspeed_s_keys_is_its_own() -> None:
    """Every field of DeepSpeed's own tables stands in ours, so that `lint` calls none of them unknown."""
    from deepspeed.runtime.precision_config import DeepSpeedBF16Config, DeepSpeedFP16Config
    from deepspeed.runtime.zero.config import DeepSpeedZeroConfig
    from deepspeed.runtime.zero.offload_config import (
        DeepSpeedZeroOffloadOptimizerConfig,
        DeepSpeedZeroOffloadParamConfig,
    )

    keys = facts("deepspeed")["keys"]
    zero = keys["zero_optimization"]
    for kind, table in (
        (DeepSpeedZeroConfig, zero),
        (DeepSpeedZeroOffloadOptimizerConfig, zero["offload_optimizer"]),
        (DeepSpeedZeroOffloadParamConfig, zero["offload_param"]),
        (DeepSpeedBF16Config, keys["bf16"]),
        (DeepSpeedFP16Config, keys["fp16"]),
    ):
        assert {field.alias or name for name, field in kind.model_fields.items()} <= set(table), kind


def test_our_table_of_accelerate_s_keys_is_its_own() -> None:
    """Options of `accelerate launch` that begin with a table's word stand in that table."""
    from accelerate.commands.launch import launch_command_parser

    options = {action.dest for action in launch_command_parser()._actions}
    keys = facts("accelerate")["keys"]
    for word in ("fsdp", "parallelism_config", "dynamo"):
        table = {"dynamo": "dynamo_config", "fsdp": "fsdp_config"}.get(word, word)
        named = {option for option in options if option.startswith(f"{word}_")}
        assert named and named <= set(keys[table])
