"""Lion in the real DeepSpeed: its own CPU optimizer, compiled here, under ZeRO 2 with states on the host."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest
from clients.ranks import run_ranks
from plans_by_hand import deepspeed, plan, stage

from shardwise.launch import emit

pytestmark = [pytest.mark.clients, pytest.mark.slow]

WORLD, PARAMETERS = 2, 180_800


@pytest.mark.skipif(not shutil.which("c++"), reason="no compiler for DeepSpeed's CPU Lion")
def test_lion_is_built_and_lowers_the_loss(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The file as it is written, nothing laid over it: DeepSpeed's own Lion steps half the weights a rank."""
    strategy = deepspeed(
        2, WORLD, offload_optimizer="cpu", stages=stage(offloaded_layers=4), gradient_accumulation_steps=2
    )
    lion = json.loads(emit(plan(strategy, optimizer="lion"), "deepspeed")["ds_config.json"])
    adamw = json.loads(emit(plan(deepspeed(2, WORLD)), "deepspeed")["ds_config.json"])
    adamw["optimizer"]["params"]["torch_adam"] = True
    job = {"adamw": adamw, "lion": lion}
    cases = {name: {"config": config, "refused": False, "recompute": False} for name, config in job.items()}
    found: list[Any] = run_ranks("worker_deepspeed.py", cases, WORLD, tmp_path_factory.mktemp("lion"), 540)

    for rank in found:
        losses = rank["lion"]["losses"]

        assert rank["lion"]["basic"] == "DeepSpeedCPULion"
        assert rank["lion"]["masters"] == PARAMETERS // WORLD
        assert losses[0] - losses[-1] > 0.06
        assert losses == found[0]["lion"]["losses"]
