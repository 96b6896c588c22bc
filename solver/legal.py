"""Rules with reasons, applied to one strategy: what its backend and its request refuse."""

from __future__ import annotations

from collections.abc import Iterator

from ..costs.columns import Strategies
from ..models import Strategy
from ..models.backend import Backend, backend
from ..models.chunks import chunks_of, uneven_chunks
from ..models.overlap import TENSOR_KNOB
from ..plans import Breach, Request
from ..plans.report import price
from .cuts import cut_by
from .drives import bytes_on_drives, drives_hold
from .overlapping import ISLAND, in_island
from .shape_rules import routed, shape_breaches
from .stage_limits import on_stages, overstepped


def breaches(request: Request, strategy: Strategy) -> tuple[Breach, ...]:
    """Every rule the strategy breaks, each with its reason and where the rule comes from."""
    known = backend(strategy.backend)
    return (
        *_axes(request, known, strategy),
        *shape_breaches(request, known, strategy),
        *_states(request, known, strategy),
        *_drives(request, known, strategy),
        *_stages(known, strategy),
        *_asked(request, strategy),
    )


def _drives(request: Request, known: Backend, strategy: Strategy) -> Iterator[Breach]:
    places = (strategy.offload_optimizer, strategy.offload_params)
    if not drives_hold(request, known, *places):
        need, held = bytes_on_drives(request, known, *places) / 1e9, request.cluster.node.nvme_bytes / 1e9
        reason = f"{need:,.0f} GB of states a machine exceed its {held:,.0f} GB of NVMe"
        yield Breach(rule="offload_optimizer", reason=reason, origin="cluster.node.nvme_bytes")


def _asked(request: Request, strategy: Strategy) -> Iterator[Breach]:
    """What the request itself does not allow: its lists, its rules, the tier of tensor parallel."""
    for name in type(request.choose).model_fields:
        allowed = getattr(request.choose, name)
        if name == "rules" or not allowed or getattr(strategy, name) in allowed:
            continue
        listed = ", ".join(str(value) for value in allowed)
        reason = f"{name} {getattr(strategy, name)} is not among the values the request allows: {listed}"
        yield Breach(rule=name, reason=reason, origin=request.origin(f"choose.{name}"))
    if on_stages(request):
        for field, reason in overstepped(request, price(request, [strategy])[0]):
            yield Breach(rule=field, reason=reason, origin=request.origin(field))
    for field, kept in cut_by(request, Strategies.of([strategy])).items():
        if not kept[0]:
            name, _, text = field.partition(": ")
            reason = f"the strategy does not obey {text or name}"
            yield Breach(rule=name, reason=reason, origin=request.origin(name))


def _axes(request: Request, known: Backend, strategy: Strategy) -> Iterator[Breach]:
    for limit in known.limits:
        if getattr(strategy, limit.axis) not in limit.values:
            yield Breach(rule=limit.axis, reason=limit.reason, origin=f"backend {known.name}")
    known_orders = known.pipeline_schedules
    if known_orders and strategy.pipeline_schedule not in ("none", *known_orders):
        reason = f"{strategy.pipeline_schedule}: {known.because['pipeline_schedule']}"
        yield Breach(rule="pipeline_schedule", reason=reason, origin=f"backend {known.name}")
    if strategy.context_parallel > 1 and strategy.context_parallel_kind not in known.context_kinds:
        reason = known.because["context_parallel_kind"]
        yield Breach(rule="context_parallel_kind", reason=reason, origin=f"backend {known.name}")
    if (
        routed(request.model)
        and not known.folds_experts
        and strategy.expert_tensor_parallel != strategy.tensor_parallel
    ):
        reason = f"{known.name} cuts experts as the rest of a layer, over {strategy.tensor_parallel} ranks"
        yield Breach(rule="expert_tensor_parallel", reason=reason, origin=f"backend {known.name}")
    yield from _software(request, known, strategy)
    yield from _way(request, known, strategy)
    if known.recipe(strategy.precision, strategy.gradient_dtype, request.training) is None:
        pair = f"{strategy.precision} with {strategy.gradient_dtype} gradients"
        yield Breach(rule="precision", reason=f"{known.name} has no {pair}", origin=f"backend {known.name}")


def _software(request: Request, known: Backend, strategy: Strategy) -> Iterator[Breach]:
    """Stack, loss, optimizer and gradient type that the backend runs, also under tensor parallel."""
    tensor = known.tensor_parallel if strategy.tensor_parallel > 1 else None
    least = known.least_zero_stage(strategy.precision, strategy.gradient_dtype)
    kernels = tensor.loss_kernels if tensor else known.loss_kernels
    vocabulary = known.vocab_divides and request.model.vocab_size % strategy.tensor_parallel
    broken = {
        "loss_kernel": strategy.loss_kernel not in kernels,
        "model": not known.knows(request.model),
        "zero_stage": strategy.zero_stage in known.zero_stages
        and strategy.zero_stage not in known.stages_of(request.training.optimizer),
        "optimizer": request.training.optimizer not in known.optimizers,
        "gradient_dtype": strategy.zero_stage < least,
        "tensor_parallel": bool(tensor and not known.cuts_tensors_of(request.model)) or bool(vocabulary),
        "precision": strategy.precision not in known.precisions,
        "software_stack": bool(tensor and strategy.software_stack != tensor.stack),
    }
    for field, wrong in broken.items():
        if wrong:
            reason = known.because.get(field, f"{known.name} does not run this")
            yield Breach(rule=field, reason=reason, origin=f"backend {known.name}")


def _way(request: Request, known: Backend, strategy: Strategy) -> Iterator[Breach]:
    """What of the way of training the backend cannot run, or only with other values of a knob."""
    training, origin = request.training, f"backend {known.name}"
    for field in known.unable(training):
        yield Breach(rule=field, reason=known.because[field], origin=origin)
    for knob, values in known.held_to(training).items():
        if getattr(strategy, knob) not in values:
            yield Breach(rule=knob, reason=known.because["way"], origin=origin)


def _states(request: Request, known: Backend, strategy: Strategy) -> Iterator[Breach]:
    origin = f"backend {known.name}"
    if strategy.zero_stage not in known.zero_stages:
        legal = ", ".join(str(stage) for stage in known.zero_stages)
        yield Breach(rule="zero_stage", reason=f"{known.name} has ZeRO stages {legal}", origin=origin)
    ranks = strategy.data_parallel * strategy.context_parallel
    if strategy.zero_stage and ranks % strategy.shard_group_size:
        reason = "the shard group must divide data_parallel * context_parallel"
        yield Breach(rule="shard_group_size", reason=reason, origin=origin)
    if strategy.zero_stage and strategy.shard_group_size < ranks and not known.partial_shard_groups:
        reason = f"{known.name} shards states over all data ranks"
        yield Breach(rule="shard_group_size", reason=reason, origin=origin)
    if strategy.zero_stage and strategy.shard_group_size % strategy.context_parallel:
        reason = "a shard group holds whole groups of context ranks"
        yield Breach(rule="shard_group_size", reason=reason, origin=origin)
    yield from _secondary(known, strategy, ranks)
    for name in known.refuses_overlap(strategy):
        yield Breach(rule=name, reason=known.because[name], origin=origin)
    if strategy.overlap_tensor_parallel and not in_island(request, strategy.tensor_parallel):
        yield Breach(rule=TENSOR_KNOB, reason=ISLAND, origin="cluster")
    least = {
        "offload_optimizer": known.offload_optimizer_from_stage,
        "offload_params": known.offload_params_from_stage,
    }
    for name, stage in least.items():
        place = getattr(strategy, name)
        stage = max(stage, known.nvme_from_stage) if place == "nvme" else stage
        if place != "none" and strategy.zero_stage < stage:
            where = " to NVMe" if place == "nvme" else ""
            reason = f"{known.name} offloads these states{where} from ZeRO stage {stage} on"
            yield Breach(
                rule=name, reason=reason if stage <= 3 else f"{known.name} offers none{where}", origin=origin
            )


def _secondary(known: Backend, strategy: Strategy, ranks: int) -> Iterator[Breach]:
    """A second copy of the weights: from a ZeRO stage on, over a divisor of the ranks, on the card."""
    size, first = strategy.secondary_shard_group_size, known.secondary_shards_from_stage
    if size == 1:
        return
    if first > 3:
        reason = f"{known.name} keeps no second copy of the weights"
    elif strategy.zero_stage < first:
        reason = f"{known.name} keeps a second copy of the weights from ZeRO stage {first} on"
    elif ranks % size:
        reason = "the secondary shard group must divide data_parallel * context_parallel"
    elif strategy.offload_params != "none":
        reason = "weights in host memory would have their second copy there too, which is not priced"
    else:
        return
    yield Breach(rule="secondary_shard_group_size", reason=reason, origin=f"backend {known.name}")


def _stages(known: Backend, strategy: Strategy) -> Iterator[Breach]:
    origin = f"backend {known.name}"
    word = strategy.recompute
    if word not in known.recompute:
        yield Breach(rule="recompute", reason=f"{known.name} has no {word} recompute here", origin=origin)
    part = any(0 < s.recompute_full_layers < s.layers for s in strategy.stages)
    if known.recompute_freedom == "all" and part:
        reason = f"{known.name} recomputes all layers or none"
        yield Breach(rule="recompute", reason=reason, origin=origin)
    if known.recompute_freedom == "same":
        yield from _same(known, strategy)
    if uneven_chunks(strategy) and known.layers_freedom == "even":
        reason = f"{known.name} gives every stage equal chunks"
        yield Breach(rule="virtual_pipeline", reason=reason, origin=origin)
    whole = all(s.offloaded_layers in (0, s.layers) for s in strategy.stages)
    if known.offload_freedom == "all" and not whole:
        reason = f"{known.name} offloads all layers or none"
        yield Breach(rule="offload_optimizer", reason=reason, origin=origin)


def _same(known: Backend, strategy: Strategy) -> Iterator[Breach]:
    """One number of recomputed layers for every chunk; selective recompute for all layers or none."""
    origin = f"backend {known.name}"
    chunks = [chunk for stage in chunks_of(strategy) for chunk in stage]
    number = max(chunk.full for chunk in chunks)
    if any(chunk.full != min(number, chunk.layers) for chunk in chunks):
        reason = f"{known.name} recomputes the same number of layers of every chunk"
        yield Breach(rule="recompute_full_layers", reason=reason, origin=origin)
    some = [s.recompute_selective_layers for s in strategy.stages]
    if any(some) and any(s.recompute_selective_layers != s.layers for s in strategy.stages):
        reason = f"{known.name} recomputes a part of all layers or of none"
        yield Breach(rule="recompute_selective_layers", reason=reason, origin=origin)
