"""From a plan to the files of a client, or the reason why that client cannot have it."""

from __future__ import annotations

from collections.abc import Mapping

from ..inputs import InputError, nearest
from ..inputs.kinds import refuse_other
from ..models.strategy import BackendName, Strategy
from ..models.transformer import Transformer
from ..plans.plan import Plan
from . import optimizers, ways
from .refused import Objection, Refused
from .target import TARGETS, Target


def targets() -> tuple[str, ...]:
    """Names of all clients that can be written for."""
    return tuple(TARGETS)


def backends_of(target: str) -> tuple[BackendName, ...]:
    """The backends whose plans `target` writes, the usual one first."""
    return _target(target).backends


def narrowings(target: str) -> tuple[dict[str, object], ...]:
    """Values of `choose`, by name, whose plans `target` writes; solve each and keep the best.

    What a model or a card forbids is not known here, nor can `choose` hold a number of layers to all
    or none: `refusal` has the last word.

    >>> narrowings("megatron")
    ({'backend': 'megatron'},)
    """
    return tuple(dict(narrowing) for narrowing in _target(target).narrowings)


def writable_by(plan: Plan) -> tuple[str, ...]:
    """The targets that can write `plan`: its layout, its optimizer and what it trains."""
    return tuple(name for name in TARGETS if objection(plan, name) is None)


def refusal(strategy: Strategy, model: Transformer, target: str) -> Objection | None:
    """The first choice that `target` cannot express, None when it can write all."""
    return next(_target(target).objections(strategy, model), None)


def objection(plan: Plan, target: str) -> Objection | None:
    """The first part of `plan`, layout or job, that `target` cannot write, None when it can write all."""
    return (
        refusal(plan.strategy, plan.request.model, target)
        or next(optimizers.objections(plan, target), None)
        or next(_target(target).training(plan), None)
        or next(ways.objections(plan, target), None)
    )


def emit(plan: Plan, target: str, beside: Mapping[str, str] | None = None) -> dict[str, str]:
    """File name to text, in a fixed order; equal plans give equal bytes. `beside` are further files.

    Raises `Refused` (code "cannot-write") when `target` cannot express the plan, and `InputError`
    for a name that is no target or a plan whose batch sizes contradict each other.
    """
    refuse_other(plan, Plan)
    chosen = _target(target)
    against = objection(plan, target)
    if against is not None:
        own = plan.strategy.backend
        raise Refused(target, own if own in chosen.backends else chosen.backends[0], against)
    _whole_batch(plan)
    from .folder import folder

    return folder(plan, chosen, beside or {})


def _target(name: str) -> Target:
    if name not in TARGETS:
        raise InputError(
            "to", name, "--to", "no such target", legal=nearest(name, TARGETS), code="unknown-name"
        )
    return TARGETS[name]


def _whole_batch(plan: Plan) -> None:
    strategy, asked = plan.strategy, plan.request.training.global_batch_size
    made = strategy.micro_batch_size * strategy.gradient_accumulation_steps * strategy.data_parallel
    if made != asked:
        reason = f"micro-batch, accumulation and data parallel make {made} sequences a step"
        raise InputError("training.global_batch_size", asked, "plan", reason)
