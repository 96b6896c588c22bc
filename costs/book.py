"""The book: every term of the ledger for a layout, by memory moment and by time group."""

from __future__ import annotations

from functools import cached_property

from ..inputs.record import dataclass
from .accumulation import accumulation_term
from .activations import activation_terms
from .buffers import buffer_terms
from .columns import Ints
from .context import context_term
from .exchanged import embedding_copy_terms, expert_term, paired_term, pipeline_term, tensor_term
from .host import host_terms
from .kernels import (
    LayerSeconds,
    embedding_seconds,
    head_seconds,
    head_weight_seconds,
)
from .last_link import on_last_link
from .law import law
from .layout import Layout
from .logits import logits_terms
from .moments import Alive, at_moments
from .once_a_step import replica_term, step_raw_term, step_term
from .optimizer import activation_copy_term, host_step_term, optimizer_term, parameter_copy_term
from .reference import reference_memory, reference_time
from .runtime import fragmentation_terms, runtime_terms, user_buffer_terms
from .sharded import first_gather_raw_term, first_gather_term, sharded_raw_term, sharded_term
from .stacks import stack_constant
from .states import state_terms
from .terms import Note, Term, ns
from .units import units_term
from .uplink import uplink_terms
from .waits import waits_term

_COMPUTE = Note("G gemm + A attention + M memory, forward and backward", "measured curves", "M", "s")
_AGAIN = Note("the forward of a recomputed layer, or its dropped part", "arXiv 2205.05198", "P", "s")
_WEIGHT = Note("products of the gradients of weights", "arXiv 2401.10241 section 2", "D", "s")
_FORWARD = Note("the forward pass; half of what both passes talk", "arXiv 2401.10241 section 2", "A", "s")
_FIXED = Note("fixed_seconds a step", "regression of 2026-11", "M", "s")


@dataclass(frozen=True)
class Book:
    """All terms of n strategies. Memory terms are in KiB, time terms in nanoseconds."""

    layout: Layout
    of_work: tuple[Book, Ints] | None = None
    """A book whose rows have the works of these, and each row's place in it, where it is known already."""

    def _allocated(self) -> list[Alive]:
        """What the framework allocates, with stream pools."""
        return [
            *state_terms(self.layout),
            *activation_terms(self.layout),
            *logits_terms(self.layout),
            *buffer_terms(self.layout),
            *reference_memory(self.layout),
        ]

    @cached_property
    def memory(self) -> dict[str, list[Term]]:
        """Terms on a card at each peak moment: allocated, fragmentation, runtime."""
        allocated = self._allocated()
        outside = [*runtime_terms(self.layout), *user_buffer_terms(self.layout)]
        return at_moments([*allocated, *fragmentation_terms(self.layout, allocated), *outside])

    @cached_property
    def host(self) -> list[Term]:
        """Terms in host memory that one card brings."""
        return host_terms(self.layout)

    @cached_property
    def timed(self) -> Layout:
        """The layout with sequences of the mean length: what work and traffic are priced for."""
        layout = self.layout
        if layout.training.timed is layout.training:
            return layout
        return Layout(layout.transformer, layout.training.timed, layout.cluster, layout.strategies)

    @cached_property
    def work(self) -> LayerSeconds:
        """Seconds of a layer's work."""
        if self.of_work is not None:
            book, place = self.of_work
            return book.work.take(place)
        return LayerSeconds.of(self.timed)

    @cached_property
    def chunk(self) -> list[Term]:
        """Time of one chunk for one micro-batch; head and embedding spread over a stage's chunks."""
        chunks = self.layout.strategies.virtual_pipeline
        return [spread(term, chunks) for term in self.unspread]

    @cached_property
    def local(self) -> list[Term]:
        """Time of a chunk that depends on a card's share of a layer and a micro-batch alone.

        These terms read no column that tells of stages, data ranks, shards or offload.
        """
        if self.of_work is not None:
            book, place = self.of_work
            return [term.take(place) for term in book.local]
        layout, work = self.timed, self.work
        return [
            Term(
                "compute",
                "chunk",
                _COMPUTE,
                ns(
                    layer=work.forward + work.backward,
                    first=embedding_seconds(layout),
                    last=head_seconds(layout),
                ),
            ),
            Term("recompute", "chunk", _AGAIN, ns(full=work.full, selective=work.selective)),
            tensor_term(layout, work),
            context_term(layout, work.attention),
            expert_term(layout, work),
        ]

    @cached_property
    def unspread(self) -> list[Term]:
        """Time of one chunk, with head and embedding whole as if a stage had one chunk."""
        layout, work = self.timed, self.work
        return self._linked(
            *self.local,
            accumulation_term(layout),
            pipeline_term(layout),
            sharded_term(layout, work),
            units_term(layout, work),
            waits_term(layout),
            parameter_copy_term(layout, work),
            activation_copy_term(layout, work),
            paired_term(layout, work),
            *reference_time(layout, work),
        )

    @cached_property
    def weight(self) -> list[Term]:
        """Time of a chunk that gradients of weights take: it may run apart from the backward for inputs."""
        layout = self.timed
        own = ns(layer=self.work.weight, last=head_weight_seconds(layout))
        return self._spread(Term("compute", "chunk", _WEIGHT, own), accumulation_term(layout))

    @cached_property
    def forward(self) -> list[Term]:
        """Time of a chunk's forward: its work, and half of what both passes talk and wait."""
        layout, work = self.timed, self.work
        share = law("forward_share")
        own = ns(
            layer=work.forward, first=share * embedding_seconds(layout), last=share * head_seconds(layout)
        )
        talked = [
            units_term(layout, work), waits_term(layout), tensor_term(layout, work),
            context_term(layout, work.attention), expert_term(layout, work), pipeline_term(layout),
            sharded_term(layout, work),
        ]  # fmt: skip
        halves = [_once_forward(term) for term in talked]
        return self._spread(Term("compute", "chunk", _FORWARD, own), *halves)

    @cached_property
    def tail(self) -> list[Term]:
        """Time of a stage once a step."""
        layout = self.timed
        fixed = Term("framework", "stage", _FIXED, ns(fixed=stack_constant(layout, "fixed_seconds")))
        return [
            step_term(layout, self.work),
            first_gather_term(layout, self.work),
            replica_term(layout, self.work),
            optimizer_term(layout),
            host_step_term(layout),
            *embedding_copy_terms(layout),
            fixed,
        ]

    @cached_property
    def uplink(self) -> list[Term]:
        """Bytes of a machine's network cards: for a chunk and micro-batch, and once a step."""
        chunks = self.layout.strategies.virtual_pipeline
        return [spread(t, chunks) if t.per == "chunk" else t for t in self.uplink_unspread]

    @cached_property
    def uplink_unspread(self) -> list[Term]:
        """`uplink` with what embedding and head send whole as if a stage had one chunk."""
        return uplink_terms(self.timed)

    @cached_property
    def raw_chunk(self) -> list[Term]:
        """Communication of a chunk that is hidden in part: its whole time."""
        return self._spread(sharded_raw_term(self.timed))

    @cached_property
    def raw_tail(self) -> list[Term]:
        """Communication once a step that is hidden in part: its whole time."""
        return [step_raw_term(self.timed), first_gather_raw_term(self.timed)]

    def _linked(self, *terms: Term) -> list[Term]:
        return [on_last_link(term, self.layout.transformer) for term in terms]

    def _spread(self, *terms: Term) -> list[Term]:
        return [spread(term, self.layout.strategies.virtual_pipeline) for term in self._linked(*terms)]


def _once_forward(term: Term) -> Term:
    """Half of a term without what recompute repeats, which is the backward's."""
    kept = {name: value for name, value in term.coefficients.items() if name not in ("full", "selective")}
    return Term(term.name, term.per, term.note, kept).scaled(term.name, 0.5, _FORWARD)


def spread(term: Term, chunks: Ints) -> Term:
    """A chunk term whose embedding and head work is shared by the chunks of their stage, rounded up."""
    pieces = {
        name: -(-value // chunks) if name in ("first", "last") else value
        for name, value in term.coefficients.items()
    }
    return Term(term.name, term.per, term.note, pieces)
