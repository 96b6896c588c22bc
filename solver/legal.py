"""Rules with reasons, applied to one strategy: what its backend and the model's shape refuse."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from ..costs.columns import Strategies
from ..models import Strategy, Transformer, divisors
from ..models.backend import Backend, backend
from ..models.chunks import chunks_of, uneven_chunks
from ..models.context import Exchange
from ..models.divisors import ALIGNED, EIGHT_BIT, RING, divisors_of, misaligned
from ..models.overlap import TENSOR_KNOB
from ..plans import Breach, Request
from ..plans.report import price
from .cuts import cut_by
from .drives import bytes_on_drives, drives_hold
from .overlapping import ISLAND, in_island
from .stage_limits import on_stages, overstepped


def breaches(request: Request, strategy: Strategy) -> tuple[Breach, ...]:
    """Every rule the strategy breaks, each with its reason and where the rule comes from."""
    known = backend(strategy.backend)
    return (
        *_axes(request, known, strategy),
        *_shape(request, known, strategy),
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
        _routed(request.model)
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


def _shape(request: Request, known: Backend, strategy: Strategy) -> Iterator[Breach]:
    model, sequence = request.model, request.training.sequence_length
    for divisor in divisors(model):
        degree = getattr(strategy, divisor.axis)
        if divisor.required and divisor.number % degree:
            reason = (
                f"{divisor.axis} {degree} does not divide {divisor.of} {divisor.number}: {divisor.reason}"
            )
            yield Breach(rule=divisor.axis, reason=reason, origin=model.name)
    if strategy.context_parallel > 1 and sequence % (2 * strategy.context_parallel):
        yield Breach(rule="context_parallel", reason=RING, origin="training.sequence_length")
    exchange = Exchange(strategy.context_parallel_kind, strategy.ulysses_group_size)
    reason = known.refuses_exchange(model, exchange, strategy.tensor_parallel)
    if reason:
        yield Breach(rule="context_parallel_kind", reason=reason, origin=model.name)
    yield from _experts(model, strategy)
    told = any(stage.chunk_layers is not None for stage in strategy.stages)
    if model.layers < strategy.pipeline_parallel * strategy.virtual_pipeline and not told:
        reason = f"{model.layers} layers cannot fill every chunk of every stage"
        yield Breach(rule="pipeline_parallel", reason=reason, origin=model.name)
    yield from _eight_bit(request, strategy)
    gpu = request.cluster.node.gpu
    if gpu.peak_flops_per_s(strategy.precision) is None:
        yield Breach(rule="precision", reason=f"{gpu.name} has no {strategy.precision}", origin=gpu.name)


def _experts(model: Transformer, strategy: Strategy) -> Iterator[Breach]:
    """Degrees of experts: 1 where the model has none, and they fill the ranks of a stage."""
    for field in EXPERT_AXES if not _routed(model) else ():
        if getattr(strategy, field) > 1:
            yield Breach(rule=field, reason=f"{field}: {NO_EXPERTS}", origin=model.name)
    uneven = uneven_experts(model, strategy)
    if uneven is not None and _routed(model):
        yield Breach(rule=uneven[0], reason=f"{uneven[0]} {uneven[1]}", origin=model.name)


def uneven_experts(model: Transformer, strategy: Strategy) -> tuple[str, str, list[str]] | None:
    """(field, reason, nearest legal values) of a degree of experts that does not fill the ranks of a stage.

    The field that is not 1 is to blame; of two, the one that alone does not, else expert_parallel.
    """
    ranks = strategy.world // strategy.pipeline_parallel
    degrees = {field: getattr(strategy, field) for field in EXPERT_AXES}
    if ranks % prod(degrees.values()) == 0:
        return None
    alone = [name for name, degree in degrees.items() if ranks % degree]
    field = next(name for name in (*alone, *EXPERT_AXES) if degrees[name] > 1)
    if not _routed(model):
        return field, NO_EXPERTS, ["1"]
    other = next(name for name in EXPERT_AXES if name != field)
    fitting = [n for n in divisors_of(ranks) if ranks % (n * degrees[other]) == 0]
    near = sorted(fitting, key=lambda n: abs(n - degrees[field]))[:3]
    reason = f"with {other} {degrees[other]} does not fill the {ranks} cards of a stage evenly"
    return field, reason, [str(n) for n in near]


def _routed(model: Transformer) -> bool:
    return any(kind.feed_forward.experts for kind in model.kinds)


EXPERT_AXES = ("expert_parallel", "expert_tensor_parallel")
NO_EXPERTS = "the model has no experts to lay over cards"


def _eight_bit(request: Request, strategy: Strategy) -> Iterator[Breach]:
    """Sizes of 8-bit products: widths of the model as they are cut, tokens of a micro-batch on a rank."""
    tensor, expert = strategy.tensor_parallel, strategy.expert_tensor_parallel
    for divisor in misaligned(request.model, strategy.precision, tensor, expert):
        reason = f"{strategy.precision}: {divisor.of} {divisor.number} at tensor_parallel {tensor}: {ALIGNED}"
        yield Breach(rule="precision", reason=reason, origin=request.model.name)
    tokens = strategy.micro_batch_size * request.training.sequence_length
    split = strategy.context_parallel * (tensor if strategy.sequence_parallel else 1)
    unit = EIGHT_BIT.get(strategy.precision, 1)
    if tokens % (split * unit):
        reason = f"{strategy.precision}: {tokens // split:,} tokens a rank: {ALIGNED}"
        yield Breach(rule="micro_batch_size", reason=reason, origin="training.sequence_length")


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
