"""A ledger term: affine in the integers of a pipeline stage, with its formula and source."""

from __future__ import annotations

from dataclasses import field
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ..inputs.record import dataclass
from .columns import Ints

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
