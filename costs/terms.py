"""A ledger term: affine in the integers of a pipeline stage, with its formula and source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike

from ..inputs.record import dataclass
from .columns import Bools, Ints
from .schedule import placed
from .stage_counts import Counts

if TYPE_CHECKING:
    from .layout import Layout

Per = Literal["chunk", "stage", "flight", "waiting"]
"""What a coefficient counts: one chunk once, the whole stage, every chunk in flight, or those of them that
wait for their backward for weights."""

PIECES = ("fixed", "first", "last", "layer", "full", "selective", "offloaded")
"""`fixed` stands on every stage, `first` and `last` on those stages; the rest multiply counts."""

BY_KIND = ("layer", "full", "selective", "offloaded")


@dataclass(frozen=True)
class Note:
    """Where a term comes from: what a reader opens when in doubt."""

    formula: str
    source: str
    grade: Literal["M", "D", "P", "R", "A"]
    unit: str = "bytes"


@dataclass(frozen=True)
class Term:
    """One named summand. Coefficients are whole KiB or ns: (n,) or, by kind of layer, (n, kinds)."""

    name: str
    per: Per
    note: Note
    coefficients: dict[str, Ints] = field(default_factory=dict)

    def take(self, rows: Ints) -> Term:
        """The term of some rows."""
        pieces = {piece: value[rows] for piece, value in self.coefficients.items()}
        return Term(self.name, self.per, self.note, pieces)

    def only(self, piece: str) -> Term:
        """The term with one of its pieces."""
        return Term(self.name, self.per, self.note, {piece: self.coefficients[piece]})

    def scaled(self, name: str, factor: float, note: Note) -> Term:
        """Another term that is `factor` of this one, each coefficient rounded up once."""
        pieces = {piece: ceil(value * factor) for piece, value in self.coefficients.items()}
        return Term(name, self.per, note, pieces)


def ceil(values: ArrayLike) -> Ints:
    """Rounded up to whole units; the tiny slack keeps exact products exact under floats.

    >>> ceil([1.0000000001, 2.5, -0.5]).tolist()
    [1, 3, 0]
    """
    found: Ints = np.ceil(np.asarray(values, dtype=np.float64) - 1e-6).astype(np.int64)
    return found


def kib(**pieces: ArrayLike) -> dict[str, Ints]:
    """Coefficients from bytes: whole KiB, rounded up."""
    return {name: ceil(np.asarray(value, dtype=np.float64) / 1024) for name, value in pieces.items()}


def ns(**pieces: ArrayLike) -> dict[str, Ints]:
    """Coefficients from seconds: whole nanoseconds, rounded up."""
    return {name: ceil(np.asarray(value, dtype=np.float64) * 1e9) for name, value in pieces.items()}


_SUM = Note("the sum of terms", "linear in the counts", "D")


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

    @cached_property
    def whole(self) -> bool:
        """Whether the chunks of every stage hold the same whole number of layers of each kind, once."""
        parts = (self.counts.layer, self.counts.full, self.counts.selective)
        if self.both.any():
            return False
        if int(self.chunks.max(initial=1)) == 1:
            return True
        return not any((part % self.chunks[:, None, None]).any() for part in parts)

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
    Offloaded layers are counted over the stage in either case.
    """
    found: Ints = _evaluated([term.coefficients], term.per, frame)[0]
    return found


def evaluated(terms: Sequence[Term], frame: Frame) -> Ints:
    """`evaluate` of each of `terms`, (terms, n, stages)."""
    found = np.zeros((len(terms), *frame.counts.held.shape), dtype=np.int64)
    for per in dict.fromkeys(term.per for term in terms):
        places = [place for place, term in enumerate(terms) if term.per == per]
        found[places] = _evaluated([terms[place].coefficients for place in places], per, frame)
    return found


def _named(terms: Sequence[Term], frame: Frame) -> Named:
    """`evaluated` terms, those of one name added up."""
    names = tuple(dict.fromkeys(term.name for term in terms))
    found = np.zeros((len(names), *frame.counts.held.shape), dtype=np.int64)
    np.add.at(found, [names.index(term.name) for term in terms], evaluated(terms, frame))
    return names, found


def _evaluated(parts: Sequence[Mapping[str, Ints]], per: Per, frame: Frame) -> Ints:
    """Values of terms that count alike, (terms, n, stages)."""
    counts = frame.counts
    masks = {"fixed": counts.held, "first": frame.first, "last": frame.last}
    total = np.zeros((len(parts), *counts.held.shape), dtype=np.int64)
    layers = np.zeros_like(total)
    for piece, mask in masks.items():
        total += mask * _stacked(parts, piece, counts.held.shape[:1])[:, :, None]
    by_kind = (counts.held.shape[0], counts.layer.shape[2])
    for piece in ("layer", "full", "selective"):
        layers += _weighted(getattr(counts, piece), _stacked(parts, piece, by_kind))
    total += layers if per == "stage" else -(-layers // frame.chunks[:, None])
    if per in frame.held_chunks:
        total *= frame.held_chunks[per]
    if any("offloaded" in part for part in parts):
        total += _weighted(counts.offloaded, _stacked(parts, "offloaded", by_kind))
    total = np.where(counts.held, total, 0)
    if frame.both.any():
        once = counts.held * _stacked(parts, "fixed", counts.held.shape[:1])[:, :, None]
        total = np.where(frame.both[:, None], _from_both_ends(total, per, once, counts.held), total)
    return total


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


def add_up(terms: Iterable[Term], frame: Frame) -> Ints:
    """The sum of `terms` on each stage, (n, stages).

    What a stage counts once is linear in its counts, and so is all else where every chunk holds whole
    layers: such terms are added up first and evaluated once.
    """
    total = np.zeros(frame.counts.held.shape, dtype=np.int64)
    together: dict[Per, dict[str, Ints]] = {}
    for term in terms:
        if term.per != "stage" and not frame.whole:
            total += evaluate(term, frame)
            continue
        found = together.setdefault(term.per, {})
        for piece, value in term.coefficients.items():
            found[piece] = _beside(found[piece], value) if piece in found else value
    for per, pieces in together.items():
        total += evaluate(Term("sum", per, _SUM, pieces), frame)
    return total


def _beside(one: Ints, other: Ints) -> Ints:
    """The sum of two coefficients, either of which may be by kind."""
    if one.ndim == 2 and other.ndim == 1:
        other = other[:, None]
    if other.ndim == 2 and one.ndim == 1:
        one = one[:, None]
    return one + other


def by_name(terms: Sequence[Term], frame: Frame, row: int, stage: int) -> dict[str, int]:
    """Named values of one stage of one row; terms of one name add up, zeros are left out."""
    names, values = frame.named(terms)
    return {n: value for n, value in zip(names, values[:, row, stage].tolist(), strict=True) if value}
