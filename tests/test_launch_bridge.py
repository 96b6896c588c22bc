"""`megatron_bridge.overrides`: fields of Megatron-Bridge's configuration, and what they say of a plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from megatron_by_hand import NAMED, named, stages
from plans_by_hand import megatron, plan
from random_plans import random_plans

from shardwise.launch import emit
from shardwise.launch.megatron.bridge import FILE, PRECISIONS, _recipes
from shardwise.models import Transformer
from shardwise.plans import Plan

KNOWN = json.loads((Path(__file__).parent / "data/launch/bridge_fields.json").read_text(encoding="utf-8"))


def said(made: Plan) -> dict[str, str]:
    """The overrides of a plan by key; none without the file."""
    text = emit(made, "megatron").get(FILE, "")
    return dict(line.split("=", 1) for line in text.splitlines() if not line.startswith("#"))


def test_every_recipe_precision_and_field_is_its_own() -> None:
    """Names stand in the sources of the release; models in our catalogue."""
    assert set(_recipes().values()) <= set(KNOWN["recipes"])
    assert set(PRECISIONS.values()) <= set(KNOWN["precisions"])
    for name in _recipes():
        assert Transformer.preset(name).name == name
    for key in said(named("megatron_llama_405b_uneven")):
        part, _, field = key.rpartition(".")

        assert field in KNOWN["fields"][part]


def test_overrides_say_what_the_plan_says() -> None:
    """Random plans: degrees, batch, stages and recomputation; no file where overrides cannot say it."""
    written = 0
    for made in random_plans("megatron", 60, seed=3):
        strategy, found = made.strategy, said(made)
        if not found:
            continue
        written += 1

        assert found["model.tensor_model_parallel_size"] == str(strategy.tensor_parallel)
        assert found["model.pipeline_model_parallel_size"] == str(strategy.pipeline_parallel)
        assert found["model.context_parallel_size"] == str(strategy.context_parallel)
        assert found["model.sequence_parallel"] == str(strategy.sequence_parallel).lower()
        assert found["train.micro_batch_size"] == str(strategy.micro_batch_size)
        assert found["train.global_batch_size"] == str(made.request.training.global_batch_size)
        assert found["ddp.use_distributed_optimizer"] == str(strategy.zero_stage == 1).lower()
        assert found["optimizer.optimizer_cpu_offload"] == str(strategy.offload_optimizer == "cpu").lower()
        assert found["model.recompute_granularity"] == (
            "null" if strategy.recompute == "none" else strategy.recompute
        )
    assert written > 3


@pytest.mark.parametrize(
    "changes",
    [
        {"gradient_dtype": "bf16"},
        {"precision": "fp16", "gradient_dtype": "fp16"},
    ],
)
def test_what_overrides_cannot_say_is_not_written(changes: dict[str, Any]) -> None:
    """A precision is a name that fixes the type of gradients."""
    made = plan(megatron(1, 8, stages=stages(1, 32), **changes), model=Transformer.preset("llama-3.1-8b"))

    assert FILE not in emit(made, "megatron")


def test_a_layout_is_quoted_as_hydra_reads_it() -> None:
    """Stars and bars are no grammar inside quotes."""
    found = said(named("megatron_llama_405b_uneven"))

    assert found["model.pipeline_model_parallel_layout"] == "'Et*7|(t*8|)*14t*7L'"
    assert found["model.virtual_pipeline_model_parallel_size"] == "null"


@pytest.mark.parametrize("name", NAMED)
def test_the_readme_names_the_recipe(name: str) -> None:
    """The file is told where it is there, and nowhere else."""
    files = emit(named(name), "megatron")

    assert (FILE in files) == ("run_recipe.py" in files["README.md"])
