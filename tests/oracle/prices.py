"""Coefficients of rows as plain integers: the only reader of the ledger in this package."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from shardwise.costs.book import Book
from shardwise.costs.columns import NAMES, Strategies
from shardwise.costs.layout import Layout
from shardwise.costs.moments import MOMENTS
from shardwise.costs.terms import Term
from shardwise.plans import Request

from .rows import Row

ENDS = ("fixed", "first", "last")
BY_KIND = ("layer", "full", "selective", "offloaded")


@dataclass(frozen=True)
class Affine:
    """A sum of terms: on every stage, on the first, on the last; and a count of layers, by kind."""

    fixed: int
    first: int
    last: int
    layer: tuple[int, ...]
    full: tuple[int, ...]
    selective: tuple[int, ...]
    offloaded: tuple[int, ...]

    @cached_property
    def by_kind(self) -> tuple[int, ...]:
        """What layers weigh, in the order of `evaluate.Counts`."""
        return (*self.layer, *self.full, *self.selective, *self.offloaded)


class Moment(NamedTuple):
    """Memory at one moment: held by a stage, and by each chunk in flight."""

    stay: Affine
    flight: Affine


class Costs(NamedTuple):
    """What one row costs. Times in ns (`shown`: of communication), memory in KiB, `sent` in bytes.

    `whole_first` and `whole_last` are the ns of embedding and head where they are not spread over chunks.
    """

    chunk: Affine
    tail: Affine
    host: Affine
    shown_chunk: Affine
    shown_tail: Affine
    sent_chunk: Affine
    sent_stage: Affine
    moments: tuple[Moment, ...]
    whole_first: int
    whole_last: int


def costs_of(request: Request, rows: Sequence[Row]) -> Iterator[Costs]:
    """The coefficients of each row, terms added up one by one."""
    columns = Strategies.of_rows({name: [getattr(row, name) for row in rows] for name in NAMES})
    book = Book(Layout(request.model, request.training, request.cluster, columns))
    shape = len(rows), len(request.model.kinds)
    chunk, tail, uplink = book.chunk, book.tail, book.uplink
    shown = [[t for t in terms if "_comm" in t.name] for terms in (chunk, tail)]
    parts = [
        _sums(chunk, "chunk", shape),
        _sums(tail, "stage", shape),
        _sums(book.host, "stage", shape),
        _sums(shown[0], "chunk", shape),
        _sums(shown[1], "stage", shape),
        _sums(uplink, "chunk", shape),
        _sums(uplink, "stage", shape),
    ]
    moments = [
        map(Moment, _sums(book.memory[moment], "stage", shape), _sums(book.memory[moment], "flight", shape))
        for moment in MOMENTS
    ]
    whole = _sums(book.unspread, "chunk", shape)
    first, last = [one.first for one in whole], [one.last for one in whole]
    yield from map(Costs, *parts, zip(*moments, strict=True), first, last)


def _sums(terms: Sequence[Term], per: str, shape: tuple[int, int]) -> list[Affine]:
    """The sum of the terms that count once a `per`, of each row."""
    rows, kinds = shape
    parts = [term.coefficients for term in terms if term.per == per]

    def total(piece: str, kind: int) -> list[int]:
        """One piece of each row, of layers that of a kind, added up over the terms."""
        columns = [part[piece] for part in parts if piece in part]
        plain = [(column[:, kind] if column.ndim == 2 else column).tolist() for column in columns]
        return list(map(sum, zip(*plain, strict=True))) if plain else [0] * rows

    ends = [total(piece, 0) for piece in ENDS]
    by_kind = [zip(*(total(piece, kind) for kind in range(kinds)), strict=True) for piece in BY_KIND]
    return [Affine(*each) for each in zip(*ends, *by_kind, strict=True)]
