"""Ways of training in launch files: written where a client can express them, else refused with a reason."""

from __future__ import annotations

from typing import Any

import pytest
from plans_by_hand import deepspeed, fsdp, plan

from shardwise.launch import emit
from shardwise.launch.refused import Refused
from shardwise.models import Stage, Strategy, Transformer
from shardwise.models.work import parameters

MEGATRON = Strategy(
    backend="megatron", software_stack="megatron-bridge-2025", loss_kernel="megatron", gradient_dtype="fp32",
    data_parallel=8, zero_stage=1, shard_group_size=8, stages=(Stage(layers=4),),
)  # fmt: skip


def refused(strategy: Strategy, target: str, **job: Any) -> Refused:
    """Why a target cannot have a plan with these fields of the job."""
    with pytest.raises(Refused) as caught:
        emit(plan(strategy, **job), target)
    return caught.value


@pytest.mark.parametrize(
    ("target", "job", "field"),
    [
        ("megatron", {"trainable": "lora(8)"}, "training.trainable"),
        ("megatron", {"trainable": 0.5}, "training.trainable"),
        ("megatron", {"frozen": ["head"]}, "training.frozen"),
        ("megatron", {"master_weights": False}, "training.master_weights"),
        ("torchtitan", {"trainable": "lora(8)"}, "training.trainable"),
        ("torchtitan", {"sync_each_batch": False}, "training.sync_each_batch"),
        ("accelerate", {"master_weights": False}, "training.master_weights"),
        ("fsdp", {"optimizer_in_backward": True}, "training.optimizer_in_backward"),
        ("deepspeed", {"master_weights": False}, "training.master_weights"),
        ("deepspeed", {"sync_each_batch": False}, "training.sync_each_batch"),
    ],
)
def test_what_a_client_cannot_do_is_refused_with_a_reason(
    target: str, job: dict[str, Any], field: str
) -> None:
    """Never dropped silently: the field, its value and a sentence."""
    model = Transformer.preset("llama-3.1-8b")
    strategies = {
        "megatron": MEGATRON.model_copy(update={"stages": (Stage(layers=32),)}),
        "deepspeed": deepspeed(2, 8, stages=(Stage(layers=32),)),
        "accelerate": fsdp(3, 8, gradient_dtype="bf16", stages=(Stage(layers=32),)),
    }
    strategy = strategies.get(target, fsdp(3, 8, stages=(Stage(layers=32),)))
    error = refused(strategy, target, model=model, **job)
    assert error.field == field
    assert error.reason.count(" ") > 3


def test_4_bit_weights_under_zero_3_are_refused() -> None:
    """DeepSpeed leaves them whole on every rank."""
    assert refused(deepspeed(3, 8), "deepspeed", trainable="qlora(8)").field == "zero_stage"
    assert "ds_config.json" in emit(plan(deepspeed(2, 8), trainable="qlora(8)"), "deepspeed")


@pytest.mark.parametrize(("target", "strategy"), [("deepspeed", deepspeed(2, 8)), ("fsdp", fsdp(3, 8))])
def test_the_readme_tells_how_to_make_adapters(target: str, strategy: Strategy) -> None:
    """Rank and names of matrices as peft takes them, and what is trained of how much."""
    made = plan(strategy, trainable="lora(8)", lora_targets=["v_proj", "q_proj"])
    text = emit(made, target)["README.md"]
    assert "LoraConfig(r=8, target_modules=['q_proj', 'v_proj'])" in text
    held = parameters(made.request.training, made.request.model)
    assert f"{held.trained} of {held.total} parameters: lora(8)" in text


@pytest.mark.parametrize(
    ("job", "words"),
    [
        ({"trainable": "qlora(8)"}, "bnb_4bit_quant_storage"),
        ({"frozen": ["embedding"]}, "requires_grad_(False)"),
        ({"trainable": 0.5}, "all but 50 %"),
        ({"mean_document_length": 8}, "within a document"),
        ({"mean_sequence_length": 8}, "for the longest"),
        ({"reference_model": "self"}, "torch.no_grad()"),
        ({"reference_model": "self", "trainable": "lora(8)"}, "disable_adapter()"),
        ({"reference_model": "self", "reference_sharded": False}, "whole on every data rank"),
    ],
)
def test_the_readme_tells_what_the_script_must_do(job: dict[str, Any], words: str) -> None:
    """Each field of the job that no file carries stands in the README."""
    assert words in emit(plan(fsdp(3, 8), **job), "fsdp")["README.md"]


def test_fused_experts_are_told_of() -> None:
    """One parameter for all experts of a layer: peft names it apart, bitsandbytes leaves it alone."""
    mixtral = Transformer.preset("mixtral-8x7b")
    whole = deepspeed(2, 8, stages=(Stage(layers=32),))
    text = emit(plan(whole, model=mixtral, trainable="qlora(8)"), "deepspeed")["README.md"]
    assert "target_parameters" in text and "separate linears" in text
    plain = emit(plan(deepspeed(2, 8), trainable="qlora(8)"), "deepspeed")["README.md"]
    assert "target_parameters" not in plain


def test_accelerate_is_asked_for_a_release_that_keeps_frozen_types() -> None:
    """Earlier ones made frozen weights float32 (accelerate issue 3844)."""
    model = Transformer.preset("llama-3.1-8b")
    layout = fsdp(3, 8, gradient_dtype="bf16", stages=(Stage(layers=32),))
    told = [
        emit(plan(layout, model=model, trainable=way), "accelerate")["README.md"]
        for way in ("lora(8)", "all")
    ]
    assert ["earlier releases" in text for text in told] == [True, False]


def test_the_module_of_full_training_knows_nothing_of_portions() -> None:
    """Its text has no constant for them; that of partial training refuses another portion or type."""
    whole = emit(plan(fsdp(3, 8)), "fsdp")["fsdp_plan.py"]
    part = emit(plan(fsdp(3, 8), trainable="lora(8)"), "fsdp")["fsdp_plan.py"]
    assert "TRAINED_PARAMETERS" not in whole and "check_model(model, PARAMETERS)" in whole
    assert "check_portion(model, PARAMETERS, TRAINED_PARAMETERS, TRAINED_DTYPE)" in part
    assert "TRAINED_DTYPE = torch.float32" in part


def test_16_bit_training_and_late_reductions_stand_in_the_module() -> None:
    """The type of the weights, and the switch before each micro-batch."""
    short = emit(plan(fsdp(3, 8), master_weights=False), "fsdp")["fsdp_plan.py"]
    late = emit(plan(fsdp(3, 8, gradient_accumulation_steps=4), sync_each_batch=False), "fsdp")[
        "fsdp_plan.py"
    ]
    assert "TRAINED_DTYPE = torch.bfloat16" in short
    assert "set_requires_gradient_sync(index == GRADIENT_ACCUMULATION_STEPS - 1)" in late
