"""Coefficients of rows as plain integers: the only reader of the ledger in this package."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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


class Affine(NamedTuple):
    """A sum of terms: on every stage, on the first, on the last; and a count of layers, by kind."""

    fixed: int
    first: int
    last: int
    layer: tuple[int, ...]
    full: tuple[int, ...]
    selective: tuple[int, ...]
    offloaded: tuple[int, ...]


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


_Plain = list[tuple[str, dict[str, list[list[int]]]]]


def costs_of(request: Request, rows: Sequence[Row]) -> Iterator[Costs]:
    """The coefficients of each row, terms added up one by one."""
    columns = Strategies.of_rows({name: [getattr(row, name) for row in rows] for name in NAMES})
    book = Book(Layout(request.model, request.training, request.cluster, columns))
    kinds = len(request.model.kinds)
    moments = [_plain(book.memory[moment], kinds) for moment in MOMENTS]
    chunk, tail, host = (_plain(terms, kinds) for terms in (book.chunk, book.tail, book.host))
    shown = [_plain([t for t in terms if "_comm" in t.name], kinds) for terms in (book.chunk, book.tail)]
    sent, unspread = _plain(book.uplink, kinds), _plain(book.unspread, kinds)
    for row in range(len(rows)):
        yield Costs(
            _sum(chunk, row, kinds, "chunk"),
            _sum(tail, row, kinds, "stage"),
            _sum(host, row, kinds, "stage"),
            _sum(shown[0], row, kinds, "chunk"),
            _sum(shown[1], row, kinds, "stage"),
            _sum(sent, row, kinds, "chunk"),
            _sum(sent, row, kinds, "stage"),
            tuple(Moment(_sum(m, row, kinds, "stage"), _sum(m, row, kinds, "flight")) for m in moments),
            *_sum(unspread, row, kinds, "chunk")[1:3],
        )


def _plain(terms: Sequence[Term], kinds: int) -> _Plain:
    """Terms as lists: for each piece the values of every row, one or one a kind."""
    found: _Plain = []
    for term in terms:
        pieces: dict[str, list[list[int]]] = {}
        for piece, values in term.coefficients.items():
            wide = 1 if piece in ENDS else kinds
            pieces[piece] = [[value] * wide if isinstance(value, int) else value for value in values.tolist()]
        found.append((term.per, pieces))
    return found


def _sum(terms: _Plain, row: int, kinds: int, per: str) -> Affine:
    total = {name: [0] * (1 if name in ENDS else kinds) for name in (*ENDS, *BY_KIND)}
    for counted, pieces in terms:
        if counted != per:
            continue
        for piece, values in pieces.items():
            for index, value in enumerate(values[row]):
                total[piece][index] += value
    fixed, first, last = (total[name][0] for name in ENDS)
    layer, full, selective, offloaded = (tuple(total[name]) for name in BY_KIND)
    return Affine(fixed, first, last, layer, full, selective, offloaded)
