"""Fifty random plans and one that trains a predictor through Megatron-LM's own three checks.

`MEGATRON_LM` names a folder that holds it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from megatron_by_hand import argv, named
from random_plans import random_plans

from shardwise.plans import Plan

pytestmark = pytest.mark.e2e
STEPS = Path(__file__).with_name("megatron_steps.py")
CHECKOUT = os.environ.get("MEGATRON_LM", "")
ONLY_HERE = ["--no-rope-fusion"]
"""Transformer Engine, which fuses rotary positions, is not installed beside the test."""


@pytest.fixture(scope="module")
def plans() -> list[Plan]:
    """The same each time."""
    return [*random_plans("megatron", 50, seed=5), named("megatron_deepseek_predicting")]


@pytest.fixture(scope="module")
def told(plans: list[Plan], tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """What the client understands of each, and of one wrong list at the end."""
    if not Path(CHECKOUT, "megatron", "training").is_dir():
        pytest.skip("MEGATRON_LM names no folder with Megatron-LM: a checkout, or an unpacked wheel")
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("megatron")
    cases = [{"arguments": [*argv(plan, folder), *ONLY_HERE], "world": plan.strategy.world} for plan in plans]
    wrong = [*argv(plans[0], folder), *ONLY_HERE, "--tensor-model-parallel-size", "3"]
    cases.append({"arguments": wrong, "world": plans[0].strategy.world})
    (folder / "cases.json").write_text(json.dumps(cases), encoding="utf-8")
    words = [sys.executable, str(STEPS), str(folder / "cases.json"), str(folder / "told.json")]
    done = subprocess.run(
        words,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([CHECKOUT, os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return list(json.loads((folder / "told.json").read_text(encoding="utf-8")))


def test_all_three_steps_take_our_arguments(plans: list[Plan], told: list[Any]) -> None:
    """Parsed, validated in the plan's world, made a configuration of the plan's degrees."""
    for plan, found in zip(plans, told, strict=False):
        strategy = plan.strategy

        assert found["step"] == "all", found["error"]
        assert found["data_parallel"] == strategy.data_parallel
        assert (found["tensor"], found["pipeline"]) == (strategy.tensor_parallel, strategy.pipeline_parallel)
        assert found["context"] == strategy.context_parallel
        assert found["recompute"] == (None if strategy.recompute == "none" else strategy.recompute)
        assert found["layers"] == plan.request.model.layers - plan.request.model.mtp_layers


def test_it_understands_the_numbers_of_the_model(plans: list[Plan], told: list[Any]) -> None:
    """Epsilon, first weights, rotary positions and routing arrive as the config.json has them."""
    for plan, found in zip(plans, told, strict=False):
        known, numbers = plan.request.model.constants, found["numbers"]
        if known is None:
            continue
        rotary, routing = known.rotary, known.routing
        scaling = rotary.scaling if rotary else None

        assert numbers["norm_epsilon"] == known.norm_epsilon
        assert numbers["initial_deviation"] == known.initial_deviation
        assert rotary is None or numbers["base"] == rotary.base
        assert numbers["scaled"] == (scaling is not None and scaling.kind == "llama3")
        if scaling is not None and scaling.kind == "yarn":
            assert numbers["yarn"] == ["yarn", scaling.factor, scaling.mscale, scaling.mscale_all_dim]
        if routing is not None:
            groups, scale = (None if each == 1 else each for each in (routing.groups, routing.scale))
            pre = routing.score == "softmax" and not routing.normalised

            assert numbers["router"] == [routing.score, pre, groups, scale]


def test_a_wrong_degree_is_refused(told: list[Any]) -> None:
    """The steps that take ours refuse three ranks of a model in a world that is no multiple of three."""
    assert told[-1]["step"] != "all"
