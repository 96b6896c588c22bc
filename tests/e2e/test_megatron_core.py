"""The emitted arguments of Megatron-LM in Megatron Core's own configuration; nothing is trained."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from megatron_by_hand import argv, parsed
from random_plans import random_plans

pytestmark = pytest.mark.e2e
transformer = pytest.importorskip(
    "megatron.core.transformer.transformer_config", reason="megatron-core is not installed: the extra e2e"
)

RENAMED = {"num_experts": "num_moe_experts", "fp8_format": "fp8", "cp_comm_type": "cp_comm_type"}
NUMBERS = re.compile(r"-?\d+")


def fields_of(given: dict[str, list[str]]) -> dict[str, Any]:
    """Fields of `TransformerConfig` by name, from arguments of the same name."""
    from dataclasses import fields

    import torch

    known = {field.name for field in fields(transformer.TransformerConfig)}
    found: dict[str, Any] = {}
    for flag, values in given.items():
        name = flag[2:].replace("-", "_")
        name = RENAMED.get(name, name)
        if name in known and name not in ("moe_layer_freq", "window_size", "window_attn_skip_freq"):
            found[name] = _value(name, values)
    found["add_bias_linear"] = "--disable-bias-linear" not in given
    found["gated_linear_unit"] = "--swiglu" in given
    found["params_dtype"] = torch.bfloat16 if "--bf16" in given else torch.float16
    found["pipeline_dtype"] = found["params_dtype"]
    found["num_layers_in_first_pipeline_stage"] = None
    return found


def _value(name: str, values: list[str]) -> Any:
    if not values:
        return True
    if name == "recompute_modules":
        return values
    word = values[0]
    if NUMBERS.fullmatch(word):
        return int(word)
    try:
        return float(word)
    except ValueError:
        return word


@pytest.fixture(autouse=True)
def engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Transformer Engine, asked only for its version."""
    from packaging.version import Version

    monkeypatch.setattr("megatron.core.utils.get_te_version", lambda: Version("2.8.0"))


@pytest.mark.parametrize("index", range(4))
def test_the_configuration_takes_what_the_plan_says(index: int, tmp_path: Path) -> None:
    """Ten random plans a time: its own checks of heads, stages, experts and recomputation pass."""
    for plan in random_plans("megatron", 10, seed=index):
        given = parsed(argv(plan, tmp_path))
        spelt = given.pop("--pipeline-model-parallel-layout", None)
        if spelt:
            continue  # read by Megatron-LM's arguments, not by the configuration
        made = transformer.TransformerConfig(**fields_of(given))
        strategy = plan.strategy

        assert made.tensor_model_parallel_size == strategy.tensor_parallel
        assert made.pipeline_model_parallel_size == strategy.pipeline_parallel
        assert made.context_parallel_size == strategy.context_parallel
        assert made.sequence_parallel == strategy.sequence_parallel
        assert made.recompute_granularity == (None if strategy.recompute == "none" else strategy.recompute)


def test_heads_that_do_not_divide_are_refused(tmp_path: Path) -> None:
    """The configuration that takes our arguments refuses three ranks for eight groups."""
    plan = next(each for each in random_plans("megatron", 30) if each.request.model.family == "llama")
    given = parsed(argv(plan, tmp_path))
    given.pop("--pipeline-model-parallel-layout", None)
    wrong = fields_of(given) | {"tensor_model_parallel_size": 3}

    with pytest.raises(ValueError, match="tensor_model_parallel_size"):
        transformer.TransformerConfig(**wrong)
