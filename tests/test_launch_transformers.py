"""`training_arguments.json` of FSDP plans: what is written, refused, and read of other people's arguments."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from plans_by_hand import deepspeed, fsdp, megatron, plan, stage, tiny
from pydantic import ValidationError

from shardwise.inputs import InputError
from shardwise.launch import Refused, emit, refusal
from shardwise.launch.documents import documents
from shardwise.launch.read import read_config
from shardwise.launch.transformers.schema import TrainerFile
from shardwise.launch.transformers.write import arguments
from shardwise.models import Strategy

BF16: dict[str, Any] = {"gradient_dtype": "bf16"}
GOOD = fsdp(3, 16, shard_group_size=8, gradient_accumulation_steps=2, **BF16)


def test_the_schema_reads_what_is_written() -> None:
    """The text holds the arguments, no more and no less, and no second file."""
    files = emit(plan(GOOD), "transformers")

    assert TrainerFile.model_validate(json.loads(files["training_arguments.json"])) == arguments(plan(GOOD))
    assert not [name for name in files if name.startswith("ds_config")]


WRONG: dict[str, dict[str, Any]] = {
    "an unknown key in the section": {"fsdp_config": {"reshard": True}},
    "FSDP 1": {"fsdp_config": {"version": 1}},
    "the older spelling": {"fsdp": "full_shard auto_wrap"},
    "a switch in quotes": {"fsdp_config": {"cpu_offload": "false"}},
    "DeepSpeed too": {"deepspeed": "ds_config.json"},
    "no engine": {"fsdp": None, "fsdp_config": None, "optim": None},
    "recomputed by the model too": {"gradient_checkpointing": True},
    "no optimizer": {"optim": None},
    "a momentum of AdamW": {"optim_args": "momentum=0.9"},
    "an optimizer that does not shard": {"optim": "adamw_8bit"},
    "two precisions": {"fp16": True},
}


@pytest.mark.parametrize("name", WRONG)
def test_the_schema_refuses_what_the_client_lets_pass(name: str) -> None:
    """One change to a good file, and the schema refuses it."""
    good = arguments(plan(GOOD)).model_dump(exclude_none=True)
    TrainerFile.model_validate(good)
    changed = {**good, **WRONG[name]}
    if isinstance(changed["fsdp_config"], dict):
        changed["fsdp_config"] = {**good["fsdp_config"], **changed["fsdp_config"]}

    with pytest.raises(ValidationError):
        TrainerFile.model_validate(changed)


@pytest.mark.parametrize(
    ("strategy", "field"),
    [
        (fsdp(3, 4, tensor_parallel=2, **BF16), "tensor_parallel"),
        (fsdp(3, 8), "gradient_dtype"),
        (fsdp(3, 8, stages=stage(recompute_full_layers=1), **BF16), "recompute_full_layers"),
        (fsdp(3, 8, stages=stage(recompute_selective_layers=4), **BF16), "recompute_selective_layers"),
        (fsdp(3, 8, loss_kernel="compiled", **BF16), "loss_kernel"),
        (megatron(1, 8), "backend"),
    ],
)
def test_what_the_arguments_cannot_say_is_refused(strategy: Strategy, field: str) -> None:
    """With the choice at fault."""
    objection = refusal(strategy, tiny(), "transformers")

    assert objection is not None and objection.field == field


@pytest.mark.parametrize(
    ("job", "field"),
    [({"optimizer": "lion"}, "training.optimizer"), ({"master_weights": False}, "training.master_weights")],
)
def test_a_job_that_the_trainer_cannot_run_is_refused(job: dict[str, Any], field: str) -> None:
    """The refusal names the backend of the plan, not the other one of the target."""
    with pytest.raises(Refused) as caught:
        emit(plan(fsdp(3, 8, **BF16), **job), "transformers")

    assert (caught.value.field, caught.value.backend) == (field, "fsdp")


@pytest.mark.parametrize(
    ("optimizer", "named"),
    [("adamw-8bit", "adamw_torch_8bit"), ("sgd-no-momentum", "sgd"), ("adamw", "adamw_torch_fused")],
)
def test_optim_names_the_optimizer(optimizer: str, named: str) -> None:
    """An optimizer that steps shards; under DeepSpeed its own file names it."""
    assert arguments(plan(fsdp(3, 8, **BF16), optimizer=optimizer)).optim == named
    assert arguments(plan(deepspeed(3, 8))).optim is None


@pytest.mark.parametrize(("loss", "liger"), [("chunked", True), ("hf-eager", False), ("eager", False)])
def test_liger_s_loss_and_the_model_s_own_are_written(loss: str, liger: bool) -> None:
    """Only a loss that Transformers no longer have needs a word in the README."""
    made = plan(fsdp(3, 8, loss_kernel=loss, **BF16))

    assert arguments(made).use_liger_kernel is liger
    assert ("until 4.48" in emit(made, "transformers")["README.md"]) == (loss == "hf-eager")


def test_gradients_are_reduced_after_each_micro_batch_unless_the_job_says_otherwise() -> None:
    """The trainer keeps whole gradients until told."""
    assert arguments(plan(GOOD)).accelerator_config is not None
    assert arguments(plan(GOOD, sync_each_batch=False)).accelerator_config is None


ARGUMENTS = {"output_dir": "o", "bf16": True, "per_device_train_batch_size": 2}
SHARED = {"micro_batch_size": 2, "gradient_dtype": "bf16", "loss_kernel": "eager"}


@pytest.mark.parametrize(
    ("given", "stage3", "changes"),
    [
        ({"fsdp": True}, 3, {}),
        ({"fsdp": "full_shard auto_wrap"}, 3, {}),
        ({"fsdp": ["shard_grad_op", "auto_wrap"]}, 2, {}),
        ({"fsdp": True, "fsdp_config": {"fsdp_reshard_after_forward": "false"}}, 2, {}),
        ({"fsdp": "hybrid_shard", "fsdp_config": {"version": 1}}, 3, {"shard_group_size": 8}),
        ({"fsdp": True, "fsdp_config": {"activation_checkpointing": True}}, 3, {"recompute": "full"}),
        ({"fsdp": True, "activation_checkpointing": True}, 3, {"recompute": "full"}),
        ({"fsdp": True, "use_liger_kernel": True}, 3, {"loss_kernel": "chunked"}),
        ({"fsdp": True, "torch_compile": True}, 3, {"software_stack": "fsdp-compile-2024"}),
        ({"fsdp": "full_shard offload"}, 3, {"offload_params": "cpu", "offload_optimizer": "cpu"}),
    ],
)
def test_arguments_of_others_are_read(
    tmp_path: Path, given: dict[str, Any], stage3: int, changes: dict[str, Any]
) -> None:
    """Both spellings of `fsdp`, both versions of FSDP, both names of recomputation."""
    path = tmp_path / "args.json"
    path.write_text(json.dumps(ARGUMENTS | given), encoding="utf-8")
    asked = plan(fsdp(stage3, 16, micro_batch_size=2)).request

    read = read_config(documents([str(path)]), asked)
    found = {**read.strategy.row(), "recompute": read.strategy.recompute}

    assert read.client == "transformers"
    assert found["zero_stage"] == stage3
    assert {name: found[name] for name in SHARED | changes} == SHARED | changes


def test_a_command_line_with_a_file_of_its_own_is_read(tmp_path: Path) -> None:
    """`--fsdp_config FILE` beside the script, and the world of torchrun."""
    line = (
        "torchrun --nproc_per_node 8 t.py --output_dir o --bf16 --per_device_train_batch_size 1 --fsdp \\\n"
    )
    (tmp_path / "run.sh").write_text(f"{line} 'full_shard' --fsdp_config f.json", encoding="utf-8")
    (tmp_path / "f.json").write_text('{"cpu_offload": true}', encoding="utf-8")

    found = read_config(documents([str(tmp_path / "run.sh")]), plan(fsdp(3, 8)).request).strategy

    assert (found.data_parallel, found.zero_stage, found.offload_params) == (8, 3, "cpu")


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"fsdp": "no_shard"}, "fsdp"),
        ({"fsdp": True, "fsdp_config": {"version": 3}}, "fsdp_config.version"),
        (
            {"fsdp": True, "fsdp_config": {"reshard_after_forward": "often"}},
            "fsdp_config.reshard_after_forward",
        ),
        ({"fsdp": True, "fsdp_config": 3}, "fsdp_config"),
        ({"fsdp": True, "fsdp_config": "{"}, "fsdp_config"),
        ({"fsdp": True, "fp16": True}, "fp16"),
        ({"fsdp": False}, "config"),
    ],
)
def test_what_is_not_priced_is_told_with_its_field(tmp_path: Path, given: dict[str, Any], field: str) -> None:
    """One error, with the place."""
    path = tmp_path / "args.json"
    path.write_text(json.dumps(ARGUMENTS | given), encoding="utf-8")

    with pytest.raises(InputError) as caught:
        read_config(documents([str(path)]), plan(fsdp(3, 16, micro_batch_size=2)).request)

    assert caught.value.field == field
