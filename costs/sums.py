"""Sums of terms: their coefficients added up, and what these make on the stages of strategies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ..inputs.record import dataclass
from .columns import Bools, Ints
from .frame import Frame, evaluate, evaluated, weighed
from .terms import BY_KIND, PIECES, Per, Term


@dataclass(frozen=True)
class Sum:
    """Terms of one group added up: coefficients (n,) for fixed, first, last and (n, kinds) by count.

    `stage` holds what is counted over a stage (or one chunk, for chunk groups), `flight` what is
    counted for every chunk in flight.
    """

    stage: dict[str, Ints]
    flight: dict[str, Ints]

    @classmethod
    def of(cls, terms: Sequence[Term], rows: int, kinds: int) -> Sum:
        """The sum of `terms`, each of length `rows`. Pieces of which no term tells are one array of zeros."""
        none = _none(rows, kinds)
        stage: dict[str, Ints] = {}
        flight: dict[str, Ints] = {}
        for term in terms:
            target = flight if term.per == "flight" else stage
            for piece, value in term.coefficients.items():
                before = target.get(piece, none[piece])
                target[piece] = before + (value[:, None] if before.ndim > value.ndim else value)
        return cls(none | stage, none | flight)

    def take(self, rows: Bools | Ints) -> Sum:
        """The sum of some rows."""
        parts = self.stage, self.flight
        taken = {id(value): value[rows] for part in parts for value in part.values()}
        return Sum(*({piece: taken[id(value)] for piece, value in part.items()} for part in parts))


def _none(rows: int, kinds: int) -> dict[str, Ints]:
    """Zeros for each piece: an array for those that stand on a stage, one for those by kind of layer."""
    alone, by_kind = np.zeros(rows, dtype=np.int64), np.zeros((rows, kinds), dtype=np.int64)
    return {piece: by_kind if piece in BY_KIND else alone for piece in PIECES}


def add_up(terms: Iterable[Term], frame: Frame) -> Ints:
    """The sum of `terms` on each stage, (n, stages).

    What a stage counts once is linear in its counts, and so is all else where every chunk holds whole
    layers: such terms are added up first and evaluated once. Where chunks are unlike, the longest in the sum
    of all terms counts, so these are weighed together.
    """
    terms, total = list(terms), np.zeros(frame.counts.held.shape, dtype=np.int64)
    alone = [] if frame.whole else [term for term in terms if term.per != "stage"]
    for per, pieces in _together(terms if frame.whole else [t for t in terms if t.per == "stage"]).items():
        total += weighed([pieces], per, frame)[0]
    if frame.counts.chunks is None:
        for term in alone:
            total += evaluate(term, frame)
        return total
    found_alone: Ints = total + evaluated(alone, frame).sum(axis=0)
    return found_alone


def add_up_each(groups: Sequence[Sequence[Term]], frame: Frame) -> Sequence[Ints]:
    """`add_up` of each of several groups of terms, together where that is the same."""
    if not frame.whole or frame.counts.chunks is not None:
        return [add_up(terms, frame) for terms in groups]
    total = np.zeros((len(groups), *frame.counts.held.shape), dtype=np.int64)
    parts = [_together(terms) for terms in groups]
    for per in dict.fromkeys(per for part in parts for per in part):
        places = [place for place, part in enumerate(parts) if per in part]
        total[places] += weighed([parts[place][per] for place in places], per, frame)
    return list(total)


def _together(terms: Iterable[Term]) -> dict[Per, dict[str, Ints]]:
    """The coefficients of terms that count alike, added up."""
    together: dict[Per, dict[str, Ints]] = {}
    for term in terms:
        found = together.setdefault(term.per, {})
        for piece, value in term.coefficients.items():
            found[piece] = _beside(found[piece], value) if piece in found else value
    return together


def _beside(one: Ints, other: Ints) -> Ints:
    """The sum of two coefficients, either of which may be by kind."""
    if one.ndim == 2 and other.ndim == 1:
        other = other[:, None]
    if other.ndim == 2 and one.ndim == 1:
        one = one[:, None]
    return one + other
