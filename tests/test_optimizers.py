"""Optimizers as data: what their moments take beside weights, gradients and a master copy."""

from __future__ import annotations

from typing import get_args

import pytest

from shardwise import Cluster, Request, price
from shardwise.inputs import InputError
from shardwise.models.optimizer import (
    by_operation_bytes,
    moment_bytes,
    named_recipe,
    step_traffic_bytes,
    with_optimizer,
)
from shardwise.models.recipe import recipe, table
from shardwise.models.training import Optimizer, Training
from shardwise.plans import read_strategy

OPTIMIZERS = get_args(Optimizer)


def test_every_optimizer_has_its_facts_and_a_source() -> None:
    """The words of the type are those of the catalogue, no more and no fewer."""
    assert sorted(OPTIMIZERS) == sorted(table("optimizers"))
    assert all(len(entry["source"].split()) > 3 for entry in table("optimizers").values())


@pytest.mark.parametrize(
    ("optimizer", "total"),
    [("adamw", 16), ("adamw-bf16", 12), ("adamw-8bit", 10.03125), ("lion", 12), ("muon", 12), ("sgd", 12)],
)
def test_bytes_a_parameter_of_mixed_precision_training(optimizer: Optimizer, total: float) -> None:
    """2 of weights, 2 of gradients, 4 of a master copy, and the moments: 16 for AdamW (arXiv 1910.02054)."""
    assert with_optimizer(recipe("zero-paper"), optimizer).total_bytes == total


def test_adafactor_keeps_next_to_nothing() -> None:
    """Rows and columns of sums: below a hundredth of AdamW's moments (arXiv 1804.04235)."""
    assert 0 < moment_bytes("adafactor") < 0.01 * moment_bytes("adamw")


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_step_moves_at_least_what_it_holds(optimizer: Optimizer) -> None:
    """Moments are read and written, the master copy too, and the gradient is read."""
    job = Training(global_batch_size=1, sequence_length=1, optimizer=optimizer)
    assert step_traffic_bytes(job) >= 2 * moment_bytes(optimizer) + 8 + 2


@pytest.mark.parametrize(("master", "accesses"), [(True, 20 * 4), (False, 20 * 2)])
def test_adam_operation_by_operation_passes_over_its_states_twenty_times(master: bool, accesses: int) -> None:
    """mul 2, lerp 3, mul 2, addcmul 3, sqrt 2, div 2, add 2, addcdiv 4, of 4 bytes or of 2 without a copy."""
    job = Training(global_batch_size=1, sequence_length=1, master_weights=master)
    assert by_operation_bytes(job) == accesses > 2 * step_traffic_bytes(job)


def test_a_stack_whose_adam_is_not_fused_steps_longer() -> None:
    """Twice and two thirds: 80 bytes over 30; plain gradient descent takes as long under both."""

    def seconds(stack: str, optimizer: Optimizer) -> int:
        training = Training(global_batch_size=8, sequence_length=1024, optimizer=optimizer)
        request = Request(model="llama-3.2-1b", cluster=Cluster.preset("dgx-a100-80gb"), training=training)
        words = {"backend": "fsdp", "zero_stage": 3, "software_stack": stack}
        return price(request, read_strategy(words, request.model, "test", training, 8)).terms_ns["optimizer"]

    assert seconds("fsdp-eager-2023", "adamw") == pytest.approx(
        80 / 30 * seconds("torchtune-eager-2024", "adamw"), rel=1e-3
    )
    assert seconds("fsdp-eager-2023", "sgd") == seconds("torchtune-eager-2024", "sgd")


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_only_the_moments_of_a_recipe_change(optimizer: Optimizer) -> None:
    """Weights, gradients and what crosses links stay."""
    base = recipe("megatron-bf16-adamw")
    found = with_optimizer(base, optimizer)

    assert found.optimizer_bytes - base.optimizer_bytes == pytest.approx(moment_bytes(optimizer) - 8)
    assert (found.weights_bytes, found.gradients_bytes) == (base.weights_bytes, base.gradients_bytes)
    assert found.wire_reduce_bytes == base.wire_reduce_bytes


@pytest.mark.parametrize(
    ("name", "total"),
    [
        ("zero-paper", 16),
        ("zero-paper/adamw-8bit", 10.03125),
        ("zero-paper/adamw-8bit/no-master", 6.03125),
        ("zero-paper/adamw/no-master", 8),
        ("zero-paper/sgd-no-momentum/no-master", 4),
        ("megatron-bf16-adamw/lion", 14),
    ],
)
def test_recipes_are_spelled_as_plans_print_them(name: str, total: float) -> None:
    """Base, optimizer, and whether an fp32 copy is kept: 6.03 for 8-bit AdamW without one (bitsandbytes)."""
    assert named_recipe(name).total_bytes == total


@pytest.mark.parametrize("name", ["zero-paper/adamw-9bit", "zero-paper/adamw/master", "zero", "nf4"])
def test_other_spellings_are_refused_with_near_ones(name: str) -> None:
    """Unknown optimizers and endings, and the recipes of frozen weights."""
    with pytest.raises(InputError) as caught:
        named_recipe(name, "--recipe")
    assert caught.value.legal
