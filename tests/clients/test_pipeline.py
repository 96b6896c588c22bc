"""The stages of a plan, read from the emitted layout, in PyTorch's own 1F1B on four gloo ranks."""

from __future__ import annotations

import re
from typing import Any

import pytest
from clients.ranks import run_ranks
from plans_by_hand import megatron, plan, tiny

from shardwise.launch import emit
from shardwise.launch.megatron.layout import layers_of
from shardwise.models import Run, Stage, Strategy

pytestmark = pytest.mark.clients

WORLD, LAYER, TABLE, NORM = 4, 64 * (64 + 2 * 32 + 64) + 3 * 64 * 128 + 2 * 64, 256 * 64, 64
"""Parameters of a layer, of embedding or head, of the last norm, in the tiny model."""


def stages(*layers: int) -> Strategy:
    """A pipeline of those layers over four ranks, six micro-batches of two sequences."""
    held = tuple(Stage(layers=count) for count in layers)
    return megatron(0, 1, stages=held, gradient_accumulation_steps=6, micro_batch_size=2)


PLANS = {"uneven": stages(1, 3, 3, 1), "first short": stages(1, 2, 2, 3), "even": stages(2, 2, 2, 2)}


def layers_written(strategy: Strategy) -> list[int]:
    """Layers of each stage as the emitted arguments say them."""
    total = strategy.layers
    model = tiny().model_copy(update={"runs": (Run(block=tiny().runs[0].block, layers=total),)})
    text = emit(plan(strategy, model=model), "megatron")["megatron_args.sh"]
    spelt = re.search(r"--pipeline-model-parallel-layout '?([^'\s]+)'?", text)
    return layers_of(spelt[1]) if spelt else [total // WORLD] * WORLD


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """What the four ranks tell of all plans."""
    job = {
        name: {"layers": layers_written(strategy), "micro_batches": 6, "micro_batch_size": 2}
        for name, strategy in PLANS.items()
    }
    return run_ranks("worker_pipeline.py", job, WORLD, tmp_path_factory.mktemp("pipeline"), 200)


@pytest.mark.parametrize("name", PLANS)
def test_losses_equal_those_of_one_process(found: list[Any], name: str) -> None:
    """Three steps; the last stage knows the loss."""
    losses = found[-1][name]["losses"]

    assert losses == pytest.approx(found[0][name]["plain"], abs=2e-5)
    assert losses[0] > losses[-1]


@pytest.mark.parametrize("name", PLANS)
def test_each_rank_holds_the_layers_of_its_stage(found: list[Any], name: str) -> None:
    """Layers of the plan's stage; embedding on the first, norm and head on the last."""
    for rank, stage in enumerate(PLANS[name].stages):
        ends = TABLE * (rank == 0) + (TABLE + NORM) * (rank == WORLD - 1)

        assert found[rank][name]["layers"] == stage.layers
        assert found[rank][name]["elements"] == stage.layers * LAYER + ends
