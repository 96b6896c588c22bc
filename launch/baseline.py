"""The small run before the large one: the same work a card on the fewest machines, and how to compare."""

from __future__ import annotations

from math import gcd

from ..inputs import InputError
from ..inputs.quantity import gib, gibs
from ..inputs.release import ledger as ledger_now
from ..models.strategy import Strategy
from ..plans.plan import Plan
from ..plans.report import (
    bucket_report,
    cost_report,
    memory_report,
    price,
    time_report,
    traffic_report,
    verdict,
)
from ..plans.request import Request

FILE = "baseline.md"
COMPARE = "compare.sh"
HEAVY = 0.3
"""Share of communication in a step from which axis and link are named."""

AXES = {
    "tensor_comm": "tensor_parallel",
    "pipeline_comm": "pipeline_parallel",
    "context_comm": "context_parallel",
    "expert_comm": "expert_parallel",
    "data_comm_exposed": "data_parallel",
}
"""The axis behind each term of communication."""


def baseline(plan: Plan) -> Plan:
    """The layout of `plan` on as few whole machines as hold its model once, each card with the same work.

    Degrees that split the model stay, data parallel shrinks, and the global batch with it. Raises
    `InputError` where the plan already runs on those machines, or where its states need more cards.
    """
    strategy, cluster = plan.strategy, plan.request.cluster
    model = strategy.tensor_parallel * strategy.pipeline_parallel * strategy.context_parallel
    experts = strategy.expert_parallel * strategy.expert_tensor_parallel
    cards = max(cluster.node.gpus, model, experts)
    nodes, rest = divmod(cards, cluster.node.gpus)
    if rest or cards % model or strategy.world % cards:
        reason = f"{model} cards of one model fill no whole machines of {cluster.node.gpus}"
        raise InputError("strategy.tensor_parallel", strategy.tensor_parallel, "plan", reason)
    if cards >= strategy.world:
        reason = (
            f"the plan runs on {strategy.world} cards itself: there is nothing smaller to compare it with"
        )
        raise InputError("cluster.nodes", cluster.nodes, "plan", reason)
    small = _smaller(strategy, cards // model)
    return _priced(plan, _request(plan.request, small, nodes), small)


def _smaller(strategy: Strategy, ranks: int) -> Strategy:
    shared = strategy.shard_group_size
    group = min(shared, ranks * strategy.context_parallel) if strategy.zero_stage else shared
    second = gcd(strategy.secondary_shard_group_size, ranks)
    return strategy.model_copy(
        update={
            "data_parallel": ranks,
            "shard_group_size": group,
            "secondary_shard_group_size": second if second < ranks else 1,
        }
    )


def _request(request: Request, strategy: Strategy, nodes: int) -> Request:
    made = strategy.micro_batch_size * strategy.gradient_accumulation_steps * strategy.data_parallel
    training = request.training.model_copy(update={"global_batch_size": made, "total_tokens": None})
    cluster = request.cluster.model_copy(update={"nodes": nodes})
    return request.model_copy(update={"training": training, "cluster": cluster})


def _priced(plan: Plan, request: Request, strategy: Strategy) -> Plan:
    ledger = price(request, [strategy])[0]
    if verdict(ledger) == "does_not_fit":
        need, usable = gibs(1024 * ledger.peak_kib), gib(1024 * ledger.usable_kib)
        reason = f"its states need more cards: {need} of {usable} on {strategy.world}"
        raise InputError("cluster.nodes", request.cluster.nodes, "--baseline", reason)
    time = time_report(request, strategy, ledger)
    said = f"the layout of plan {plan.inputs_hash} with the same work a card, for comparison; not searched"
    proof = plan.proof.model_copy(update={"statement": said})
    return plan.model_copy(
        update={
            "status": "feasible",
            "inputs_hash": request.inputs_hash(),
            "request": request,
            "strategy": strategy,
            "placement": ledger.placement,
            "memory": memory_report(request, ledger),
            "time": time,
            "traffic": traffic_report(ledger),
            "cost": cost_report(request, time),
            "proof": proof,
            "buckets": bucket_report(ledger),
            "alternatives": (),
            "offers": (),
            "warnings": (),
            "digests": {},
            "versions": {**plan.versions, "ledger": ledger_now()},
        }
    )


def beside(plan: Plan, small: Plan) -> dict[str, str]:
    """What stands in the folder of the small run: the expectation and the command that compares, by name."""
    return {FILE: _expectation(plan, small), COMPARE: _COMPARE}


def heaviest(plan: Plan) -> str | None:
    """Axis and link of most of the communication, where that is a large part of the step.

    None below `HEAVY`.
    """
    time = plan.time
    terms = {name: time.terms_seconds.get(name, 0.0) for name in AXES}
    share = sum(terms.values()) / time.step_seconds
    if share < HEAVY:
        return None
    worst = max(terms, key=lambda name: terms[name])
    axis = AXES[worst]
    link = plan.placement.get(axis, "its link")
    return (
        f"Communication shows in {100 * share:.0f} % of the step, most of it ({terms[worst]:.2f} s) of "
        f"{axis} over {link}."
    )


def _expectation(plan: Plan, small: Plan) -> str:
    step, large = small.time.step_seconds, plan.time.step_seconds
    rows = [
        ("cards", f"{small.strategy.world}", f"{plan.strategy.world}"),
        ("sequences a step", *(str(each.request.training.global_batch_size) for each in (small, plan))),
        ("step, s", f"{step:.3f}", f"{large:.3f}"),
        ("tokens/s a card", *(f"{each.time.tokens_per_second_per_gpu:.0f}" for each in (small, plan))),
    ]
    table = "\n".join(f"| {' | '.join(row)} |" for row in (("", "this run", "the plan"), ("---",) * 3, *rows))
    heavy = [each for each in (heaviest(plan),) if each]
    return "\n\n".join(
        [
            "# The small run before the large one",
            "Each card does the work it does in the plan, so a perfect network gives equal steps. Expected:",
            table,
            f"Scaling efficiency {100 * step / large:.1f} %: the first number over the second.",
            *heavy,
            "`bash compare.sh LOG` reads the step of this run and compares it with its plan. Where it "
            "differs by more than the band in README.md, plan again with what it learns: "
            "`shardwise plan ... --site site.json`.",
            "",
        ]
    )


_COMPARE = """#!/usr/bin/env bash
# Compares the measured step with the plan: bash compare.sh LOG... (logs of this run, or a CSV of runs).
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
: "${1:?name the log of the run}"
shardwise calibrate "$@" --plan "$here/plan.json" -o "${SITE:-$here/site.json}" --force
"""
