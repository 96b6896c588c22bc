"""`ds_config.json`: what is written, and what its schema refuses that DeepSpeed lets pass."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from plans_by_hand import deepspeed, plan, stage, tiny
from pydantic import ValidationError

from shardwise.launch import emit, refusal
from shardwise.launch.deepspeed.schema import DsConfig
from shardwise.launch.refused import Refused


def written(zero_stage: int = 3, **changes: Any) -> dict[str, Any]:
    """The file of a plan over eight ranks, read back."""
    made = plan(deepspeed(zero_stage, 8, **changes))
    return dict(json.loads(emit(made, "deepspeed")["ds_config.json"]))


def changed(config: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """`config` with the value at the dotted `path` replaced, or removed for None."""
    found = copy.deepcopy(config)
    *parents, last = path.split(".")
    at = found
    for key in parents:
        at = at.setdefault(key, {})
    if value is None:
        del at[last]
    else:
        at[last] = value
    return found


@pytest.mark.parametrize("zero_stage", range(4))
def test_the_batch_sizes_multiply_to_the_data_parallel_world(zero_stage: int) -> None:
    """All three of the triad are stated, so that no client fills one in."""
    config = written(zero_stage, micro_batch_size=2, gradient_accumulation_steps=3)

    assert config["train_micro_batch_size_per_gpu"] == 2
    assert config["gradient_accumulation_steps"] == 3
    assert config["train_batch_size"] == 2 * 3 * 8


@pytest.mark.parametrize("zero_stage", range(4))
def test_the_schema_reads_what_is_written(zero_stage: int) -> None:
    """Written and read back strictly, nothing changes."""
    config = written(zero_stage)

    assert DsConfig.model_validate(config).model_dump(exclude_none=True) == config
    assert DsConfig.model_validate(config).world == 8


def test_buckets_are_those_the_ledger_priced() -> None:
    """Each bucket of the plan stands at its stage under DeepSpeed's key; without ZeRO there is none."""
    sharded = written(3)["zero_optimization"]
    partial = written(2)["zero_optimization"]

    assert sharded["reduce_bucket_size"] == partial["reduce_bucket_size"] == 50_000
    assert sharded["stage3_prefetch_bucket_size"] == 7_000
    assert sharded["stage3_max_live_parameters"] == sharded["stage3_max_reuse_distance"] == 100_000
    assert sharded["stage3_param_persistence_threshold"] == 80
    assert sharded["sub_group_size"] == 90_000
    assert partial["allgather_bucket_size"] == 60_000
    assert written(0)["zero_optimization"] == {"stage": 0}


@pytest.mark.parametrize(
    ("precision", "gradients", "block"),
    [("bf16", "bf16", "bf16"), ("bf16", "fp32", "bf16"), ("fp16", "fp16", "fp16"), ("fp32", "fp32", None)],
)
def test_one_precision_block_at_most(precision: str, gradients: str, block: str | None) -> None:
    """The block of the precision, and the type of accumulation where it is float32."""
    config = written(2, precision=precision, gradient_dtype=gradients)

    assert [name for name in ("bf16", "fp16") if name in config] == ([block] if block else [])
    assert ("data_types" in config) == (gradients == "fp32")


def test_offload_is_pinned_host_memory() -> None:
    """The optimizer from stage 1, the weights with it at stage 3."""
    offloaded = stage(offloaded_layers=4)
    both = written(3, offload_optimizer="cpu", offload_params="cpu", stages=offloaded)["zero_optimization"]
    one = written(1, offload_optimizer="cpu", stages=offloaded)["zero_optimization"]

    assert both["offload_optimizer"] == both["offload_param"] == {"device": "cpu", "pin_memory": True}
    assert one["offload_optimizer"] == {"device": "cpu", "pin_memory": True}
    assert "offload_param" not in one


def test_cores_are_bound_where_the_host_steps() -> None:
    """The launcher's own switch, with the optimizer offloaded and only then."""
    there = plan(deepspeed(3, 8, offload_optimizer="cpu", stages=stage(offloaded_layers=4)))
    here = plan(deepspeed(3, 8))

    assert "--bind_cores_to_rank" in emit(there, "deepspeed")["launch.sh"]
    assert "--bind_cores_to_rank" not in emit(here, "deepspeed")["launch.sh"]


def test_states_on_nvme_have_a_path_that_the_launch_line_looks_for() -> None:
    """Stage 3 alone; without the folder the run does not start."""
    strategy = deepspeed(
        3, 8, offload_optimizer="nvme", offload_params="nvme", stages=stage(offloaded_layers=4)
    )
    files = emit(plan(strategy), "deepspeed")
    zero = json.loads(files["ds_config.json"])["zero_optimization"]

    for part in ("offload_optimizer", "offload_param"):
        assert zero[part] == {"device": "nvme", "pin_memory": True, "nvme_path": "/local_nvme"}
    assert "[ -d /local_nvme ]" in files["launch.sh"]
    changed_stage = json.loads(files["ds_config.json"])
    changed_stage["zero_optimization"]["offload_param"] = None
    changed_stage["zero_optimization"]["stage"] = 2
    with pytest.raises(ValidationError):
        DsConfig.model_validate(changed_stage)


def test_recomputation_has_its_block_and_its_note() -> None:
    """The block serves DeepSpeed's own function; the README says how Hugging Face models switch it on."""
    made = plan(deepspeed(2, 8, stages=stage(recompute_full_layers=4)))
    files = emit(made, "deepspeed")

    assert json.loads(files["ds_config.json"])["activation_checkpointing"]["number_checkpoints"] == 4
    assert "gradient_checkpointing_enable()" in files["README.md"]
    assert "activation_checkpointing" not in written(2)
    assert "gradient_checkpointing" not in emit(plan(deepspeed(2, 8)), "deepspeed")["README.md"]


def test_sgd_is_declared_untested_under_zero() -> None:
    """DeepSpeed refuses an optimizer it does not know at stages 1 to 3 unless told so."""
    sharded = json.loads(emit(plan(deepspeed(2, 8), optimizer="sgd"), "deepspeed")["ds_config.json"])
    whole = json.loads(emit(plan(deepspeed(0, 8), optimizer="sgd"), "deepspeed")["ds_config.json"])

    assert sharded["optimizer"]["type"] == whole["optimizer"]["type"] == "SGD"
    assert sharded["zero_allow_untested_optimizer"] is True
    assert "zero_allow_untested_optimizer" not in whole


SILENT = {
    "an unknown key at the top": (3, "gradient_acumulation", 1),
    "an unknown key of checkpointing": (3, "activation_checkpointing.cpu_checkpoint", True),
    "a pipeline block": (3, "pipeline", {"stages": 2}),
    "nvme without a path": (3, "zero_optimization.offload_optimizer", {"device": "nvme", "pin_memory": True}),
    "weights offloaded at stage 1": (
        1,
        "zero_optimization.offload_param",
        {"device": "cpu", "pin_memory": True},
    ),
    "optimizer offloaded at stage 0": (
        0,
        "zero_optimization.offload_optimizer",
        {"device": "cpu", "pin_memory": True},
    ),
    "a secondary partition of 3 on 8 ranks": (3, "zero_optimization.zero_hpz_partition_size", 3),
    "a secondary partition at stage 1": (1, "zero_optimization.zero_hpz_partition_size", 2),
    "negative clipping": (3, "gradient_clipping", -1.0),
    "an unknown optimizer": (3, "optimizer.type", "AdamX"),
    "a scheduler": (3, "scheduler", {"type": "WarmupXY", "params": {}}),
    "an unknown accumulation type": (3, "data_types", {"grad_accum_dtype": "fp99"}),
    "a stage in quotes": (3, "zero_optimization.stage", "3"),
    "a stage that is a switch": (1, "zero_optimization.stage", True),
    "zero_optimization that is a switch": (3, "zero_optimization", True),
    "a micro-batch with a point": (3, "train_micro_batch_size_per_gpu", 1.0),
    "auto in a bucket": (3, "zero_optimization.reduce_bucket_size", "auto"),
    "auto in the batch": (3, "train_batch_size", "auto"),
    "tensor parallel beside stage 3": (3, "tensor_parallel", {"autotp_size": 4}),
    "the deprecated cpu_offload": (2, "zero_optimization.cpu_offload", True),
    "no accumulation": (3, "gradient_accumulation_steps", None),
    "no batch size": (3, "train_batch_size", None),
    "MiCS, which is gone": (3, "zero_optimization.mics_shard_size", 2),
    "an all-gather bucket at stage 3": (3, "zero_optimization.allgather_bucket_size", 1000),
    "a stage-3 key at stage 2": (2, "zero_optimization.stage3_max_live_parameters", 1000),
    "both 16-bit types": (3, "fp16", {"enabled": True}),
    "a batch its parts do not divide": (3, "train_batch_size", 9),
    "an infinite clipping": (3, "gradient_clipping", float("inf")),
}
"""What DeepSpeed 0.19.8 accepts silently, coerces or ignores, and some that it refuses too."""


@pytest.mark.parametrize("name", SILENT)
def test_the_schema_refuses_what_the_client_lets_pass(name: str) -> None:
    """One change to a good file, and the schema refuses it."""
    zero_stage, path, value = SILENT[name]
    good = written(zero_stage, micro_batch_size=1, gradient_accumulation_steps=2)
    DsConfig.model_validate(good)

    with pytest.raises(ValidationError):
        DsConfig.model_validate(changed(good, path, value))


CANNOT = {
    "tensor parallel": (deepspeed(3, 4, tensor_parallel=2), "tensor_parallel"),
    "a ring": (
        deepspeed(3, 4, context_parallel=2, context_parallel_kind="ring", ulysses_group_size=1),
        "context_parallel_kind",
    ),
    "more ranks of a sequence than heads of keys": (
        deepspeed(3, 2, context_parallel=4),
        "context_parallel_kind",
    ),
    "8-bit arithmetic": (deepspeed(3, 8, precision="fp8", gradient_dtype="fp32"), "precision"),
    "float16 gradients of bfloat16": (deepspeed(3, 8, gradient_dtype="fp16"), "gradient_dtype"),
    "float32 gradients without ZeRO": (deepspeed(0, 8, gradient_dtype="fp32"), "gradient_dtype"),
    "a part of the ranks": (deepspeed(3, 8, shard_group_size=4), "shard_group_size"),
    "weights kept gathered": (deepspeed(3, 8, reshard_after_forward=False), "reshard_after_forward"),
    "selective recomputation": (
        deepspeed(3, 8, stages=stage(recompute_selective_layers=4)),
        "recompute_selective_layers",
    ),
    "some layers recomputed": (
        deepspeed(3, 8, stages=stage(recompute_full_layers=3)),
        "recompute_full_layers",
    ),
    "some layers offloaded": (
        deepspeed(3, 8, offload_optimizer="cpu", stages=stage(offloaded_layers=2)),
        "offloaded_layers",
    ),
    "offload without layers": (deepspeed(3, 8, offload_optimizer="cpu"), "offloaded_layers"),
    "offload without ZeRO": (
        deepspeed(0, 8, offload_optimizer="cpu", stages=stage(offloaded_layers=4)),
        "offload_optimizer",
    ),
    "weights offloaded at stage 2": (
        deepspeed(2, 8, offload_optimizer="cpu", offload_params="cpu", stages=stage(offloaded_layers=4)),
        "offload_params",
    ),
    "a loss of another backend": (deepspeed(3, 8, loss_kernel="megatron"), "loss_kernel"),
}


@pytest.mark.parametrize("name", CANNOT)
def test_what_the_file_cannot_say_is_refused(name: str) -> None:
    """The objection names the choice; a plan without it is written."""
    strategy, field = CANNOT[name]
    objection = refusal(strategy, tiny(), "deepspeed")

    assert objection is not None
    assert objection.field == field
    assert refusal(deepspeed(3, 8), tiny(), "deepspeed") is None


@pytest.mark.parametrize(
    ("optimizer", "kind", "momentum"),
    [("sgd", "SGD", 0.9), ("sgd-no-momentum", "SGD", 0.0), ("lion", "Lion", None)],
)
def test_optimizers_deepspeed_can_name(optimizer: str, kind: str, momentum: float | None) -> None:
    """Names and settings as its engine takes them."""
    found = json.loads(emit(plan(deepspeed(2, 8), optimizer=optimizer), "deepspeed")["ds_config.json"])[
        "optimizer"
    ]
    assert (found["type"], found["params"].get("momentum")) == (kind, momentum)


@pytest.mark.parametrize("optimizer", ["adafactor", "muon", "adamw-8bit", "paged-adamw-8bit"])
def test_optimizers_deepspeed_cannot_name_are_refused(optimizer: str) -> None:
    """No key of the file makes them."""
    with pytest.raises(Refused, match="name adamw, lion, sgd, sgd-no-momentum alone"):
        emit(plan(deepspeed(2, 8), optimizer=optimizer), "deepspeed")
