"""The ladder: from plain data parallel to the plan, lever by lever, with memory bought and seconds paid."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..models import Strategy
from ..models.strategy import Stage
from ..plans import Plan, Request, Rung, read_strategy
from ..plans.report import host_verdict, price, seconds, verdict


def ladder(request: Request, plan: Plan) -> tuple[Rung, ...]:
    """Rungs in the order to reach for them; the last one is the plan.

    Plain data parallel with one sequence a pass on these cards; then shard the optimizer, the gradients and
    the weights; recompute; offload; and where none of that is what the plan does, the plan's own cut of the
    model. Rungs past the first that fits are left out but for the plan. Empty where the batch does not
    divide over the cards.
    """
    steps = list(_rungs(request, plan))
    if not steps:
        return ()
    ledgers = price(request, [strategy for _, _, strategy in steps])
    found: list[Rung] = []
    for (lever, said, strategy), ledger in zip(steps, ledgers, strict=True):
        worst = {verdict(ledger), host_verdict(request, ledger)}
        word = next(w for w in ("does_not_fit", "risky", "fits") if w in worst)
        rung = Rung(
            lever=lever,
            set=said,
            memory_bytes=ledger.peak_kib * 1024,
            step_seconds=seconds(ledger.step_ns),
            verdict=word,
        )
        last = strategy == plan.strategy
        if last or not any(other.verdict == "fits" for other in found):
            found.append(rung)
    return tuple(found)


def _rungs(request: Request, plan: Plan) -> Iterator[tuple[str, str, Strategy]]:
    """(lever, what to set, strategy) up to the plan."""
    cards, batch = request.cluster.gpus, request.training.global_batch_size
    if batch % cards == 0:
        plain: dict[str, Any] = {"zero_stage": 0, "shard_group_size": 1, "reshard_after_forward": False}
        yield "plain data parallel", "zero_stage=0", _data_parallel(request, plan, plain)
        for stage, held in ((1, "optimizer"), (2, "gradients"), (3, "weights")):
            shard = {"zero_stage": stage, "shard_group_size": cards, "reshard_after_forward": stage == 3}
            yield f"shard the {held}", f"zero_stage={stage}", _data_parallel(request, plan, shard)
        full = {**shard, "recompute": "full"}
        yield "recompute every layer", "recompute=full", _data_parallel(request, plan, full)
        cpu = {**full, "offload_optimizer": "cpu"}
        yield "offload the optimizer", "offload_optimizer=cpu", _data_parallel(request, plan, cpu)
    s = plan.strategy
    yield "the plan", f"backend={s.backend}", s


def _data_parallel(request: Request, plan: Plan, fields: dict[str, Any]) -> Strategy:
    """A data-parallel strategy of DeepSpeed with one sequence a pass, even in all layers."""
    layers = request.model.layers
    word = fields.pop("recompute", None) if "recompute" in fields else None
    moved = fields.get("offload_optimizer") == "cpu"
    stage = Stage(
        layers=layers,
        recompute_full_layers=layers if word == "full" else 0,
        recompute_selective_layers=0,
        offloaded_layers=layers if moved else 0,
    )
    data = {
        "backend": "deepspeed",
        "data_parallel": request.cluster.gpus,
        "micro_batch_size": 1,
        "precision": plan.strategy.precision if plan.strategy.precision in ("bf16", "fp16") else "bf16",
        "stages": [stage.model_dump()],
        **fields,
    }
    return read_strategy(data, request.model, "ladder", request.training)
