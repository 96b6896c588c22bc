"""Optimizers as byte recipes: moments, with or without a master copy, and what a step moves."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

from ..inputs import InputError, nearest
from .recipe import Recipe, recipe, table
from .training import Optimizer, Training


def moment_bytes(optimizer: Optimizer) -> float:
    """Bytes a parameter of the moments `optimizer` keeps beside the master copy."""
    return float(table("optimizers")[optimizer]["moment_bytes"])


def short_moment_bytes(optimizer: Optimizer) -> float:
    """Bytes a parameter of the moments `optimizer` keeps beside 16-bit weights without a master copy."""
    return float(table("optimizers")[optimizer]["short_moment_bytes"])


def ends_bytes(training: Training) -> float:
    """Bytes a parameter that embedding and head keep beyond the moments of the layers' matrices.

    Muon steps matrices of layers alone; the ends stay with AdamW, which has a second moment.
    """
    times = float(table("optimizers")[training.optimizer].get("more_at_the_ends", 0.0))
    kept = moment_bytes if training.master_weights else short_moment_bytes
    return times * kept(training.optimizer)


def paged_bytes(optimizer: Optimizer) -> float:
    """Bytes a parameter of moments that page out to host memory."""
    return float(table("optimizers")[optimizer].get("paged_bytes", 0.0))


def step_traffic_bytes(training: Training) -> float:
    """Bytes a card reads and writes per local parameter in the optimizer step.

    Without a master copy: weights read and written, gradients read, moments read and written.
    """
    if training.master_weights:
        return float(table("optimizers")[training.optimizer]["step_traffic_bytes"])
    return 2.0 * (short_moment_bytes(training.optimizer) + paged_bytes(training.optimizer)) + 6.0


def by_operation_bytes(training: Training) -> float | None:
    """The same where Adam steps operation by operation over all parameters; None for other optimizers.

    Of weights 4 accesses, of gradients 2, of the first moment 3, of the second 5, and 6 of a temporary of its
    type (torch.optim.adam, ``_multi_tensor_adam``: mul, lerp, mul, addcmul, sqrt, div, add, addcdiv).

    >>> by_operation_bytes(Training(global_batch_size=1, sequence_length=1))
    80.0
    """
    if training.optimizer not in ("adamw", "adamw-bf16"):
        return None
    kept = moment_bytes if training.master_weights else short_moment_bytes
    width, moment = 4.0 if training.master_weights else 2.0, kept(training.optimizer) / 2.0
    return (4 + 2) * width + (3 + 5 + 6) * moment


def step_share(training: Training) -> float:
    """What a step moves over what AdamW with fp32 states moves, which rates of CPU Adam are measured with.

    >>> step_share(Training(global_batch_size=1, sequence_length=1, optimizer="adamw-8bit"))
    0.5333333333333333
    """
    return step_traffic_bytes(training) / float(table("optimizers")["adamw"]["step_traffic_bytes"])


def with_optimizer(base: Recipe, optimizer: Optimizer) -> Recipe:
    """`base` (an AdamW recipe) with the moments of another optimizer; the master copy stays.

    >>> with_optimizer(recipe("zero-paper"), "adamw-8bit").optimizer_bytes
    6.03125
    """
    if optimizer == "adamw":
        return base
    moments = base.optimizer_bytes - moment_bytes("adamw") + moment_bytes(optimizer)
    return replace(base, name=f"{base.name}/{optimizer}", optimizer_bytes=moments)


def without_master(base: Recipe, optimizer: Optimizer) -> Recipe:
    """16-bit weights, gradients and moments of `base`'s training, with no fp32 copy of anything.

    >>> without_master(recipe("fsdp2-fp32-shards-adamw"), "adamw").total_bytes
    8.0
    """
    return replace(
        base,
        name=f"{base.name}/{optimizer}/no-master",
        weights_bytes=2.0,
        gradients_bytes=2.0,
        optimizer_bytes=short_moment_bytes(optimizer),
        step_bytes=0.0,
        wire_gather_bytes=min(base.wire_gather_bytes, 2.0),
    )


def named_recipe(name: str, origin: str = "recipe") -> Recipe:
    """The recipe that a plan prints: BASE, BASE/OPTIMIZER or BASE/OPTIMIZER/no-master (`InputError`).

    >>> named_recipe("zero-paper/adamw-8bit/no-master").total_bytes
    6.03125
    """
    base, *words = name.split("/")
    found = recipe(base, origin)
    if not found.gradients_bytes:
        reason = "is the recipe of frozen weights: name that of what is trained"
        raise InputError("recipe", name, origin, reason, legal=["zero-paper", "pure-bf16"])
    if not words:
        return found
    optimizer = next((known for known in get_args(Optimizer) if known == words[0]), None)
    if optimizer is None or words[1:] not in ([], ["no-master"]):
        known = [f"{base}/{word}{tail}" for word in get_args(Optimizer) for tail in ("", "/no-master")]
        raise InputError("recipe", name, origin, "no such byte recipe", legal=nearest(name, known))
    return without_master(found, optimizer) if words[1:] else with_optimizer(found, optimizer)
