"""The rows of a request: every combination of global choices that could be run and written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

import numpy as np

from ..costs.columns import NAMES, Ints, Strategies, code, numbered, usual_schedules
from ..inputs.record import dataclass
from ..models.backend import Backend
from ..models.divisors import EIGHT_BIT, misaligned
from ..models.overlap import TENSOR_KNOB, tensor_overlapped
from ..plans import Request
from .axes import Core, cores
from .core_tables import SCHEDULE, VARIANT, CoreTables
from .exchanges import Coded, offered
from .software import Software, runs_together, softwares

SOFTWARE = ("backend", "software_stack", "precision", "gradient_dtype", "loss_kernel")
DEGREES = (
    "tensor_parallel",
    "context_parallel",
    "pipeline_parallel",
    "data_parallel",
    "expert_parallel",
    "expert_tensor_parallel",
)
CUT = (*SOFTWARE, "tensor_parallel", "context_parallel", "expert_parallel", "expert_tensor_parallel")
WORK = (
    *CUT,
    "sequence_parallel",
    TENSOR_KNOB,
    "micro_batch_size",
    "context_parallel_kind",
    "ulysses_group_size",
)
"""What the work of a card on a layer depends on."""


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
    offer: Ints
    offers: tuple[tuple[Coded, ...], ...]
    """`offers[offer[i]]`: in which other ways the context ranks of shape i could exchange their sequence."""
    dropped: int = 0
    """Rows that were left out as their states alone are too large."""

    @cached_property
    def works(self) -> tuple[Strategies, Ints]:
        """Columns `WORK` of the shapes whose cards do different work, and which of them each shape is."""
        micro, split = self.shapes["micro_batch_size"], self.shapes["sequence_parallel"]
        packed = (
            (self.cut << 47) | (self.exchange << 41) | (micro << 2) | (split << 1) | self.shapes[TENSOR_KNOB]
        )
        _, first, place = numbered(packed)
        return Strategies.partial({name: self.shapes[name][first] for name in WORK}), place

    @cached_property
    def exchange(self) -> Ints:
        """A small number for each kind and group of context ranks."""
        kind, group = self.shapes["context_parallel_kind"], self.shapes["ulysses_group_size"]
        return numbered((group << 8) | kind)[2]

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
        usual = usual_schedules(columns["pipeline_parallel"], columns["virtual_pipeline"])
        columns["pipeline_schedule"] = usual
        return Strategies(**columns)

    def take(self, shapes: Ints) -> Space:
        """Some of the shapes."""
        columns = {name: values[shapes] for name, values in self.shapes.items()}
        parts = (self.kind[shapes], self.cut[shapes], self.core[shapes])
        return Space(columns, *parts, self.variants, self.offer[shapes], self.offers)

    @cached_property
    def others(self) -> Ints:
        """In how many other ways the context ranks of each shape could exchange their sequence."""
        found: Ints = np.array([len(offer) for offer in self.offers], dtype=np.int64)[self.offer]
        return found

    def with_others(self, shapes: Ints) -> Space:
        """The other exchanges of some shapes, each a shape of its own, in order."""
        found = self.take(np.repeat(shapes, self.others[shapes]))
        coded = [one for offer in self.offer[shapes].tolist() for one in self.offers[offer]]
        kind, group = np.array(coded, dtype=np.int64).reshape(-1, 2).T
        columns = found.shapes | {"context_parallel_kind": kind, "ulysses_group_size": group}
        return replace(found, shapes=columns, offer=np.zeros_like(found.offer), offers=((),))

    def spelled(self) -> Space:
        """This space with every exchange as a shape of its own."""
        more = self.with_others(np.arange(len(self.kind)))
        return replace(
            self,
            shapes={name: np.concatenate([self.shapes[name], more.shapes[name]]) for name in self.shapes},
            kind=np.concatenate([self.kind, more.kind]),
            cut=np.concatenate([self.cut, more.cut]),
            core=np.concatenate([self.core, more.core]),
            offer=np.zeros(len(self.kind) + len(more.kind), dtype=np.int64),
            offers=more.offers,
        )

    def short_of(self, rows: int) -> Space:
        """This space, of which so many rows were left out."""
        return replace(self, dropped=rows)

    def lean(self, least: Ints) -> Ints:
        """Of each core the shape of smallest micro-batches and fewest chunks, then of `least`."""
        sizes, chunks = self.shapes["micro_batch_size"], self.shapes["virtual_pipeline"]
        order = np.lexsort((least, chunks, sizes, self.core))
        found: Ints = order[numbered(self.core[order])[1]]
        return found


def space(request: Request) -> Space:
    """Every row of the request, before its rules and limits, in a fixed order.

    Shapes exchange as is usual, and know how else they could: see `Space.spelled`.
    """
    made = _Shapes(request)
    for software in softwares(request):
        made.add(software)
    return made.done()


class _Shapes:
    """Collects shapes core by core; equal tables are kept once."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.cores: dict[tuple[str, str, str, bool], list[tuple[Core, Ints, int]]] = {}
        self.offers: dict[tuple[Coded, ...], int] = {(): 0}
        self.legal: dict[tuple[str, int, int], list[Coded]] = {}
        self.offered: list[int] = []
        self.variants: dict[bytes, tuple[int, Ints]] = {}
        self.heads: list[tuple[int, ...]] = []
        self.tails: list[Ints] = []
        self.kinds: list[int] = []
        self.cuts: list[int] = []
        self.known: dict[tuple[int, ...], int] = {}

    def add(self, software: Software) -> None:
        """The shapes of one backend with its stack, precision and loss."""
        beside = tensor_overlapped(software.software_stack)
        key = (software.backend.name, software.precision, software.gradient_dtype, beside)
        if key not in self.cores:
            self.cores[key] = list(self._cores(software))
        words = [
            code("backend", software.backend.name),
            code("software_stack", software.software_stack),
            code("precision", software.precision),
            code("gradient_dtype", software.gradient_dtype),
            code("loss_kernel", software.loss_kernel),
        ]
        together: dict[int, bool] = {}
        for core, schedules, kind in self.cores[key]:
            if core.tensor not in together:
                together[core.tensor] = runs_together(self.request, software, core.tensor)
            if together[core.tensor]:
                degrees = (core.tensor, core.context, core.pipeline, core.data, core.expert)
                self.heads.append((*words, *degrees, core.expert_tensor))
                self.tails.append(schedules)
                self.kinds.append(kind)
                self.offered.append(self._offer(software.backend, core))
                cut = (*words, core.tensor, core.context, core.expert, core.expert_tensor)
                self.cuts.append(self.known.setdefault(cut, len(self.known)))

    def _offer(self, known: Backend, core: Core) -> int:
        """The number of the other exchanges of a core."""
        others = tuple(self._exchanges(known, core)[1:])
        return self.offers.setdefault(others, len(self.offers))

    def _exchanges(self, known: Backend, core: Core) -> list[Coded]:
        """What is offered to a core, the usual exchange first."""
        key = (known.name, core.tensor, core.context)
        if key not in self.legal:
            self.legal[key] = offered(self.request, known, core.tensor, core.context)
        return self.legal[key]

    def _cores(self, software: Software) -> Iterator[tuple[Core, Ints, int]]:
        """Cores with their schedules and the number of their variants; experts rarely make a difference."""
        model, precision = self.request.model, software.precision
        aligned: dict[tuple[int, int], bool] = {}
        known: list[Core] = []
        for core in cores(self.request, software.backend):
            cuts = core.tensor, core.expert_tensor
            if cuts not in aligned:
                aligned[cuts] = precision not in EIGHT_BIT or not misaligned(model, precision, *cuts)
            if aligned[cuts] and self._exchanges(software.backend, core):
                known.append(core)
        tables = CoreTables(self.request, software)
        usual = [self._exchanges(software.backend, core)[0] for core in known]
        parts = zip(known, tables.schedules(known, usual), tables.variants(known), strict=True)
        for core, schedules, variants in parts:
            kind = self._kind(variants)
            if len(schedules) and kind is not None:
                yield core, schedules, kind

    def _kind(self, table: Ints) -> int | None:
        """The number of a table of variants."""
        if not len(table):
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
        parts = (self.kinds, self.cuts, range(len(self.kinds)), self.offered)
        kind, cut, core, offer = (np.repeat(np.array(part, dtype=np.int64), lengths) for part in parts)
        variants = tuple(table for _, table in self.variants.values())
        return Space(shapes, kind, cut, core, variants, offer, tuple(self.offers))


def rows(request: Request) -> Strategies:
    """Every row of the request, before its rules and limits, in a fixed order."""
    found = space(request).spelled()
    return found.rows(np.arange(len(found.kind)))
