"""The short runs that would teach most about a plan's step time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ..costs import price
from ..costs.stage_counts import even_stages
from ..inputs import Frozen
from ..models import Strategy, Training
from ..plans import Plan
from ..plans.report import limit_bytes
from .facts import facts
from .fit import Array, Fit
from .measured import MeasuredStep, MeasuredSteps, unknowns_of

SHORT_STEPS = 20
MOST = 5
WORTH = 0.02
"""A further run is named while it narrows the plan's spread by so much of what was there at first."""


class Suggestion(Frozen):
    """One short run: what to change of the plan, and what it would tell."""

    changes: dict[str, int | str]
    """Fields of the strategy that differ from the plan's; empty: the plan itself."""
    steps: int
    step_seconds: float
    teaches: tuple[str, ...]
    """The constants it narrows most."""
    spread_percent_before: float
    spread_percent_after: float
    """Spread of the plan's predicted step time, one standard deviation, without and with this run."""


def suggest(plan: Plan) -> tuple[Suggestion, ...]:
    """Short runs on the same cards, each the one that narrows the plan's step time most after the former."""
    steps = [_step("plan", plan, plan.request.training, plan.strategy), *_variants(plan)]
    fit = Fit.start(MeasuredSteps(tuple(steps)), unknowns_of(steps))
    prior = np.diag([u.kin_spread**2 for u in fit.unknowns])
    return tuple(_chosen(fit, steps, prior, plan.strategy))


def _chosen(fit: Fit, steps: Sequence[MeasuredStep], prior: Array, base: Strategy) -> Iterator[Suggestion]:
    noise = facts("spreads")["run_spread"] ** 2
    goal = fit.slopes[0]
    covariance, left = prior, list(range(len(steps)))
    first = _spread(goal, covariance)
    for _ in range(MOST):
        before = _spread(goal, covariance)
        trials = [(_spread(goal, _seen(covariance, fit.slopes[i], noise)), i) for i in left]
        if not trials:
            return
        after, best = min(trials)
        if before - after < WORTH * first:
            return
        narrowed = _seen(covariance, fit.slopes[best], noise)
        gain: Array = 1.0 - np.sqrt(np.diag(narrowed) / np.diag(covariance))
        order = np.argsort(-gain, kind="stable")[:3].tolist()
        yield Suggestion(
            changes=_difference(base, steps[best].strategy),
            steps=SHORT_STEPS,
            step_seconds=round(float(fit.seconds[best]), 6),
            teaches=tuple(fit.unknowns[j].paths[0] for j in order if gain[j] > 0.01),
            spread_percent_before=round(before * 100.0, 2),
            spread_percent_after=round(after * 100.0, 2),
        )
        covariance = narrowed
        left.remove(best)


def _seen(covariance: Array, slope: Array, noise: float) -> Array:
    """The covariance of the constants after one run of that slope."""
    moved = covariance @ slope
    found: Array = covariance - np.outer(moved, moved) / (noise + slope @ moved)
    return found


def _spread(goal: Array, covariance: Array) -> float:
    variance = float(goal @ covariance @ goal)
    return float(np.sqrt(max(variance, 0.0)))


def _step(name: str, plan: Plan, training: Training, strategy: Strategy) -> MeasuredStep:
    request = plan.request
    return MeasuredStep(name, "", request.model, training, request.cluster, strategy, 1.0)


def _variants(plan: Plan) -> Iterator[MeasuredStep]:
    """Layouts near the plan's within its own limit of memory: other degrees, micro-batches, recompute."""
    request, base = plan.request, plan.strategy
    seen = {base}
    for strategy in (*_degrees(plan), *_micro_batches(base), *_recomputes(plan)):
        if strategy in seen or not _difference(base, strategy):
            continue
        seen.add(strategy)
        ledger = price(request.model, request.training, request.cluster, [strategy])[0]
        if ledger.peak_kib * 1024 <= limit_bytes(request, ledger):
            yield _step("variant", plan, request.training, strategy)


def _degrees(plan: Plan) -> Iterator[Strategy]:
    """Tensor parallel halved and doubled against data parallel."""
    base, node = plan.strategy, plan.request.cluster.node
    heads = min(kind.attention.heads for kind in plan.request.model.kinds)
    for tensor in (base.tensor_parallel // 2, base.tensor_parallel * 2):
        data, rest = divmod(base.data_parallel * base.tensor_parallel, max(tensor, 1))
        sequences = plan.request.training.global_batch_size
        batches, odd = divmod(sequences, max(data * base.micro_batch_size, 1))
        if tensor < 1 or tensor > node.gpus or heads % tensor or rest or odd or not batches or not data:
            continue
        shard = data * base.context_parallel if base.shard_group_size > 1 else 1
        yield base.model_copy(
            update={
                "tensor_parallel": tensor,
                "data_parallel": data,
                "shard_group_size": shard if base.zero_stage else 1,
                "gradient_accumulation_steps": batches,
                "sequence_parallel": tensor > 1,
            }
        )


def _micro_batches(base: Strategy) -> Iterator[Strategy]:
    """Micro-batches of half and of double the size."""
    for micro in (base.micro_batch_size // 2, base.micro_batch_size * 2):
        batches, odd = divmod(base.micro_batch_size * base.gradient_accumulation_steps, max(micro, 1))
        if micro >= 1 and not odd and batches:
            yield base.model_copy(update={"micro_batch_size": micro, "gradient_accumulation_steps": batches})


def _recomputes(plan: Plan) -> Iterator[Strategy]:
    """All layers recomputed, and none."""
    base = plan.strategy
    for word in ("full", "none"):
        offload = any(stage.offloaded_layers for stage in base.stages)
        stages = even_stages(plan.request.model.layers, base.pipeline_parallel, word, offload)
        yield base.model_copy(update={"stages": stages})


def _difference(base: Strategy, other: Strategy) -> dict[str, int | str]:
    """What `other` changes of `base`, recompute as its word."""
    mine, theirs = base.row(), other.row()
    found: dict[str, int | str] = {name: theirs[name] for name in mine if theirs[name] != mine[name]}
    if base.recompute != other.recompute:
        found["recompute"] = other.recompute
    return found
