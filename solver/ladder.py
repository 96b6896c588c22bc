"""The ladder: from plain data parallel to the plan, lever by lever, with memory bought and seconds paid."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ..costs import Ledger
from ..inputs import InputError
from ..models import Strategy
from ..models.backend import backend
from ..models.optimizer import moment_bytes
from ..models.overlap import DATA_SWITCHES, knob
from ..models.strategy import Stage
from ..models.training import Optimizer
from ..plans import Plan, Request, Rung, read_strategy
from ..plans.report import host_verdict, price_each, seconds, verdict
from .overlapping import overlaps_tensor

LIGHT: Optimizer = "adamw-8bit"
"""The optimizer of the lever that makes moments small."""


class Lever(NamedTuple):
    """A lever: its name, what to set for it, and the strategy of the request it leads to.

    One that stands aside changes the job or the machines; the levers after it do without it. `plan`: it is
    the plan, or shows what a switch of it does, and is never left out.
    """

    name: str
    set: str
    request: Request
    strategy: Strategy
    aside: bool = False
    plan: bool = False


def ladder(request: Request, plan: Plan) -> tuple[Rung, ...]:
    """Rungs in the order to reach for them; the last one is the plan.

    Plain data parallel with one sequence a pass on these cards; then shard the optimizer, the gradients and
    the weights, before them reductions after the backward pass, which need one bucket less; twice the cards,
    aside; recompute; offload; 8-bit moments, aside; the plan's own cut of the model without its overlap, and
    with it. Rungs past the first that fits are left out but for these two. Empty where the batch does not
    divide over the cards.
    """
    found: list[Rung] = []
    below: Rung | None = None
    levers = list(_levers(request, plan))
    ledgers = _priced(levers)
    for index, lever in enumerate(levers):
        kept = lever.plan or lever.strategy == plan.strategy
        if not kept and below is not None and below.verdict == "fits":
            continue
        rung = _rung(lever, ledgers[index] if index in ledgers else _alone(lever), below)
        found.append(rung)
        below = below if lever.aside else rung
    return tuple(found) if len(found) > 1 else ()


def _priced(levers: Sequence[Lever]) -> dict[int, Ledger]:
    """The ledgers of the levers of the plan's own job, which are priced together, by their place."""
    own = [index for index, lever in enumerate(levers) if lever.request is levers[-1].request]
    ledgers = price_each([(levers[index].request, levers[index].strategy) for index in own])
    return dict(zip(own, ledgers, strict=True))


def _alone(lever: Lever) -> Ledger:
    """The ledger of a lever that changes the job or the machines."""
    return price_each([(lever.request, lever.strategy)])[0]


def _rung(lever: Lever, ledger: Ledger, below: Rung | None) -> Rung:
    """What a lever leads to, against the rung it starts from."""
    memory, step = ledger.peak_kib * 1024, seconds(ledger.step_ns)
    worst = {verdict(ledger), host_verdict(lever.request, ledger)}
    return Rung(
        lever=lever.name,
        set=lever.set,
        memory_bytes=memory,
        step_seconds=step,
        bought_bytes=0 if below is None else below.memory_bytes - memory,
        paid_seconds=0.0 if below is None else round(step - below.step_seconds, 9),
        hidden_seconds=seconds(sum(ledger.hidden_ns.values())),
        verdict=next(word for word in ("does_not_fit", "risky", "fits") if word in worst),
    )


def _levers(request: Request, plan: Plan) -> Iterator[Lever]:
    """The levers up to the plan."""
    cards, batch = request.cluster.gpus, request.training.global_batch_size
    if batch % cards == 0 and request.training.optimizer in backend("deepspeed").optimizers:
        plain: dict[str, Any] = {
            "zero_stage": 0, "shard_group_size": 1, "secondary_shard_group_size": 1,
            "reshard_after_forward": False,
        }  # fmt: skip
        yield _data_parallel("plain data parallel", "zero_stage=0", request, plan, plain)
        for stage, held in ((1, "optimizer"), (2, "gradients"), (3, "weights")):
            shard = {
                **plain, "zero_stage": stage, "shard_group_size": cards, "reshard_after_forward": stage == 3,
            }  # fmt: skip
            yield _data_parallel(f"shard the {held}", f"zero_stage={stage}", request, plan, shard)
            if stage == 2:
                after = {**shard, knob("gradient_reduce"): False}
                name, said = "reduce them after the backward", f"{knob('gradient_reduce')}=false"
                yield _data_parallel(name, said, request, plan, after)
        yield from _twice(request, plan, shard)
        full = {**shard, "recompute": "full"}
        yield _data_parallel("recompute every layer", "recompute=full", request, plan, full)
        cpu = {**full, "offload_optimizer": "cpu"}
        yield _data_parallel("offload the optimizer", "offload_optimizer=cpu", request, plan, cpu)
        yield from _light(request, plan, full)
    s = plan.strategy
    yield from _switched(request, s)
    yield Lever(f"the plan ({_cut(s)})", f"backend={s.backend}", request, s, plan=True)


def _switched(request: Request, s: Strategy) -> Iterator[Lever]:
    """The strategy with the overlap of data or tensor ranks switched the other way, where that is legal."""
    known = backend(s.backend)
    for switch, what in (("gradient_reduce", "overlap"), ("tensor_parallel", "tensor overlap")):
        name, on = knob(switch), not getattr(s, knob(switch))
        more = known.overlap.usual(s.zero_stage, {name: on}) if switch in DATA_SWITCHES else {name: on}
        other = s.model_copy(update=more)
        if known.refuses_overlap(other) or (switch == "tensor_parallel" and not overlaps_tensor(request, s)):
            continue
        words = f"the plan {'with' if on else 'without'} {what}"
        yield Lever(words, f"{name}={str(on).lower()}", request, other, plan=True)


def _cut(strategy: Strategy) -> str:
    """How the plan cuts the model, in the words of its degrees."""
    degrees = {
        "tp": strategy.tensor_parallel,
        "pp": strategy.pipeline_parallel,
        "cp": strategy.context_parallel,
        "ep": strategy.expert_parallel,
    }
    words = [f"{name} {degree}" for name, degree in degrees.items() if degree > 1]
    return ", ".join([strategy.backend, f"zero {strategy.zero_stage}", *words])


def _twice(request: Request, plan: Plan, shard: dict[str, Any]) -> Iterator[Lever]:
    """Sharding over twice the machines, where the batch divides over them."""
    nodes = 2 * request.cluster.nodes
    try:
        larger = request.changed({"cluster.nodes": nodes})
    except InputError:
        return
    cards = larger.cluster.gpus
    if larger.training.global_batch_size % cards == 0:
        fields = {**shard, "shard_group_size": cards}
        yield _data_parallel("twice the cards", f"nodes={nodes}", larger, plan, fields)._replace(aside=True)


def _light(request: Request, plan: Plan, full: dict[str, Any]) -> Iterator[Lever]:
    """Moments in 8 bits, which FSDP steps, where the optimizer keeps more."""
    if moment_bytes(LIGHT) < moment_bytes(request.training.optimizer):
        lighter = request.changed({"training.optimizer": LIGHT})
        fields = {**full, "backend": "fsdp"}
        lever = _data_parallel("8-bit moments", f"optimizer={LIGHT}", lighter, plan, fields)
        yield lever._replace(aside=True)


def _data_parallel(name: str, said: str, request: Request, plan: Plan, fields: dict[str, Any]) -> Lever:
    """A data-parallel strategy, of DeepSpeed but for `fields`: one sequence a pass, all layers alike."""
    layers = request.model.layers
    moved = fields.get("offload_optimizer") == "cpu"
    stage = Stage(
        layers=layers,
        recompute_full_layers=layers if fields.get("recompute") == "full" else 0,
        recompute_selective_layers=0,
        offloaded_layers=layers if moved else 0,
    )
    data = {
        "backend": "deepspeed",
        "data_parallel": request.cluster.gpus,
        "micro_batch_size": 1,
        "precision": plan.strategy.precision if plan.strategy.precision in ("bf16", "fp16") else "bf16",
        "stages": [stage.model_dump()],
        **{key: value for key, value in fields.items() if key != "recompute"},
    }
    return Lever(name, said, request, read_strategy(data, request.model, "ladder", request.training))
