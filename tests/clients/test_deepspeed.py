"""The emitted `ds_config.json` in the real DeepSpeed, on two CPU ranks.

The files are loaded as they are written, precision included, with exactly one overlay: the optimizer
is torch's own (`torch_adam`), as DeepSpeed's fused one is compiled for a card.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from clients.ranks import run_ranks
from plans_by_hand import deepspeed, plan, stage

from shardwise.launch import emit

pytestmark = pytest.mark.clients

WORLD, PARAMETERS, LAYERS = 2, 180_800, 4
ACCUMULATED: dict[str, Any] = {"micro_batch_size": 2, "gradient_accumulation_steps": 2}
PLANS = {
    **{
        f"fp32 zero {z}": deepspeed(z, WORLD, precision="fp32", gradient_dtype="fp32", **ACCUMULATED)
        for z in range(4)
    },
    **{f"bf16 zero {z}": deepspeed(z, WORLD, **ACCUMULATED) for z in range(4)},
    **{
        f"bf16 fp32 gradients zero {z}": deepspeed(z, WORLD, gradient_dtype="fp32", **ACCUMULATED)
        for z in (1, 2, 3)
    },
    "hpz": deepspeed(3, WORLD, secondary_shard_group_size=WORLD, **ACCUMULATED),
    "bf16 zero 3 recompute": deepspeed(3, WORLD, stages=stage(recompute_full_layers=4), **ACCUMULATED),
    "bf16 zero 2 offload": deepspeed(
        2, WORLD, offload_optimizer="cpu", stages=stage(offloaded_layers=4), **ACCUMULATED
    ),
}


def emitted(name: str) -> dict[str, Any]:
    """The configuration of a plan as written, and nothing but the overlay."""
    written = json.loads(emit(plan(PLANS[name]), "deepspeed")["ds_config.json"])
    written["optimizer"]["params"]["torch_adam"] = True
    return dict(written)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """What both ranks tell of all plans, trained one after the other."""
    job = {
        name: {"config": emitted(name), "refused": False, "recompute": strategy.recompute == "full"}
        for name, strategy in PLANS.items()
    }
    sgd = json.loads(
        emit(plan(deepspeed(2, WORLD, **ACCUMULATED), optimizer="sgd"), "deepspeed")["ds_config.json"]
    )
    job["sgd zero 2"] = {"config": sgd, "refused": False, "recompute": False}
    misspelt = emitted("bf16 zero 2")
    misspelt["zero_optimization"]["reduce_bucket_sizes"] = misspelt["zero_optimization"].pop(
        "reduce_bucket_size"
    )
    job["misspelt"] = {"config": misspelt, "refused": True, "recompute": False}
    wrong = emitted("bf16 zero 2") | {"train_batch_size": 12}
    job["wrong batch"] = {"config": wrong, "refused": True, "recompute": False}
    return run_ranks("worker_deepspeed.py", job, WORLD, tmp_path_factory.mktemp("deepspeed"), 300)


@pytest.mark.parametrize("name", PLANS)
def test_the_engine_has_what_the_plan_says(found: list[Any], name: str) -> None:
    """Stage, world, batch triad, clipping, types and bucket sizes, read back from the engine of each rank."""
    strategy, written = PLANS[name], emitted(name)
    for rank in found:
        engine = rank[name]

        assert engine["stage"] == strategy.zero_stage
        assert engine["world"] == WORLD
        assert engine["batch"] == [8, 2, 2]
        assert engine["clip"] == 1.0
        assert engine["dtypes"][0] == {"bf16": "bfloat16", "fp32": "float32"}[strategy.precision]
        assert engine["dtypes"][1] == {"bf16": "bfloat16", "fp32": "float32"}[strategy.gradient_dtype]
        if strategy.zero_stage:
            assert engine["overlap"] is True
            assert engine["reduce_bucket"] == written["zero_optimization"]["reduce_bucket_size"] == 50_000
        if strategy.zero_stage == 3:
            assert (engine["prefetch_bucket"], engine["persistence"], engine["max_live"]) == (
                7_000,
                80,
                100_000,
            )
        assert ("cpu" in engine["offload"]) == (strategy.offload_optimizer == "cpu")


@pytest.mark.parametrize("name", PLANS)
def test_each_rank_holds_its_share(found: list[Any], name: str) -> None:
    """Master weights are cut from stage 1 on, the weights themselves at stage 3; every size is even."""
    stage_number = PLANS[name].zero_stage
    for rank in found:
        assert rank[name]["masters"] == (PARAMETERS // WORLD if stage_number else PARAMETERS)
        assert rank[name]["weights"] == (PARAMETERS // WORLD if stage_number == 3 else PARAMETERS)


@pytest.mark.parametrize("name", PLANS)
def test_losses_are_equal(found: list[Any], name: str) -> None:
    """Five steps on one batch against ordinary training on one process, which lowers the loss by 0.08.

    float32 within 2e-5; bfloat16 within 8e-3, and under ZeRO within 1e-3 of each other. Without ZeRO
    DeepSpeed's wrapper of torch's AdamW first takes a step on zero gradients in bfloat16: its twin does too.
    """
    strategy, losses = PLANS[name], found[0][name]["losses"]
    ahead = strategy.precision == "bf16" and not strategy.zero_stage
    plain = found[0]["plain, one step ahead" if ahead else "plain"]["losses"]

    assert losses == found[1][name]["losses"]
    assert losses[0] - losses[-1] > 0.06
    assert losses == pytest.approx(plain, abs=2e-5 if strategy.precision == "fp32" else 8e-3)
    if strategy.precision == "bf16" and strategy.zero_stage:
        assert losses == pytest.approx(found[0]["bf16 zero 2"]["losses"], abs=1e-3)


@pytest.mark.parametrize("name", [name for name, strategy in PLANS.items() if strategy.zero_stage])
def test_gradient_norms_are_equal(found: list[Any], name: str) -> None:
    """Norms before clipping, which show a wrong mean over ranks or micro-batches that AdamW would hide."""
    precise = PLANS[name].precision == "fp32"

    assert found[0][name]["norms"] == pytest.approx(found[0]["plain"]["norms"], rel=1e-4 if precise else 2e-2)


def test_hpz_keeps_a_second_copy_of_the_weights(found: list[Any]) -> None:
    """The same losses as plain ZeRO-3 and the same shards; beside them a shard of a second copy.

    Before a step the copy is N / g elements, as the ledger has it; the step drops it.
    """
    for rank in found:
        assert rank["hpz"]["losses"] == rank["bf16 zero 3"]["losses"]
        assert rank["hpz"]["weights"] == rank["hpz"]["masters"] == PARAMETERS // WORLD
        assert rank["hpz"]["second_copy"] == PARAMETERS // WORLD
        assert rank["bf16 zero 3"]["second_copy"] == 0


def test_sgd_is_found_by_its_name(found: list[Any]) -> None:
    """DeepSpeed knows no SGD of its own and takes torch's, which ZeRO accepts as untested."""
    assert found[0]["sgd zero 2"]["basic"] == "SGD"
    assert found[0]["sgd zero 2"]["masters"] == PARAMETERS // WORLD


@pytest.mark.parametrize(
    ("name", "word"), [("misspelt", "reduce_bucket_sizes"), ("wrong batch", "train_batch_size")]
)
def test_a_wrong_key_or_batch_fails(found: list[Any], name: str, word: str) -> None:
    """One wrong key in the file, and the client that trains the other files refuses this one."""
    for rank in found:
        assert rank[name]["error"] is not None
        assert word in rank[name]["error"]
