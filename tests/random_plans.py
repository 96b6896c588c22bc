"""Random plans that a target can write: layouts over all of its choices, numbers that only look right."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from plans_by_hand import deepspeed, fsdp, megatron, plan, tiny

from shardwise.hardware import Cluster
from shardwise.launch import emit, refusal, targets
from shardwise.models import Stage, Strategy, Transformer
from shardwise.models.backend import backend
from shardwise.models.context import exchanges
from shardwise.plans import Plan

MODELS = ("llama-3.1-8b", "llama-3.1-70b", "mixtral-8x7b", "deepseek-v3", "qwen3-14b", "gpt3-175b")
OF_TARGET = {"torchtitan": ("llama-3.1-8b", "llama-3.1-70b", "qwen3-14b", "qwen3-32b")}


def random_plans(target: str, number: int, seed: int = 0) -> Iterator[Plan]:
    """`number` plans that `target` writes, the same ones for the same seed."""
    dice = random.Random(f"{target} {seed}")
    while number:
        model = _model(dice, target)
        strategy, training = _strategy(dice, _kind(dice, target, number), target, model)
        if refusal(strategy, model, target) is None:
            machine = "dgx-b200" if strategy.precision == "mxfp8" else "dgx-h100"
            cluster = Cluster.of_gpus(machine, strategy.world)
            made = plan(strategy, model=model, cluster=cluster, **training)
            try:
                emit(made, target)
            except ValueError:
                continue
            yield made
            number -= 1


def _model(dice: random.Random, target: str) -> Transformer:
    names = OF_TARGET.get(target, (*MODELS, "tiny", "tiny"))
    name = dice.choice(names)
    return tiny() if name == "tiny" else Transformer.preset(name)


def _kind(dice: random.Random, target: str, number: int) -> str:
    """The backend of the next plan; those of the trainer take turns."""
    if target == "slurm":
        return dice.choice(["deepspeed", "fsdp", "megatron"])
    if target == "transformers":
        return ("deepspeed", "fsdp")[number % 2]
    return {"accelerate": "fsdp", "torchtitan": "fsdp"}.get(target, target)


def _strategy(
    dice: random.Random, kind: str, target: str, model: Transformer
) -> tuple[Strategy, dict[str, Any]]:
    training = {"optimizer": dice.choice(["adamw", "adamw", "sgd"]), "sequence": dice.choice([512, 2048])}
    if target in ("torchtitan", "fsdp", "accelerate"):
        training["optimizer"] = "adamw"
    draw = {"deepspeed": _deepspeed, "fsdp": _fsdp, "megatron": _megatron}
    return draw[kind](dice, model), training


def _steps(dice: random.Random) -> dict[str, Any]:
    return {
        "micro_batch_size": dice.choice([1, 1, 2, 4]),
        "gradient_accumulation_steps": dice.choice([1, 2, 3, 8, 24]),
    }


def _ranks(dice: random.Random) -> int:
    return dice.choice([1, 2, 4, 8, 16, 24, 32, 64])


def _deepspeed(dice: random.Random, model: Transformer) -> Strategy:
    zero, (precision, gradients) = (
        dice.randrange(4),
        dice.choice([("bf16", "bf16"), ("bf16", "fp32"), ("fp16", "fp16"), ("fp32", "fp32")]),
    )
    offload = dice.choice(["none", "none", "optimizer", "both"]) if zero else "none"
    stage = Stage(
        layers=model.layers,
        recompute_full_layers=dice.choice([0, model.layers]),
        offloaded_layers=model.layers if offload != "none" else 0,
    )
    ranks = _ranks(dice)
    doubles = zero == 3 and offload != "both" and ranks > 8
    return deepspeed(
        zero,
        ranks,
        **_exchange(dice, "deepspeed", model, 1),
        secondary_shard_group_size=dice.choice([1, 2, 8]) if doubles else 1,
        precision=precision,
        gradient_dtype=gradients,
        loss_kernel=dice.choice(["eager", "hf-eager", "chunked"]),
        software_stack=dice.choice(["deepspeed-2024", "deepspeed-2021"]),
        offload_optimizer="none" if offload == "none" else "cpu",
        offload_params="cpu" if offload == "both" and zero == 3 else "none",
        stages=(stage,),
        **_steps(dice),
    )


def _fsdp(dice: random.Random, model: Transformer) -> Strategy:
    ranks, tensor = _ranks(dice), dice.choice([1, 1, 2, 4])
    full = dice.choice([0, model.layers, dice.randint(0, model.layers)])
    part = dice.choice([0, model.layers - full, dice.randint(0, model.layers - full)])
    place = dice.choice(["none", "none", "cpu"])
    held = dice.choice([model.layers, dice.randint(0, model.layers)]) if place == "cpu" else 0
    precision, gradients = dice.choice([("bf16", "fp32"), ("bf16", "bf16"), ("fp32", "fp32")])
    cut = _exchange(dice, "fsdp", model, tensor)
    groups = [size for size in (1, 2, 4, 8, ranks) if ranks % size == 0]
    return fsdp(
        dice.choice([2, 3]),
        ranks,
        **cut,
        shard_group_size=dice.choice(groups) * cut.get("context_parallel", 1),
        tensor_parallel=tensor,
        sequence_parallel=tensor > 1 and dice.random() < 0.8,
        precision=precision,
        gradient_dtype=gradients,
        software_stack=dice.choice(["fsdp-eager-2023", "fsdp-compile-2024", "composer-fsdp-2023"]),
        loss_kernel=dice.choice(["eager", "compiled", "hf-eager", "chunked"]),
        offload_optimizer=place,
        offload_params=place,
        stages=(
            Stage(
                layers=model.layers,
                recompute_full_layers=full,
                recompute_selective_layers=part,
                offloaded_layers=held,
            ),
        ),
        **_steps(dice),
    )


def _megatron(dice: random.Random, model: Transformer) -> Strategy:
    stages, chunks = min(dice.choice([1, 2, 4, 8]), model.layers), dice.choice([1, 1, 2, 4])
    held = _layers(dice, model.layers, stages, chunks)
    word, number = dice.choice(["none", "selective", "full", "block"]), dice.randint(1, 4) * chunks
    offloads = dice.random() < 0.2
    routed = any(kind.feed_forward.experts for kind in model.kinds)
    tensor = dice.choice([1, 2, 4, 8])
    precision, gradients = dice.choice(
        [("bf16", "fp32"), ("bf16", "bf16"), ("fp16", "fp16"), ("fp8", "fp32"), ("mxfp8", "fp32")]
    )
    return megatron(
        1 if offloads else dice.choice([0, 1, 1]),
        dice.choice([1, 2, 4, 8]),
        tensor_parallel=tensor,
        sequence_parallel=tensor > 1,
        **_exchange(dice, "megatron", model, tensor),
        expert_parallel=dice.choice([1, 2, 4, 8]) if routed else 1,
        expert_tensor_parallel=dice.choice([1, 1, 2, 4]) if routed else 1,
        virtual_pipeline=chunks if stages > 1 else 1,
        rank_order=dice.choice(["tp-cp-dp-pp", "tp-cp-pp-dp"]) if stages > 1 else "tp-cp-dp-pp",
        precision=precision,
        gradient_dtype=gradients,
        software_stack=dice.choice(["megatron-bridge-2025", "nemo-2024", "megatron-2023"]),
        offload_optimizer="cpu" if offloads else "none",
        stages=tuple(
            Stage(
                layers=layers,
                recompute_full_layers={"full": layers, "block": min(number, layers)}.get(word, 0),
                recompute_selective_layers=layers if word == "selective" else 0,
                offloaded_layers=layers if offloads else 0,
            )
            for layers in held
        ),
        **_steps(dice),
    )


def _exchange(dice: random.Random, name: str, model: Transformer, tensor: int) -> dict[str, Any]:
    """Context ranks and a way to exchange a sequence that backend and model can run."""
    context, known = dice.choice([1, 1, 2, 4]), backend(name)
    able = [
        one
        for one in exchanges(context)
        if one.kind in ("none", *known.context_kinds) and not known.refuses_exchange(model, one, tensor)
    ]
    if not able:
        return {}
    kind, group = dice.choice(able)
    return {"context_parallel": context, "context_parallel_kind": kind, "ulysses_group_size": group}


def _layers(dice: random.Random, layers: int, stages: int, chunks: int) -> list[int]:
    """Even stages, or a layer or so moved from one to another."""
    each, left = divmod(layers, stages)
    held = [each + (stage < left) for stage in range(stages)]
    if stages > 1 and dice.random() < 0.4:
        one, other = dice.sample(range(stages), 2)
        moved = chunks * dice.choice([1, 2])
        if held[one] > moved:
            held[one], held[other] = held[one] - moved, held[other] + moved
    return held


TARGETS = targets()
"""All of them."""
