"""The rows of a request: every combination of global choices that could be run and written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

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
    differ = core.pipeline > 1 and core.data > 1 and (_alike(core) or not routed)
    words = RANK_ORDERS if differ else RANK_ORDERS[:1]
    chosen = request.choose.rank_order
    return [code("rank_order", word) for word in words if chosen is None or word in chosen]


def _alike(core: Core) -> bool:
    """Whether the grid of experts is as large as the dense one."""
    return core.expert * core.expert_tensor == core.tensor * core.context


def _batches(request: Request, core: Core) -> list[tuple[int, int]]:
    """(micro_batch_size, gradient_accumulation_steps) that make the global batch exactly."""
    per_rank = request.training.global_batch_size // core.data
    return [
        (size, per_rank // size)
        for size in _allowed(divisors_of(per_rank), request.choose.micro_batch_size)
        if _allowed([per_rank // size], request.choose.gradient_accumulation_steps)
    ]


def _schedules(request: Request, software: Software, core: Core) -> Ints | None:
    """(sequence_parallel, micro-batch, accumulation, chunks); chunks need rounds of whole pipelines.

    Under 8-bit arithmetic the tokens of a rank are a multiple of its unit.
    """
    known, unit = software.backend, EIGHT_BIT.get(software.precision, 1)
    parts: list[Sequence[tuple[int, ...]]] = [
        [(value,) for value in _sequence_parallel(request, known, core)],
        _batches(request, core),
        [(value,) for value in _chunks(request, known, core)],
    ]
    found = _crossed(parts)
    if found is None:
        return None
    legal = (found[:, 3] == 1) | (found[:, 2] % core.pipeline == 0)
    split = core.context * np.where(found[:, 0] == 1, core.tensor, 1)
    legal &= found[:, 1] * request.training.sequence_length % (split * unit) == 0 if unit > 1 else True
    return _held(request, known, SCHEDULE, found[legal])


def _keeping(request: Request, software: Software, core: Core) -> Ints | None:
    """Where states lie under a core, columns as `VARIANT`; offload from its least ZeRO stage on."""
    parts: list[Sequence[tuple[int, ...]]] = [
        _shards(request, software, core),
        _offloads(request, software.backend),
        [(value,) for value in _orders(request, core)],
    ]
    found = _crossed(parts)
    if found is None:
        return None
    kept = np.delete(found[found[:, 0] >= found[:, 5]], 5, axis=1)
    return _held(request, software.backend, VARIANT, kept)


def _held(request: Request, known: Backend, columns: tuple[str, ...], table: Ints) -> Ints:
    """Rows of a table with values of knobs that the way of training is held to."""
    for knob, values in known.held_to(request.training).items():
        if knob in columns:
            codes = [code(knob, value) if isinstance(value, str) else value for value in values]
            table = table[np.isin(table[:, columns.index(knob)], codes)]
    return table


def _crossed(parts: Sequence[Sequence[tuple[int, ...]]]) -> Ints | None:
    """The product of tables as one table, None where one is empty."""
    if not all(parts):
        return None
    tables = [np.array(part, dtype=np.int64) for part in parts]
    picks = np.indices([len(table) for table in tables]).reshape(len(tables), -1)
    return np.concatenate([table[pick] for table, pick in zip(tables, picks, strict=True)], axis=1)


SOFTWARE = ("backend", "software_stack", "precision", "gradient_dtype", "loss_kernel")
DEGREES = (
    "tensor_parallel",
    "context_parallel",
    "pipeline_parallel",
    "data_parallel",
    "expert_parallel",
    "expert_tensor_parallel",
)
SCHEDULE = ("sequence_parallel", "micro_batch_size", "gradient_accumulation_steps", "virtual_pipeline")
CUT = (*SOFTWARE, "tensor_parallel", "context_parallel", "expert_parallel", "expert_tensor_parallel")
WORK = (*CUT, "sequence_parallel", "micro_batch_size")
"""What the work of a card on a layer depends on."""

VARIANT = (
    "zero_stage",
    "shard_group_size",
    "reshard_after_forward",
    "offload_optimizer",
    "offload_params",
    "rank_order",
)


@dataclass(frozen=True)
class Space:
    """Rows as shapes times variants, so that what a shape alone decides is decided once.

    A shape (`SOFTWARE`, `DEGREES`, `SCHEDULE`) fixes the work of cards; a variant where states lie and
    which ranks are neighbours. `variants[kind[i]]` are the variants of shape i. Shapes of equal `cut`
    have equal columns of `CUT`, shapes of equal `core` differ in their schedule alone.
    """

    shapes: dict[str, Ints]
    kind: Ints
    cut: Ints
    core: Ints
    variants: tuple[Ints, ...]

    @cached_property
    def works(self) -> tuple[Strategies, Ints]:
        """Columns `WORK` of the shapes whose cards do different work, and which of them each shape is."""
        micro, split = self.shapes["micro_batch_size"], self.shapes["sequence_parallel"]
        packed = (self.cut << 40) | (micro << 1) | split
        _, first, place = np.unique(packed, return_index=True, return_inverse=True)
        return Strategies.partial({name: self.shapes[name][first] for name in WORK}), place.reshape(-1)

    @cached_property
    def sizes(self) -> Ints:
        """Rows of each shape."""
        lengths = np.array([len(table) for table in self.variants], dtype=np.int64)
        found: Ints = lengths[self.kind]
        return found

    def rows(self, shapes: Ints) -> Strategies:
        """All rows of some shapes, in their order."""
        tables = [self.variants[kind] for kind in self.kind[shapes].tolist()]
        if not tables:
            return Strategies(**{name: np.zeros(0, dtype=np.int64) for name in NAMES})
        each = np.repeat(shapes, self.sizes[shapes])
        states = np.concatenate(tables)
        columns = {name: values[each] for name, values in self.shapes.items()}
        columns |= {name: states[:, i] for i, name in enumerate(VARIANT)}
        return Strategies(**columns)

    def take(self, shapes: Ints) -> Space:
        """Some of the shapes."""
        columns = {name: values[shapes] for name, values in self.shapes.items()}
        return Space(columns, self.kind[shapes], self.cut[shapes], self.core[shapes], self.variants)

    def lean(self, least: Ints) -> Ints:
        """Of each core the shape of smallest micro-batches, then of `least`: it needs little memory."""
        order = np.lexsort((least, self.shapes["micro_batch_size"], self.core))
        _, first = np.unique(self.core[order], return_index=True)
        found: Ints = order[first]
        return found


def space(request: Request) -> Space:
    """Every row of the request, before its rules and limits, in a fixed order."""
    made = _Shapes(request)
    for software in softwares(request):
        made.add(software)
    return made.done()


class _Shapes:
    """Collects shapes core by core; equal tables are kept once."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.cores: dict[tuple[str, str, str], list[tuple[Core, Ints, int]]] = {}
        self.variants: dict[bytes, tuple[int, Ints]] = {}
        self.heads: list[tuple[int, ...]] = []
        self.tails: list[Ints] = []
        self.kinds: list[int] = []
        self.cuts: list[int] = []
        self.known: dict[tuple[int, ...], int] = {}

    def add(self, software: Software) -> None:
        """The shapes of one backend with its stack, precision and loss."""
        key = (software.backend.name, software.precision, software.gradient_dtype)
        if key not in self.cores:
            self.cores[key] = list(self._cores(software))
        words = [
            code("backend", software.backend.name),
            code("software_stack", software.software_stack),
            code("precision", software.precision),
            code("gradient_dtype", software.gradient_dtype),
            code("loss_kernel", software.loss_kernel),
        ]
        for core, schedules, kind in self.cores[key]:
            if runs_together(self.request, software, core.tensor):
                degrees = (core.tensor, core.context, core.pipeline, core.data, core.expert)
                self.heads.append((*words, *degrees, core.expert_tensor))
                self.tails.append(schedules)
                self.kinds.append(kind)
                cut = (*words, core.tensor, core.context, core.expert, core.expert_tensor)
                self.cuts.append(self.known.setdefault(cut, len(self.known)))

    def _cores(self, software: Software) -> Iterator[tuple[Core, Ints, int]]:
        """Cores with their schedules and the number of their variants; experts rarely make a difference."""
        model, precision = self.request.model, software.precision
        aligned: dict[tuple[int, int], bool] = {}
        schedules: dict[tuple[int, ...], Ints | None] = {}
        keeping: dict[tuple[int, ...], int | None] = {}
        for core in cores(self.request, software.backend):
            cuts = core.tensor, core.expert_tensor
            if cuts not in aligned:
                aligned[cuts] = precision not in EIGHT_BIT or not misaligned(model, precision, *cuts)
            if not aligned[cuts]:
                continue
            cut = (core.tensor, core.context, core.pipeline, core.data)
            where = (*cut, core.expert == 1, _alike(core))
            if cut not in schedules:
                schedules[cut] = _schedules(self.request, software, core)
            if where not in keeping:
                keeping[where] = self._kind(_keeping(self.request, software, core))
            table, kind = schedules[cut], keeping[where]
            if table is not None and len(table) and kind is not None:
                yield core, table, kind

    def _kind(self, table: Ints | None) -> int | None:
        """The number of a table of variants."""
        if table is None or not len(table):
            return None
        return self.variants.setdefault(table.tobytes(), (len(self.variants), table))[0]

    def done(self) -> Space:
        """The space of everything added."""
        names = (*SOFTWARE, *DEGREES)
        lengths = np.array([len(table) for table in self.tails], dtype=np.int64)
        heads = np.array(self.heads, dtype=np.int64).reshape(-1, len(names))
        tails = np.concatenate([np.zeros((0, len(SCHEDULE)), dtype=np.int64), *self.tails])
        shapes = {name: np.repeat(heads[:, i], lengths) for i, name in enumerate(names)}
        shapes |= {name: tails[:, i] for i, name in enumerate(SCHEDULE)}
        parts = (self.kinds, self.cuts, range(len(self.kinds)))
        kind, cut, core = (np.repeat(np.array(part, dtype=np.int64), lengths) for part in parts)
        variants = tuple(table for _, table in self.variants.values())
        return Space(shapes, kind, cut, core, variants)


def rows(request: Request) -> Strategies:
    """Every row of the request, before its rules and limits, in a fixed order."""
    found = space(request)
    return found.rows(np.arange(len(found.kind)))


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
    if request.limits.max_usd_per_hour is not None:
        masks["limits.max_usd_per_hour"] = np.full(len(strategies), affordable(request))
    return masks


def affordable(request: Request) -> bool:
    """Whether the cluster costs no more an hour than the request allows."""
    hourly, most = request.cluster.usd_per_hour, request.limits.max_usd_per_hour
    return most is None or (hourly is not None and hourly <= most)


def _cards_below(request: Request, tier: str) -> int:
    """Cards within a tier the cluster has no entry for: those of the next smaller tier, else one."""
    order = ("island", "node", "leaf", "spine")
    below = [t.cards for t in request.cluster.tiers().tiers if order.index(t.name) <= order.index(tier)]
    return max(below, default=1)
