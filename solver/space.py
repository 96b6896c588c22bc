"""The rows of a request: every combination of global choices that could be run and written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..costs.columns import NAMES, WORDS, Bools, Ints, Strategies, code
from ..models.backend import Backend
from ..models.divisors import EIGHT_BIT, divisors_of, legal_degrees, misaligned
from ..models.strategy import RANK_ORDERS
from ..models.transformer import Transformer
from ..plans import Request
from .software import Software, runs_together, softwares


@dataclass(frozen=True)
class Core:
    """Degrees that multiply to the world: the outer part of a row."""

    tensor: int
    context: int
    pipeline: int
    data: int
    expert: int
    expert_tensor: int


def _allowed(values: Sequence[int], chosen: tuple[int, ...] | None) -> list[int]:
    return [value for value in values if chosen is None or value in chosen]


def _axis(known: Backend, axis: str, values: Sequence[int], chosen: tuple[int, ...] | None) -> list[int]:
    """`values` of an axis that backend and request allow."""
    for limit in known.limits:
        if limit.axis == axis:
            values = [value for value in values if value in limit.values]
    return _allowed(values, chosen)


def _trained_with(request: Request, known: Backend, axis: str, values: Sequence[int]) -> list[int]:
    """`values` of an axis that the way of training allows."""
    held = known.held_to(request.training).get(axis)
    return [value for value in values if held is None or value in held]


def cores(request: Request, known: Backend) -> Iterator[Core]:
    """Degrees that divide what they must and use every card."""
    choose, model, world = request.choose, request.model, request.cluster.gpus
    sequence = request.training.sequence_length
    experts = model.kinds[0].feed_forward.experts or max(k.feed_forward.experts for k in model.kinds)
    tensors = _trained_with(request, known, "tensor_parallel", legal_degrees(model, "tensor_parallel"))
    for t in _axis(known, "tensor_parallel", tensors, choose.tensor_parallel):
        if world % t or (t > 1 and not _cuts(known, model, t)):
            continue
        for c in _axis(known, "context_parallel", divisors_of(world // t), choose.context_parallel):
            if c > 1 and (sequence % (2 * c) or _windowed(model)):
                continue
            stages = [p for p in divisors_of(world // t // c) if p <= model.layers]
            for p in _axis(known, "pipeline_parallel", stages, choose.pipeline_parallel):
                data = world // (t * c * p)
                if request.training.global_batch_size % data or not _allowed([data], choose.data_parallel):
                    continue
                for e, et in _expert_grids(request, known, experts, t, data * c * t):
                    yield Core(t, c, p, data, e, et)


def _windowed(model: Transformer) -> bool:
    """Whether some layer slides a window over the sequence, which a ring of context ranks cannot."""
    return any(getattr(kind.attention, "window", None) for kind in model.kinds)


def _cuts(known: Backend, model: Transformer, tensor: int) -> bool:
    """Whether the backend can cut this model's tensors into so many parts."""
    fits = not known.vocab_divides or model.vocab_size % tensor == 0
    return fits and known.cuts_tensors_of(model)


def _expert_grids(
    request: Request, known: Backend, experts: int, tensor: int, ranks: int
) -> Iterator[tuple[int, int]]:
    """(expert_parallel, expert_tensor_parallel) that lie evenly on the `ranks` of a stage."""
    choose = request.choose
    if not experts:
        if _allowed([1], choose.expert_parallel) and _allowed([1], choose.expert_tensor_parallel):
            yield 1, 1
        return
    degrees = _axis(
        known, "expert_parallel", legal_degrees(request.model, "expert_parallel"), choose.expert_parallel
    )
    for et in _allowed(sorted({1, tensor}), choose.expert_tensor_parallel):
        widths = [kind.feed_forward.width for kind in request.model.kinds if kind.feed_forward.experts]
        for e in degrees:
            if ranks % (e * et) == 0 and all(width % et == 0 for width in widths):
                if known.weights_sharded_from_stage <= 3 and et != tensor:
                    continue
                yield e, et


def _shards(request: Request, software: Software, core: Core) -> list[tuple[int, int, int]]:
    """(zero_stage, shard_group_size, reshard_after_forward) a backend offers for these degrees."""
    choose, ranks, known = request.choose, core.data * core.context, software.backend
    least = known.least_zero_stage(software.precision, software.gradient_dtype)
    node = request.cluster.node.gpus
    sizes = [ranks]
    if known.partial_shard_groups and core.context == 1 and core.expert == 1:
        inside = node // core.tensor if core.tensor < node else 1
        sizes += [inside] if 1 < inside < ranks and ranks % inside == 0 else []
    found = []
    for zero in _allowed(known.stages_of(request.training.optimizer), choose.zero_stage):
        reshard = zero == 3
        if zero < least:
            continue
        if choose.reshard_after_forward and reshard not in choose.reshard_after_forward:
            continue
        for size in sizes if zero else [1]:
            if _allowed([size], choose.shard_group_size):
                found.append((zero, size, int(reshard)))
    return found


def _offloads(request: Request, known: Backend) -> list[tuple[int, int, int]]:
    """(offload_optimizer, offload_params, least zero_stage) as codes."""
    choose = request.choose
    found = []
    for word in known.offload:
        optimizer = "none" if word == "none" else "cpu"
        params = "cpu" if word == "optimizer+params" else "none"
        if choose.offload_optimizer and optimizer not in choose.offload_optimizer:
            continue
        if choose.offload_params and params not in choose.offload_params:
            continue
        least = 0 if word == "none" else known.offload_optimizer_from_stage
        least = known.offload_params_from_stage if params == "cpu" else least
        found.append((code("offload_optimizer", optimizer), code("offload_params", params), least))
    return found


def _sequence_parallel(request: Request, known: Backend, core: Core) -> list[int]:
    """Sequence parallel needs tensor parallel; experts beside tensor parallel need it."""
    split = request.training.sequence_length // core.context % core.tensor == 0
    on = core.tensor > 1 and known.sequence_parallel_pairs_with_tensor and split
    routed = any(kind.feed_forward.experts for kind in request.model.kinds)
    options = [1] if on and routed else [0, 1] if on else [0] if not (routed and core.tensor > 1) else []
    chosen = request.choose.sequence_parallel
    return [value for value in options if chosen is None or bool(value) in chosen]


def _chunks(request: Request, known: Backend, core: Core) -> list[int]:
    """Interleaved chunks: only with stages, for a stack of one kind of layer, v dividing the layers."""
    layers = request.model.layers
    many = core.pipeline > 1 and len(request.model.kinds) == 1
    values = [v for v in divisors_of(layers) if v == 1 or (many and core.pipeline * v <= layers)]
    return _axis(known, "virtual_pipeline", values, request.choose.virtual_pipeline)


def _orders(request: Request, core: Core) -> list[int]:
    """Rank orders that differ: stages and data ranks can change places.

    With experts only where their grid is as large as the dense one, so that both have equal data ranks.
    """
    routed = any(kind.feed_forward.experts for kind in request.model.kinds)
    alike = core.expert * core.expert_tensor == core.tensor * core.context
    differ = core.pipeline > 1 and core.data > 1 and (alike or not routed)
    words = RANK_ORDERS if differ else RANK_ORDERS[:1]
    chosen = request.choose.rank_order
    return [code("rank_order", word) for word in words if chosen is None or word in chosen]


def _batches(request: Request, core: Core) -> list[tuple[int, int]]:
    """(micro_batch_size, gradient_accumulation_steps) that make the global batch exactly."""
    per_rank = request.training.global_batch_size // core.data
    return [
        (size, per_rank // size)
        for size in _allowed(divisors_of(per_rank), request.choose.micro_batch_size)
        if _allowed([per_rank // size], request.choose.gradient_accumulation_steps)
    ]


def _core_rows(request: Request, software: Software, core: Core) -> Ints | None:
    """The inner part of the rows of one core, (rows, inner columns)."""
    known, unit = software.backend, EIGHT_BIT.get(software.precision, 1)
    if unit > 1 and misaligned(request.model, software.precision, core.tensor, core.expert_tensor):
        return None
    parts = [
        _shards(request, software, core),
        _offloads(request, known),
        [(value,) for value in _sequence_parallel(request, known, core)],
        [(value,) for value in _orders(request, core)],
        _batches(request, core),
        [(value,) for value in _chunks(request, known, core)],
    ]
    if not all(parts):
        return None
    tables = [np.array(part, dtype=np.int64) for part in parts]
    picks = np.indices([len(table) for table in tables]).reshape(len(tables), -1)
    rows = np.concatenate([table[pick] for table, pick in zip(tables, picks, strict=True)], axis=1)
    zero, least = rows[:, 0], rows[:, 5]
    steps, chunks = rows[:, 9], rows[:, 10]
    legal = (zero >= least) & ((chunks == 1) | (steps % core.pipeline == 0))
    split = core.context * np.where(rows[:, 6] == 1, core.tensor, 1)
    legal &= rows[:, 8] * request.training.sequence_length % (split * unit) == 0 if unit > 1 else True
    for knob, values in known.held_to(request.training).items():
        if knob in _INNER:
            codes = [code(knob, value) if isinstance(value, str) else value for value in values]
            legal &= np.isin(rows[:, _INNER.index(knob)], codes)
    kept: Ints = rows[legal]
    return kept


_INNER = (
    "zero_stage",
    "shard_group_size",
    "reshard_after_forward",
    "offload_optimizer",
    "offload_params",
    "",
    "sequence_parallel",
    "rank_order",
    "micro_batch_size",
    "gradient_accumulation_steps",
    "virtual_pipeline",
)


def rows(request: Request) -> Strategies:
    """Every row of the request, before its rules and limits, in a fixed order."""
    parts: list[dict[str, Any]] = []
    inner: dict[tuple[str, str, str], list[tuple[Core, Ints]]] = {}
    for software in softwares(request):
        key = (software.backend.name, software.precision, software.gradient_dtype)
        if key not in inner:
            found = [(core, _core_rows(request, software, core)) for core in cores(request, software.backend)]
            inner[key] = [(core, table) for core, table in found if table is not None and len(table)]
        for core, table in inner[key]:
            if runs_together(request, software, core.tensor):
                parts.append(_columns(software, core, table))
    if not parts:
        return Strategies(**{name: np.zeros(0, dtype=np.int64) for name in NAMES})
    return Strategies(**{name: np.concatenate([part[name] for part in parts]) for name in NAMES})


def _columns(software: Software, core: Core, inner: Ints) -> dict[str, Ints]:
    same = {
        "backend": code("backend", software.backend.name),
        "software_stack": code("software_stack", software.software_stack),
        "precision": code("precision", software.precision),
        "gradient_dtype": code("gradient_dtype", software.gradient_dtype),
        "loss_kernel": code("loss_kernel", software.loss_kernel),
        "data_parallel": core.data,
        "tensor_parallel": core.tensor,
        "pipeline_parallel": core.pipeline,
        "context_parallel": core.context,
        "expert_parallel": core.expert,
        "expert_tensor_parallel": core.expert_tensor,
    }
    found = {name: np.full(len(inner), value, dtype=np.int64) for name, value in same.items()}
    found |= {name: inner[:, i] for i, name in enumerate(_INNER) if name}
    return found


def cut_by(request: Request, strategies: Strategies) -> dict[str, Bools]:
    """Masks of rows that obey each rule and limit of the request, by the field that states it."""
    from .rules import Rule

    columns = {name: getattr(strategies, name) for name in NAMES if name not in WORDS}
    masks: dict[str, Bools] = {}
    for text in request.choose.rules:
        masks[f"choose.rules: {text}"] = Rule(text, request.origin("choose.rules")).holds(columns)
    tier = request.limits.tensor_parallel_within
    if tier is not None:
        found = request.cluster.tiers().named(tier)
        inside = found.cards if found else _cards_below(request, tier)
        masks["limits.tensor_parallel_within"] = strategies.tensor_parallel <= inside
    return masks


def _cards_below(request: Request, tier: str) -> int:
    """Cards within a tier the cluster has no entry for: those of the next smaller tier, else one."""
    order = ("island", "node", "leaf", "spine")
    below = [t.cards for t in request.cluster.tiers().tiers if order.index(t.name) <= order.index(tier)]
    return max(below, default=1)
