"""`training_arguments.json` and `ds_config.hf.json` in the Hugging Face trainer's own arguments."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from plans_by_hand import fsdp
from plans_by_hand import plan as made_by_hand
from random_plans import random_plans

from shardwise.launch import emit
from shardwise.launch.families import families
from shardwise.launch.fsdp.limits import compiled, replicas_of
from shardwise.launch.lint.keys import facts
from shardwise.plans import Plan

pytestmark = pytest.mark.clients

PLANS = [
    plan
    for plan in random_plans("transformers", 120, seed=3)
    if plan.strategy.backend == "deepspeed" and plan.strategy.precision != "fp16"
][:40]
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


FSDP_PLANS = [plan for plan in random_plans("transformers", 80, seed=4) if plan.strategy.backend == "fsdp"]
"""FSDP plans, whose arguments end up in a plugin of Accelerate."""


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets the variables that the launch script of a plan exports; those of the plan before go."""
    from shardwise.launch.transformers.variables import variables

    def export(plan: Plan) -> None:
        script = emit(plan, "transformers")["launch.sh"]
        for name in [
            name for name in os.environ if name.startswith(("FSDP_", "PARALLELISM_", "ACCELERATE_"))
        ]:
            monkeypatch.delenv(name)
        for name, value in variables(plan.strategy).items():
            assert f"export {name}={value}\n" in script
            monkeypatch.setenv(name, value)

    return export


def plugin_of(plan: Plan, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """(arguments, the plugin made of them as in `Trainer.create_accelerator_and_postprocess`)."""
    from accelerate.utils import FullyShardedDataParallelPlugin

    found = parsed(plan, folder, monkeypatch)
    plugin = FullyShardedDataParallelPlugin(**found.fsdp_plugin_args)
    if found.mixed_precision != "no":
        plugin.set_mixed_precision(found.mixed_precision)
    return found, plugin


def test_the_plugin_of_the_trainer_gets_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exported: Any
) -> None:
    """Resharding, wrapping, recomputation, offload and types of each of 40 FSDP plans, field by field."""
    import torch
    from accelerate.parallelism_config import ParallelismConfig
    from accelerate.utils import TorchDynamoPlugin

    assert len(FSDP_PLANS) == 40
    types = {"bf16": torch.bfloat16, "fp32": torch.float32}
    for plan in FSDP_PLANS:
        strategy = plan.strategy
        exported(plan)
        found, plugin = plugin_of(plan, tmp_path, monkeypatch)

        assert found.deepspeed is None and found.fsdp is True
        assert found.per_device_train_batch_size == strategy.micro_batch_size
        assert found.gradient_accumulation_steps == strategy.gradient_accumulation_steps
        assert plugin.fsdp_version == 2
        assert plugin.reshard_after_forward is (strategy.zero_stage == 3)
        assert plugin.transformer_cls_names_to_wrap == [families()[plan.request.model.family].layer_class]
        assert plugin.activation_checkpointing is (strategy.recompute == "full")
        assert found.activation_checkpointing is False
        offload = "CPUOffloadPolicy" if strategy.offload_params == "cpu" else "OffloadPolicy"
        assert type(plugin.cpu_offload).__name__ == offload
        assert plugin.cpu_ram_efficient_loading is True
        assert "SHARDED" in str(plugin.state_dict_type)
        policy = plugin.mixed_precision_policy
        if strategy.precision != "fp32":
            assert (policy.param_dtype, policy.reduce_dtype) == (
                types[strategy.precision], types[strategy.gradient_dtype],
            )  # fmt: skip
        mesh = ParallelismConfig()
        replicas, context = replicas_of(strategy), strategy.context_parallel
        several = replicas > 1 or context > 1
        assert (mesh.dp_replicate_size, mesh.cp_size) == (replicas, context)
        assert mesh.dp_shard_size == (strategy.shard_group_size // context if several else 1)
        if context > 1:
            rotation = {"ring": "alltoall", "all_gather": "allgather"}[strategy.context_parallel_kind]
            assert mesh.cp_handler.cp_comm_strategy == rotation
        dynamo = TorchDynamoPlugin(backend=found.torch_compile_backend, mode=found.torch_compile_mode)
        assert dynamo.use_regional_compilation is compiled(strategy)
        assert dynamo.backend.value.lower() == ("inductor" if compiled(strategy) else "no")
        kept = found.accelerator_config.gradient_accumulation_kwargs or {}
        assert kept.get("sync_each_batch", False) is (strategy.gradient_accumulation_steps > 1)


@pytest.mark.parametrize(
    ("optimizer", "kind", "options"),
    [
        ("adamw", "AdamW", {"fused": True, "betas": (0.9, 0.95)}),
        ("sgd", "SGD", {"momentum": 0.9}),
        ("sgd-no-momentum", "SGD", {}),
    ],
)
def test_the_trainer_makes_the_optimizer_of_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, optimizer: str, kind: str, options: dict[str, Any]
) -> None:
    """`optim` and `optim_args` through the trainer's own look-up; torchao, of 8-bit AdamW, is not here."""
    from transformers import Trainer

    made = made_by_hand(fsdp(3, 8, gradient_dtype="bf16"), optimizer=optimizer)
    found = parsed(made, tmp_path, monkeypatch)
    chosen, values = Trainer.get_optimizer_cls_and_kwargs(found)

    assert chosen.__name__ == kind
    assert {key: values.get(key) for key in options} == options
    assert ("momentum" in values) == (optimizer == "sgd")


def test_every_key_of_fsdp_config_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The trainer ignores unknown keys, so each is looked up in the code that reads the table."""
    import inspect

    from transformers import TrainingArguments

    code = inspect.getsource(TrainingArguments._process_fsdp_args)
    written = json.loads(emit(FSDP_PLANS[0], "transformers")["training_arguments.json"])["fsdp_config"]

    assert len(written) == 8 and all(f'"{key}"' in code for key in written)
    known = facts("transformers")
    assert all(f'"{key}"' in code for key in known["fsdp"])
    assert set(known["fsdp1"]) <= set(known["fsdp"])


def test_the_words_of_fsdp_are_the_trainer_s_own() -> None:
    """Those by which `lint` knows a slip."""
    from transformers.trainer_utils import FSDPOption

    assert {option.value for option in FSDPOption} == set(facts("transformers")["fsdp_words"])


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
        # of one process; the trainer's own; told by variables
        aside = {"train_batch_size", "steps_per_print", "sequence_parallel_size"}
        assert {k: v for k, v in filled.items() if k not in aside} == {
            k: v for k, v in own.items() if k not in aside
        }


def test_ranks_of_deepspeed_that_share_a_sequence_arrive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exported: Any
) -> None:
    """Accelerate reads them from its environment, and makes the batch of DeepSpeed's file from data ranks."""
    from accelerate.parallelism_config import ParallelismConfig

    plans = [plan for plan in PLANS if plan.strategy.context_parallel > 1]
    assert plans
    for plan in plans:
        strategy, filled = plan.strategy, parsed(plan, tmp_path, monkeypatch).hf_deepspeed_config.config
        exported(plan)
        mesh = ParallelismConfig()
        made = filled["train_micro_batch_size_per_gpu"] * filled["gradient_accumulation_steps"]

        assert (mesh.sp_size, mesh.sp_backend) == (strategy.context_parallel, "deepspeed")
        assert mesh.sp_handler.sp_attn_implementation == "sdpa"
        assert made * mesh.data_parallel_size == plan.request.training.global_batch_size


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
