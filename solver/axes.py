"""The values each axis of a row may take: what divides, what the backend runs, what the request allows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

from ..costs.columns import code
from ..costs.uplink import WITHIN
from ..models.backend import Backend
from ..models.divisors import divisors_of, legal_degrees
from ..models.strategy import PLACES, RANK_ORDERS, Place
from ..models.transformer import Transformer
from ..plans import Request
from .drives import drives_hold
from .grids import Experts
from .overlapping import overlapping
from .software import Software

BY_DEFAULT: tuple[Place, ...] = ("none", "cpu")
"""Where states may live when the request does not say."""


class Core(NamedTuple):
    """Degrees that multiply to the world: the outer part of a row."""

    tensor: int
    context: int
    pipeline: int
    data: int
    expert: int
    expert_tensor: int


def _allowed(values: Sequence[int], chosen: tuple[int, ...] | None) -> list[int]:
    return [*values] if chosen is None else [value for value in values if value in chosen]


def _axis(known: Backend, axis: str, values: Sequence[int], chosen: tuple[int, ...] | None) -> list[int]:
    """`values` of an axis that backend and request allow."""
    return _allowed([value for value in values if known.runs(axis, value)], chosen)


def _trained_with(request: Request, known: Backend, axis: str, values: Sequence[int]) -> list[int]:
    """`values` of an axis that the way of training allows."""
    held = known.held_to(request.training).get(axis)
    return [value for value in values if held is None or value in held]


def cores(request: Request, known: Backend) -> Iterator[Core]:
    """Degrees that divide what they must and use every card."""
    choose, model, world = request.choose, request.model, request.cluster.gpus
    sequence, experts = request.training.sequence_length, Experts.of(request, known)
    tensors = _trained_with(request, known, "tensor_parallel", legal_degrees(model, "tensor_parallel"))
    for t in _axis(known, "tensor_parallel", tensors, choose.tensor_parallel):
        if world % t or (t > 1 and not _cuts(known, model, t)):
            continue
        for c in _axis(known, "context_parallel", divisors_of(world // t), choose.context_parallel):
            if c > 1 and sequence % (2 * c):
                continue
            stages = [p for p in divisors_of(world // t // c) if p <= model.layers]
            for p in _axis(known, "pipeline_parallel", stages, choose.pipeline_parallel):
                data = world // (t * c * p)
                if request.training.global_batch_size % data or not _allowed([data], choose.data_parallel):
                    continue
                for e, et in experts.grids(t, data * c * t):
                    yield Core(t, c, p, data, e, et)


def _cuts(known: Backend, model: Transformer, tensor: int) -> bool:
    """Whether the backend can cut this model's tensors into so many parts."""
    fits = not known.vocab_divides or model.vocab_size % tensor == 0
    return fits and known.cuts_tensors_of(model)


class Stage(NamedTuple):
    """A ZeRO stage that is offered: whether weights are freed after a forward, the switches of overlap."""

    zero: int
    reshard: int
    switches: list[tuple[int, ...]]


def zero_stages(request: Request, software: Software) -> list[Stage]:
    """The ZeRO stages that software and request allow, whatever the degrees."""
    choose, known = request.choose, software.backend
    least = known.least_zero_stage(software.precision, software.gradient_dtype)
    found = []
    for zero in _allowed(known.stages_of(request.training.optimizer), choose.zero_stage):
        reshard = zero == 3
        if zero >= least and reshard in (choose.reshard_after_forward or (reshard,)):
            found.append(Stage(zero, int(reshard), overlapping(request, known, zero)))
    return found


def shards(request: Request, known: Backend, core: Core, stages: Sequence[Stage]) -> list[tuple[int, ...]]:
    """(zero_stage, shard_group_size, secondary group, reshard_after_forward, switches of overlap) offered."""
    choose, ranks = request.choose, core.data * core.context
    partial = known.partial_shard_groups and core.expert == 1 and ranks > 1
    parts = [core.context * size for size in divisors_of(core.data)] if partial else [ranks]
    sizes = [size for size in parts if size > 1 or ranks == 1]
    wanted, second_from = choose.secondary_shard_group_size, known.secondary_shards_from_stage
    found: list[tuple[int, ...]] = []
    for zero, reshard, switches in stages:
        seconds = _allowed(secondary_groups(request, ranks) if zero >= second_from else [1], wanted)
        for size in _allowed(sizes if zero else [1], choose.shard_group_size):
            found += [(zero, size, second, reshard, *on) for second in seconds for on in switches]
    return found


def secondary_groups(request: Request, ranks: int) -> list[int]:
    """Ranks that may hold a second copy of the weights: 1 for none, or a part of all that divides them.

    The copy is there so that gathers stay on the links inside a machine: free are the cards of an island
    and of a machine, and other divisors are offered to those who choose them. One copy over all ranks
    would repeat the first.
    """
    inside = {tier.cards for tier in request.cluster.tiers().tiers if tier.name in WITHIN}
    offered = inside | set(request.choose.secondary_shard_group_size or ())
    return [size for size in divisors_of(ranks) if size == 1 or (size in offered and size < ranks)]


def offloads(request: Request, known: Backend) -> list[tuple[int, int, int]]:
    """(offload_optimizer, offload_params, least zero_stage) as codes.

    NVMe is slower than host memory wherever both are, so it is offered to those who choose it.
    """
    choose = request.choose
    wanted = (choose.offload_optimizer or BY_DEFAULT, choose.offload_params or BY_DEFAULT)
    found = []
    for optimizer, params in product(PLACES, PLACES):
        word = "none" if optimizer == "none" else "optimizer" if params == "none" else "optimizer+params"
        placed = (
            optimizer in wanted[0] and params in wanted[1] and drives_hold(request, known, optimizer, params)
        )
        if not placed or word not in known.offload or (optimizer == "none" and params != "none"):
            continue
        least = 0 if word == "none" else known.offload_optimizer_from_stage
        least = known.offload_params_from_stage if params != "none" else least
        least = max(least, known.nvme_from_stage) if "nvme" in (optimizer, params) else least
        found.append((code("offload_optimizer", optimizer), code("offload_params", params), least))
    return found


def sequence_parallel(request: Request, known: Backend, core: Core) -> list[int]:
    """Sequence parallel needs tensor parallel; experts beside tensor parallel need it."""
    split = request.training.sequence_length // core.context % core.tensor == 0
    on = core.tensor > 1 and known.sequence_parallel_pairs_with_tensor and split
    routed = any(kind.feed_forward.experts for kind in request.model.kinds)
    options = [1] if on and routed else [0, 1] if on else [0] if not (routed and core.tensor > 1) else []
    chosen = request.choose.sequence_parallel
    return [value for value in options if chosen is None or bool(value) in chosen]


def chunks(request: Request, known: Backend, core: Core) -> list[int]:
    """Interleaved chunks, all alike where backend, limits or pools tell of no others."""
    model, values = request.model, chunk_numbers(request.model, core.pipeline)
    if known.layers_freedom == "even" or request.limits.on_stages or request.cluster.others:
        values = [v for v in values if model.layers % v == 0 and (v == 1 or len(model.kinds) == 1)]
    return _axis(known, "virtual_pipeline", values, request.choose.virtual_pipeline)


def chunk_numbers(model: Transformer, stages: int) -> list[int]:
    """Chunks a stage may hold: only with stages.

    They divide the layers of the fullest stage of an even cut, which then takes no longer than without
    chunks, or, of one kind, all layers. Modules that predict further tokens leave the first round full.
    """
    if stages == 1:
        return [1]
    fullest = divisors_of(-(-model.layers // stages))
    if len(model.kinds) > 1:
        able = model.layers - model.mtp_layers
        return [v for v in fullest if v == 1 or -(-model.layers // stages) // v * stages <= able]
    whole = [v for v in divisors_of(model.layers) if stages * v <= model.layers]
    return sorted({1, *whole, *(v for v in fullest if -(-model.layers // v) >= stages)})


def orders(request: Request, core: Core) -> list[int]:
    """Rank orders that differ: stages and data ranks can change places.

    With experts only where their grid is as large as the dense one, so that both have equal data ranks.
    """
    routed = any(kind.feed_forward.experts for kind in request.model.kinds)
    differ = core.pipeline > 1 and core.data > 1 and (alike(core) or not routed)
    words = RANK_ORDERS if differ else RANK_ORDERS[:1]
    chosen = request.choose.rank_order
    return [code("rank_order", word) for word in words if chosen is None or word in chosen]


def alike(core: Core) -> bool:
    """Whether the grid of experts is as large as the dense one."""
    return core.expert * core.expert_tensor == core.tensor * core.context


def batches(request: Request, core: Core) -> list[tuple[int, int]]:
    """(micro_batch_size, gradient_accumulation_steps) that make the global batch exactly."""
    per_rank = request.training.global_batch_size // core.data
    return [
        (size, per_rank // size)
        for size in _allowed(divisors_of(per_rank), request.choose.micro_batch_size)
        if _allowed([per_rank // size], request.choose.gradient_accumulation_steps)
    ]
