"""Values of terms on the stages of strategies: coefficients times counts, of unlike chunks the longest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ..inputs.record import dataclass
from .columns import Bools, Ints
from .schedule import placed
from .stage_counts import COUNTED, ChunkCounts, Counts
from .terms import Per, Term

if TYPE_CHECKING:
    from .layout import Layout

Named = tuple[tuple[str, ...], Ints]
"""Names of terms, and the values of each: those of one name added up, (names, n, stages)."""


@dataclass(frozen=True)
class Frame:
    """What turns counts into values: per-row chunk numbers and per-stage masks, (n, stages)."""

    counts: Counts
    chunks: Ints
    held_chunks: dict[Per, Ints]
    """Chunks in flight and of them those that wait, (n, stages)."""
    first: Bools
    last: Bools
    both: Bools
    """Rows whose stages each hold those of the same place from the other end too, (n,)."""
    known: dict[int, tuple[Sequence[Term], Named]] = field(default_factory=dict, repr=False, compare=False)
    """Values already asked for, by the identity of the list of terms, which is kept with them."""
    each: dict[int, tuple[Term, Ints]] = field(default_factory=dict, repr=False, compare=False)
    """Of terms that stand in several lists, where none has to be weighed with others: the value of each."""

    @cached_property
    def whole(self) -> bool:
        """Whether the chunks of every stage hold the same whole number of layers of each kind, once."""
        parts = (self.counts.layer, self.counts.full, self.counts.selective)
        if self.both.any():
            return False
        if int(self.chunks.max(initial=1)) == 1:
            return True
        return not any((part % self.chunks[:, None, None]).any() for part in parts)

    def values(self, terms: Sequence[Term]) -> Ints:
        """`evaluated` of `terms`; where all chunks are alike each is evaluated once for all its lists."""
        if self.counts.chunks is not None:
            return evaluated(terms, self)
        fresh = [term for term in terms if id(term) not in self.each]
        self.each.update({id(t): (t, v) for t, v in zip(fresh, evaluated(fresh, self), strict=True)})
        return np.stack([self.each[id(term)][1] for term in terms])

    def named(self, terms: Sequence[Term]) -> Named:
        """Values of `terms` by name, kept for whoever asks for another stage."""
        known = self.known.get(id(terms))
        if known is None:
            known = self.known[id(terms)] = terms, _named(terms, self)
        return known[1]

    @classmethod
    def of(cls, counts: Counts, layout: Layout) -> Frame:
        """The frame of `counts` under the strategies of `layout`."""
        s, width = layout.strategies, counts.held.shape[1]
        chunks: dict[Per, Ints] = {
            "flight": layout.in_flight[:, :width],
            "waiting": layout.waiting[:, :width],
        }
        return cls.placed(counts, s.virtual_pipeline, chunks, placed(s, "vee"), placed(s, "both"))

    @classmethod
    def placed(cls, counts: Counts, chunks: Ints, held: dict[Per, Ints], vee: Bools, both: Bools) -> Frame:
        """The frame of rows laid as a V, from both ends, or else as a loop; the masks are (n,)."""
        stages = counts.held.sum(axis=1)
        index = np.arange(counts.held.shape[1])[None, :]
        last = np.where(vee, 0, stages - 1)[:, None]
        return cls(counts, chunks, held, index == 0, index == last, both)


def evaluate(term: Term, frame: Frame) -> Ints:
    """The value of `term` on each stage, (n, stages), whole units; 0 where no stage is held.

    A per-stage term meets the layers of every chunk; a per-chunk term those of one (a stage's layers
    over its chunks, rounded up); a per-flight or per-waiting term that as often as there are such chunks.
    Where the chunks of a stage are not alike, the one that counts is the longest: see `longest`.
    Offloaded layers are counted over the stage in either case.
    """
    found: Ints = weighed([term.coefficients], term.per, frame)[0]
    return found


def evaluated(terms: Sequence[Term], frame: Frame) -> Ints:
    """`evaluate` of each of `terms`, (terms, n, stages)."""
    found = np.zeros((len(terms), *frame.counts.held.shape), dtype=np.int64)
    for per in dict.fromkeys(term.per for term in terms):
        places = [place for place, term in enumerate(terms) if term.per == per]
        found[places] = weighed([terms[place].coefficients for place in places], per, frame)
    return found


def _named(terms: Sequence[Term], frame: Frame) -> Named:
    """`evaluated` terms, those of one name added up."""
    names = tuple(dict.fromkeys(term.name for term in terms))
    found = np.zeros((len(names), *frame.counts.held.shape), dtype=np.int64)
    np.add.at(found, [names.index(term.name) for term in terms], frame.values(terms))
    return names, found


def weighed(parts: Sequence[Mapping[str, Ints]], per: Per, frame: Frame) -> Ints:
    """Values of terms that count alike, (terms, n, stages); of unlike chunks that which is longest in all."""
    counts = frame.counts
    layers, ends = _layers(parts, counts), _ends(parts, frame)
    if per != "stage":
        layers = -(-layers // frame.chunks[:, None])
        if counts.chunks is not None:
            told = longest(parts, counts.chunks, frame)
            layers = np.where(counts.chunks.rows[:, None], told.layers, layers)
            ends = told.beside(ends) if per == "chunk" else ends
    fixed = counts.held * _stacked(parts, "fixed", counts.held.shape[:1])[:, :, None]
    total = fixed + ends.sum(axis=0) + layers
    if per in frame.held_chunks:
        total *= frame.held_chunks[per]
    if any("offloaded" in part for part in parts):
        by_kind = (counts.held.shape[0], counts.layer.shape[2])
        total += _weighted(counts.offloaded, _stacked(parts, "offloaded", by_kind))
    total = np.where(counts.held, total, 0)
    if frame.both.any():
        total = np.where(frame.both[:, None], _from_both_ends(total, per, fixed, counts.held), total)
    return total


def _layers(parts: Sequence[Mapping[str, Ints]], counts: Counts) -> Ints:
    """What all layers of each stage weigh, (terms, n, stages)."""
    by_kind = (counts.held.shape[0], counts.layer.shape[2])
    found: Ints = np.zeros((len(parts), *counts.held.shape), dtype=np.int64)
    for piece in COUNTED:
        if any(piece in part for part in parts):
            found += _weighted(getattr(counts, piece), _stacked(parts, piece, by_kind))
    return found


def _ends(parts: Sequence[Mapping[str, Ints]], frame: Frame) -> Ints:
    """What embedding and head add to their stages, (2, terms, n, stages)."""
    rows = frame.counts.held.shape[:1]
    first = frame.first * _stacked(parts, "first", rows)[:, :, None]
    last = frame.last * _stacked(parts, "last", rows)[:, :, None]
    return np.stack([np.where(frame.counts.held, end, 0) for end in (first, last)])


@dataclass(frozen=True)
class Longest:
    """Of the chunks of each stage the longest in the sum of some terms.

    `layers` what its layers weigh in each term, (terms, n, stages); `lacking` by how much the first chunk,
    where the embedding stands, and the last, where the head does, are shorter, (2, n, stages).
    """

    layers: Ints
    lacking: Ints
    chunks: Ints

    def beside(self, ends: Ints) -> Ints:
        """What is left of `ends`, spread over all chunks, term after term, once their chunks are as long."""
        room = (self.lacking // self.chunks[:, None])[:, None]
        before = np.cumsum(ends, axis=1) - ends
        found: Ints = np.maximum(before + ends - room, 0) - np.maximum(before - room, 0)
        return found


def longest(parts: Sequence[Mapping[str, Ints]], chunks: ChunkCounts, frame: Frame) -> Longest:
    """`Longest` of terms that count alike; the first of equals. Nothing lacks where chunks are alike."""
    rows, stages, number, kinds = chunks.layer.shape
    each = np.zeros((len(parts), rows, stages, number), dtype=np.int64)
    for piece in COUNTED:
        stacked = _stacked(parts, piece, (rows, kinds))
        each += np.einsum("nsck,tnk->tnsc", getattr(chunks, piece), stacked)
    total = each.sum(axis=0)
    most = total.argmax(axis=2)[:, :, None]
    layers = np.take_along_axis(each, np.broadcast_to(most, (len(parts), *most.shape)), axis=3)[..., 0]
    place = np.broadcast_to((frame.chunks - 1)[:, None, None], most.shape)
    ends = np.stack([total[:, :, 0], np.take_along_axis(total, place, axis=2)[..., 0]])
    lacking = np.take_along_axis(total, most, axis=2)[..., 0] - ends
    return Longest(layers, np.where(chunks.rows[:, None], lacking, 0), frame.chunks)


def links(terms: Sequence[Term], frame: Frame) -> tuple[Ints, Ints]:
    """(Longest chunk of each stage without embedding and head, (n, stages); the links with these, (2, n)).

    Of chunk terms whose embedding and head stand whole on their links.
    """
    counts, parts = frame.counts, [term.coefficients for term in terms]
    each = -(-_layers(parts, counts) // frame.chunks[:, None])
    lacking = np.zeros((2, *counts.held.shape), dtype=np.int64)
    if counts.chunks is not None:
        told = longest(parts, counts.chunks, frame)
        each, lacking = np.where(counts.chunks.rows[:, None], told.layers, each), told.lacking
    fixed = counts.held * _stacked(parts, "fixed", counts.held.shape[:1])[:, :, None]
    chunk: Ints = np.where(counts.held, (each + fixed).sum(axis=0), 0)
    whole = chunk - lacking + _ends(parts, frame).sum(axis=1)
    places = np.stack([frame.first & counts.held, frame.last & counts.held])
    return chunk, np.where(places, whole, 0).max(axis=2)


def _from_both_ends(total: Ints, per: Per, once: Ints, held: Bools) -> Ints:
    """Values of stages that hold those of the same place from the other end too, (terms, n, stages).

    A chunk's time is the mean of both, as half of the micro-batches take each; what stands `once` a card is
    not doubled.
    """
    stages = held.sum(axis=1)[:, None]
    mirror = np.clip(stages - 1 - np.arange(held.shape[1])[None, :], 0, None)
    other = np.take_along_axis(total, np.broadcast_to(mirror, total.shape), axis=2)
    if per == "chunk":
        return np.where(held, -(-(total + other) // 2), 0)
    return np.where(held, total + other - (once if per == "stage" else 0), 0)


def _stacked(parts: Sequence[Mapping[str, Ints]], piece: str, shape: tuple[int, ...]) -> Ints:
    """One piece of each of several terms, 0 where a term has none, (terms, *shape)."""
    found = np.zeros((len(parts), *shape), dtype=np.int64)
    for place, part in enumerate(parts):
        if piece in part:
            value = part[piece]
            found[place] = value[:, None] if value.ndim == 1 and len(shape) == 2 else value
    return found


def _weighted(counts: Ints, value: Ints) -> Ints:
    """Counts (n, stages, kinds) times coefficients (terms, n, kinds), summed over kinds."""
    found: Ints = np.einsum("nsk,tnk->tns", counts, value)
    return found


def by_name(terms: Sequence[Term], frame: Frame, row: int, stage: int) -> dict[str, int]:
    """Named values of one stage of one row; terms of one name add up, zeros are left out."""
    names, values = frame.named(terms)
    return {n: value for n, value in zip(names, values[:, row, stage].tolist(), strict=True) if value}
