"""The emitted `ds_config.json` of ranks that share a sequence, in the real DeepSpeed on four CPU ranks."""

from __future__ import annotations

import json
from typing import Any

import pytest
from clients.ranks import run_ranks
from plans_by_hand import deepspeed, plan, stage

from shardwise.launch import emit

pytestmark = pytest.mark.clients

WORLD, PARAMETERS = 4, 180_800
FP32: dict[str, Any] = {"precision": "fp32", "gradient_dtype": "fp32"}
PLANS = {
    "zero 1": deepspeed(1, 2, context_parallel=2, micro_batch_size=2, **FP32),
    "zero 3": deepspeed(
        3, 2, context_parallel=2, gradient_accumulation_steps=2, stages=stage(recompute_full_layers=4), **FP32
    ),
}


@pytest.fixture(scope="module", params=PLANS)
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, list[Any]]:
    """A plan, and what four ranks tell of it: two sequences, each over two neighbours."""
    strategy = PLANS[request.param]
    config = json.loads(emit(plan(strategy), "deepspeed")["ds_config.json"])
    config["optimizer"]["params"]["torch_adam"] = True
    job = {"plan": {"config": config, "refused": False, "recompute": strategy.recompute == "full"}}
    return strategy, run_ranks("worker_deepspeed.py", job, WORLD, tmp_path_factory.mktemp("ulysses"), 200)


def test_the_engine_has_what_the_plan_says(found: tuple[Any, list[Any]]) -> None:
    """The batch of two data ranks, and states cut over all four."""
    strategy, ranks = found
    for rank in ranks:
        engine = rank["plan"]

        assert engine["batch"] == [4, strategy.micro_batch_size, strategy.gradient_accumulation_steps]
        assert engine["masters"] == PARAMETERS // WORLD
        assert engine["weights"] == (PARAMETERS // WORLD if strategy.zero_stage == 3 else PARAMETERS)


def test_losses_and_norms_equal_those_of_one_process(found: tuple[Any, list[Any]]) -> None:
    """Five steps in float32, attention over whole sequences: losses within 2e-5, norms within 1e-4.

    The norms also show what the README says: only below ZeRO stage 3 a script divides by the ranks.
    """
    ranks = found[1]
    plain = ranks[0]["plain"]
    for rank in ranks:
        losses = rank["plan"]["losses"]

        assert losses[0] - losses[-1] > 0.06
        assert losses == pytest.approx(plain["losses"], abs=2e-5)
        assert rank["plan"]["norms"] == pytest.approx(plain["norms"], rel=1e-4)
