"""Writing `megatron_args.sh`: bash arrays of Megatron-LM's arguments."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import asdict

from pydantic import BaseModel

from ...plans.plan import Plan
from ..label import label
from ..releases import read_in
from ..steps import steps_of
from . import bridge
from .arguments import attention_args, expert_args, memory_args, model_args, parallel_args, precision_args
from .families import known
from .schema import DataArgs, MegatronArgs, RecipeArgs, StepArgs

FILE = "megatron_args.sh"
WHOLE = "MEGATRON_ARGS"
LR_PLACEHOLDER = 1e-4
"""The learning rate is no decision of a plan: training recipes replace it."""

MTP_LOSS_SCALING_FACTOR = 0.1
"""Megatron-LM's default weight of the loss of further tokens; DeepSeek-V3 began with 0.3 (section 4.2)."""

_MEANING = {
    "model": "The model.",
    "attention": "Its attention.",
    "experts": "Its experts.",
    "parallel": "How it lies on the cards.",
    "step": "One optimizer step.",
    "memory": "What is recomputed or offloaded.",
    "precision": "Types of weights, products and gradients.",
    "recipe": "YOURS: placeholders of the training recipe, no decisions of the plan.",
    "data": "YOURS: made-up tokens for the first minutes; put --data-path and your tokenizer here.",
}


def arguments(plan: Plan) -> MegatronArgs:
    """The arguments of `plan`, checked by their own schema."""
    strategy, training, model = plan.strategy, plan.request.training, plan.request.model
    return MegatronArgs(
        model=model_args(model, training),
        attention=attention_args(model),
        experts=expert_args(model),
        parallel=parallel_args(plan),
        step=StepArgs(
            micro_batch_size=strategy.micro_batch_size,
            global_batch_size=training.global_batch_size,
            optimizer="sgd" if training.optimizer == "sgd" else "adam",
            clip_grad=1.0,
        ),
        memory=memory_args(plan),
        precision=precision_args(plan),
        recipe=_recipe(plan),
        # Releases before 0.18 add a token of their own to the number given.
        data=DataArgs(
            mock_data=True, tokenizer_type="NullTokenizer", vocab_size=max(model.vocab_size - 1, 1)
        ),
    )


def write(plan: Plan) -> dict[str, str]:
    """`megatron_args.sh` by name, and the overrides of a Megatron-Bridge recipe where there is one."""
    head = [
        f"# Arguments of Megatron-LM for {label(plan.request.model.name)}; launch.sh reads them.",
        f"# Written by shardwise; names as in {read_in('Megatron-LM')}.",
        "# shellcheck shell=bash disable=SC2034",
    ]
    args = arguments(plan)
    groups = [(name, list(words(group))) for name, group in args]
    written = [(name, lines) for name, lines in groups if lines]
    blocks = [_array(f"{name.upper()}_ARGS", _MEANING[name], lines) for name, lines in written]
    whole = [f'"${{{name.upper()}_ARGS[@]}}"' for name, _ in written]
    blocks.append(_array(WHOLE, "All of them.", whole))
    return {FILE: "\n\n".join(["\n".join(head), *blocks]) + "\n", **bridge.write(plan, args)}


def words(group: BaseModel) -> Iterator[str]:
    """One line an argument: its name, and its values where it is no switch."""
    for name, value in group:
        if value is None or value is False:
            continue
        values = [] if value is True else value if isinstance(value, tuple) else [value]
        flag = f"--{name.replace('_', '-')}"
        yield " ".join([flag, *(shlex.quote(str(each)) for each in values)])


def _array(name: str, meaning: str, lines: list[str]) -> str:
    return "\n".join([f"# {meaning}", f"{name}=(", *(f"  {line}" for line in lines), ")"])


def _recipe(plan: Plan) -> RecipeArgs:
    training, model = plan.request.training, plan.request.model
    adam = training.optimizer != "sgd"
    routed = any(kind.feed_forward.experts for kind in model.kinds)
    return RecipeArgs.model_validate(
        {
            "train_iters": steps_of(training),
            "lr": LR_PLACEHOLDER,
            "lr_decay_style": "cosine",
            "lr_warmup_fraction": 0.01,
            "weight_decay": 0.1 if adam else 0.0,
            **({"adam_beta1": 0.9, "adam_beta2": 0.95, "adam_eps": 1e-8} if adam else {"sgd_momentum": 0.9}),
            **({"mtp_loss_scaling_factor": MTP_LOSS_SCALING_FACTOR} if model.mtp_layers else {}),
            **(asdict(known().families[model.family].routing) if routed else {}),
            "eval_iters": 0,
            "log_interval": 1,
            "log_throughput": True,
        }
    )
