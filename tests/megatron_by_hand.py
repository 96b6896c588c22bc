"""Plans for Megatron-LM made by hand: the layouts that its arguments have to spell."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from plans_by_hand import megatron, plan

from shardwise.launch import emit
from shardwise.models import Stage, Strategy, Transformer
from shardwise.plans import Plan

EXPAND = 'set -euo pipefail; source megatron_args.sh; printf "%s\\n" "${MEGATRON_ARGS[@]}"'


def stages(number: int, layers: int, **counts: Any) -> tuple[Stage, ...]:
    """Equal stages."""
    return tuple(Stage(layers=layers, **counts) for _ in range(number))


def cut(degree: int, **changes: Any) -> dict[str, Any]:
    """Tensor parallel of `degree` with sequence parallel, and `changes`."""
    return {"tensor_parallel": degree, "sequence_parallel": True, **changes}


UNEVEN = (Stage(layers=7), *stages(14, 8), Stage(layers=7))
BLOCK = stages(4, 8, recompute_full_layers=3)
NAMED: dict[str, tuple[str, Strategy, int]] = {
    "megatron_gpt3_interleaved": (
        "gpt3-175b",
        megatron(
            1, 8, **cut(8), virtual_pipeline=6, gradient_accumulation_steps=24, stages=stages(8, 12)
        ),
        2048,
    ),
    "megatron_llama_405b_uneven": (
        "llama-3.1-405b",
        megatron(1, 8, **cut(8, context_parallel=2), gradient_accumulation_steps=32, stages=UNEVEN),
        8192,
    ),
    "megatron_mixtral_experts": (
        "mixtral-8x7b",
        megatron(
            1, 16, expert_parallel=8, gradient_accumulation_steps=4, gradient_dtype="bf16",
            stages=stages(2, 16, recompute_selective_layers=16),
        ),
        4096,
    ),
    "megatron_llama_8b_block": (
        "llama-3.1-8b",
        megatron(
            1, 4, **cut(2), gradient_accumulation_steps=8, stages=BLOCK, rank_order="tp-cp-pp-dp",
            precision="fp8",
        ),
        8192,
    ),
    "megatron_deepseek_mixed": (
        "deepseek-v3",
        megatron(
            1, 16, expert_parallel=16, gradient_accumulation_steps=8,
            stages=(Stage(layers=7), *stages(6, 8), Stage(layers=6)),
        ),
        4096,
    ),
    "megatron_deepseek_predicting": (
        "deepseek-v3",
        megatron(
            1, 16, expert_parallel=16, gradient_accumulation_steps=8,
            stages=(
                *stages(7, 8, recompute_full_layers=8),
                Stage(layers=6, recompute_full_layers=6),
            ),
        ),
        4096,
    ),
    "megatron_mistral_offload": (
        "mistral-7b",
        megatron(1, 8, offload_optimizer="cpu", stages=stages(1, 32, offloaded_layers=32)),
        8192,
    ),
}  # fmt: skip


def named(name: str) -> Plan:
    """The plan of that name."""
    preset, strategy, sequence = NAMED[name]
    model = Transformer.preset(preset)
    modules = strategy.layers - model.layers
    return plan(strategy, model=model, sequence=sequence, mtp_layers=modules)


def argv(made: Plan, folder: Path) -> list[str]:
    """The words that bash hands to `pretrain_gpt.py`."""
    for name, text in emit(made, "megatron").items():
        (folder / name).write_text(text, encoding="utf-8")
    done = subprocess.run(["bash", "-c", EXPAND], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def parsed(given: list[str]) -> dict[str, list[str]]:
    """Arguments and their values; every argument stands once."""
    found: dict[str, list[str]] = {}
    for word in given:
        if word.startswith("--"):
            assert word not in found
            found[word] = []
        else:
            found[list(found)[-1]].append(word)
    return found
