"""Integer coefficients of many rows: the ledger's terms added up, ready for bounds and leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from functools import cached_property

import numpy as np

from ..costs.book import Book, spread
from ..costs.columns import Bools, Ints, Strategies
from ..costs.host import stage_block
from ..costs.layout import Layout
from ..costs.ledger import is_communication
from ..costs.schedule import Rounds, paced
from ..costs.sums import Sum
from ..costs.terms import Term
from ..inputs.record import dataclass
from ..models.backend import backend
from ..models.optimizer import paged_bytes
from ..models.strategy import BACKENDS
from ..plans import Request
from .binding import binding
from .slots import places


@dataclass(frozen=True)
class Coefficients:
    """Sums of the ledger's terms for the rows of `strategies`; arrays are (n,) or (n, kinds).

    Where a backend offloads all layers or none, the offloaded part is folded into the layer's
    coefficients and `offloaded` is zero: such a row has no choice left.
    """

    request: Request
    strategies: Strategies
    of_work: tuple[Book, Ints] | None = field(default=None, kw_only=True, repr=False, compare=False)
    """A book of the works of the rows and each row's place in it, where there is one: see `Book`."""

    @cached_property
    def layout(self) -> Layout:
        """What a rank holds under each row."""
        r = self.request
        return Layout(r.model, r.training, r.cluster, self.strategies)

    @cached_property
    def folds(self) -> Bools:
        """Rows that offload every layer by their backend's nature."""
        whole = np.array([backend(name).offload_freedom == "all" for name in BACKENDS])
        return whole[self.strategies.backend] & self.strategies.away("offload_optimizer")

    @cached_property
    def on_host(self) -> Bools:
        """Rows of which anything lies in host memory: offloaded states or activations, or paged moments."""
        job = self.request.training
        always = job.offload_activations or bool(paged_bytes(job.optimizer))
        return self.strategies.away("offload_optimizer") | always

    @cached_property
    def _shared(self) -> tuple[Book, Ints]:
        """The book of the rows that differ in more than chunks, and each row's place in it.

        Under 1F1B and interleaved no term knows chunks but for how embedding and head are spread over them.
        """
        first, place = self.strategies.unchunked.alike
        r, known = self.request, self.of_work
        layout = Layout(r.model, r.training, r.cluster, self.strategies.take(first))
        return Book(layout, known and (known[0], known[1][first])), place

    def _sum(self, terms: Sequence[Term]) -> Sum:
        """Terms of the shared book added up, one entry a row."""
        book, place = self._shared
        found = Sum.of(terms, len(book.layout.strategies), len(self.request.model.kinds)).take(place)
        offloaded = found.stage["offloaded"]
        fold = self.folds[:, None]
        found.stage["layer"] = found.stage["layer"] + np.where(fold, offloaded, 0)
        found.stage["offloaded"] = np.where(fold, 0, offloaded)
        return found

    def _spread(self, terms: Sequence[Term]) -> Sum:
        """`_sum` of terms of a chunk, whose embedding and head are spread over the chunks of their stage."""
        (_, place), chunks = self._shared, self.strategies.virtual_pipeline
        found = self._sum(terms)
        for piece in ("first", "last"):
            own = [spread(t.only(piece).take(place), chunks) for t in terms if piece in t.coefficients]
            found.stage[piece] = sum((term.coefficients[piece] for term in own), np.zeros_like(chunks))
        return found

    @cached_property
    def depth(self) -> Ints:
        """Places of each round of chunks that the stages of each row share out, at least."""
        return self.places[0]

    @cached_property
    def places(self) -> tuple[Ints, Ints]:
        """Fewest and most places of each round of chunks of each row."""
        s = self.strategies
        return places(self.request.model, s.pipeline_parallel, s.virtual_pipeline)

    @cached_property
    def lacking(self) -> Ints:
        """Layers that the last stage of each row lacks, as its chunks do not divide the layers.

        Of layers of several kinds the places that a stage holds tell what it lacks (`Slots`).
        """
        if len(self.request.model.kinds) > 1:
            return np.zeros_like(self.depth)
        return self.depth * self.strategies.virtual_pipeline - self.request.model.layers

    @cached_property
    def spread_chunk(self) -> Sum:
        """`chunk` as if the last stage lacked nothing."""
        return self._spread(self._shared[0].unspread)

    @cached_property
    def chunk(self) -> Sum:
        """Nanoseconds of a chunk for one micro-batch.

        What a last chunk lacks leaves room for the head: `last` is its least beside any recompute.
        """
        found = self.spread_chunk
        if not self.lacking.any():
            return found
        layer = found.stage["layer"][:, 0] + np.maximum(
            np.maximum(found.stage["full"], found.stage["selective"])[:, 0], 0
        )
        least = found.stage["last"] - self.lacking * layer // self.strategies.virtual_pipeline
        last = np.where(self.lacking > 0, np.maximum(least, 0), found.stage["last"])
        return Sum(found.stage | {"last": last}, found.flight)

    @cached_property
    def room(self) -> Ints:
        """Nanoseconds of a chunk that `chunk` leaves out of the head at most."""
        if not self.lacking.any():
            return np.zeros_like(self.lacking)
        found: Ints = self.spread_chunk.stage["last"] - self.chunk.stage["last"]
        return found

    def _without(self, found: Sum) -> Sum:
        """A sum over stages whose last one holds fewer layers than its chunks have room for."""
        if self.lacking.any():
            found.stage["last"] = found.stage["last"] - self.lacking * found.stage["layer"][:, 0]
        return found

    @cached_property
    def ends(self) -> dict[str, Ints]:
        """Nanoseconds of embedding and head for one micro-batch, whole on their links."""
        whole = self._sum(self._shared[0].unspread).stage
        return {piece: whole[piece] for piece in ("first", "last")}

    @cached_property
    def longest_wait(self) -> Ints:
        """Nanoseconds by which a longer link of an end lengthens the mean time of a chunk at most."""
        chunks = self.strategies.virtual_pipeline
        whole = np.maximum(np.maximum(self.ends["first"], self.ends["last"]), 0)
        return np.where(chunks > 1, paced(np.zeros_like(whole), whole, chunks), 0)

    @cached_property
    def tail(self) -> Sum:
        """Nanoseconds of a stage once a step."""
        return self._without(self._sum(self._shared[0].tail))

    @cached_property
    def host(self) -> Sum:
        """Host KiB one card brings."""
        return self._without(self._sum(self._shared[0].host))

    @cached_property
    def memory(self) -> dict[str, Sum]:
        """Card KiB at each peak moment."""
        return {moment: self._without(self._sum(terms)) for moment, terms in self._shared[0].memory.items()}

    @cached_property
    def uplink(self) -> tuple[Sum, Sum]:
        """Bytes of a machine's network cards: for a chunk and micro-batch, and once a step."""
        terms = self._shared[0].uplink_unspread
        each, once = ([term for term in terms if term.per == per] for per in ("chunk", "stage"))
        return self._spread(each), self._sum(once)

    @cached_property
    def communication(self) -> tuple[Sum, Sum]:
        """Nanoseconds of shown communication within `chunk` and within `tail`."""
        book, _ = self._shared
        each, once = (
            [term for term in terms if is_communication(term.name)] for terms in (book.unspread, book.tail)
        )
        return self._spread(each), self._sum(once)

    @cached_property
    def binding(self) -> list[Sum]:
        """Moments but those another outweighs in every coefficient of every row."""
        return binding(list(self.memory.values()))

    @cached_property
    def passes(self) -> Ints:
        """Chunks each stage works through in a step, m v."""
        return self.strategies.gradient_accumulation_steps * self.strategies.virtual_pipeline

    @cached_property
    def lightest_windows(self) -> Ints:
        """Nanoseconds of the lightest neighbouring layers, one to all of them, (n, layers)."""
        kinds = np.array(self.request.model.kind_of_layer)
        before = np.zeros((len(self.strategies), len(kinds) + 1), dtype=np.int64)
        np.cumsum(self.chunk.stage["layer"][:, kinds], axis=1, out=before[:, 1:])
        windows = [(before[:, size:] - before[:, :-size]).min(axis=1) for size in range(1, len(kinds) + 1)]
        return np.stack(windows, axis=1)

    @cached_property
    def in_flight(self) -> Ints:
        """Chunks in flight, (n, stages)."""
        return self.layout.in_flight

    @cached_property
    def node_stages(self) -> tuple[Ints, Ints, Bools]:
        """Stages that share a node, cards of each on it, whether they line up."""
        return stage_block(self.layout)

    def under(self, request: Request) -> Coefficients:
        """These coefficients under the limits of another request for the same job on the same cluster."""
        found = Coefficients(request, self.strategies, of_work=self.of_work)
        shared = ("layout", "_shared", "spread_chunk", "chunk", "ends", "tail", "host", "memory", "binding")
        for name in shared:
            if name in self.__dict__:
                found.__dict__[name] = self.__dict__[name]
        return found

    def signature(self, row: int) -> tuple[bytes, ...]:
        """Everything that decides what the stages of a row may hold and cost; equal for twins."""
        sums = [self.chunk, self.tail, self.host, *self.memory.values()]
        if self.request.limits.on_stages:
            sums += [*self.communication, *self.uplink]
        parts = [part for total in sums for part in (total.stage, total.flight)]
        values = [value[row] for part in (*parts, self.ends) for value in part.values()]
        values.append(self.room[row])
        s = self.strategies
        shape = (s.pipeline_parallel, s.virtual_pipeline, s.backend, self.passes, *self.node_stages)
        stages = int(s.pipeline_parallel[row])
        return tuple(
            np.asarray(v).tobytes() for v in (*values, *(a[row] for a in shape), self.in_flight[row, :stages])
        )

    def rounds(self, rows: Ints, longest: Ints, first: Ints, last: Ints) -> Rounds:
        """What the rounds of plans of some rows wait for.

        `longest` chunks (plans, stages) have neither embedding nor head; `first` and `last` are those of the
        links on which these stand.
        """
        ends = np.stack([first + self.ends["first"][rows], last + self.ends["last"][rows]])
        return Rounds(self.strategies.virtual_pipeline[rows], longest, ends)

    def take(self, rows: Bools | Ints) -> Coefficients:
        """Coefficients of some rows; sums that are known are not added up again."""
        known = self.of_work
        work = known and (known[0], known[1][rows])
        found = Coefficients(self.request, self.strategies.take(rows), of_work=work)
        for name in ("spread_chunk", "chunk", "tail", "host"):
            if name in self.__dict__:
                found.__dict__[name] = self.__dict__[name].take(rows)
        if "ends" in self.__dict__:
            found.__dict__["ends"] = {piece: value[rows] for piece, value in self.ends.items()}
        if "memory" in self.__dict__:
            found.__dict__["memory"] = {moment: total.take(rows) for moment, total in self.memory.items()}
        return found
