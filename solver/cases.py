"""Ways in which the stages of a row may recompute when all do alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ..costs.columns import Bools, Ints
from ..inputs.record import dataclass
from ..models.backend import backend
from ..models.strategy import BACKENDS, Recompute
from ..plans import Request
from .coefficients import Coefficients

KEPT, SELECTIVE, FULL = range(3)


def allowed_recompute(request: Request) -> tuple[Recompute, ...]:
    """Words a layer may carry: what the request lists, or all."""
    return request.choose.recompute or ("none", "selective", "full")


def recompute_alike(coefficients: Coefficients) -> Bools:
    """Rows whose stages all recompute the same number of layers, by their backend's nature."""
    alike = np.array([backend(name).recompute_freedom in ("same", "all") for name in BACKENDS])
    found: Bools = alike[coefficients.strategies.backend]
    return found


@dataclass(frozen=True)
class Cases:
    """Rows under one way of recomputing each: `word` of all stages, the first `number` layers if full.

    The stages share out `places` of each round of chunks.
    """

    row: Ints
    word: Ints
    number: Ints
    places: Ints

    def take(self, some: Bools | Ints | slice) -> Cases:
        """Some of the cases."""
        return Cases(self.row[some], self.word[some], self.number[some], self.places[some])

    def repeated(self, times: int) -> Cases:
        """Each case so many times, one after another."""
        return Cases(*(np.repeat(part, times) for part in (self.row, self.word, self.number, self.places)))

    @classmethod
    def join(cls, parts: Sequence[Cases]) -> Cases:
        """The cases of all parts."""
        names = ("row", "word", "number", "places")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def cases(coefficients: Coefficients, rows: Ints, longest: Ints | None) -> Cases:
    """Ways of recomputing of `rows` (all of alike recompute) whose chunks hold at most `longest` layers.

    Without `longest` only the leanest ways of each word: the more is recomputed, the less is held.
    """
    words = allowed_recompute(coefficients.request)
    name = coefficients.strategies.backend[rows]
    able = {word: knows(word)[name] & (word in words) for word in ("none", "selective", "full")}
    whole = np.full(len(rows), coefficients.request.model.layers, dtype=np.int64)
    zero = np.zeros_like(whole)
    if longest is None:
        kept = able["none"] & ~able["selective"] & ~able["full"]
        return _placed(
            coefficients,
            (rows, kept, KEPT, zero),
            (rows, able["selective"], SELECTIVE, zero),
            (rows, able["full"], FULL, whole),
        )
    every = np.array([backend(name).recompute_freedom == "all" for name in BACKENDS])[name]
    every = able["full"] & (every | ("none" not in words))
    some = np.flatnonzero(able["full"] & ~every)
    most = np.maximum(longest[some], 0)
    number = np.arange(int(most.sum())) - np.repeat(np.cumsum(most) - most, most) + 1
    repeated = np.repeat(rows[some], most)
    return _placed(
        coefficients,
        (rows, able["none"], KEPT, zero),
        (rows, able["selective"], SELECTIVE, zero),
        (rows, every, FULL, whole),
        (repeated, np.ones(len(repeated), dtype=np.bool_), FULL, number),
    )


def knows(word: str) -> Bools:
    """Which backends can leave layers as `word` says."""
    return np.array([word in backend(name).recompute for name in BACKENDS])


def _placed(coefficients: Coefficients, *parts: tuple[Ints, Bools, int, Ints]) -> Cases:
    """Cases with the fewest places of their rows, and where these have more with most of them."""
    rows = np.concatenate([rows[some] for rows, some, _, _ in parts])
    word = np.concatenate([np.full(int(some.sum()), code, dtype=np.int64) for _, some, code, _ in parts])
    number = np.concatenate([number[some] for _, some, _, number in parts])
    fewest, most = coefficients.places
    found = Cases(rows, word, number, fewest[rows])
    several = np.flatnonzero(most[rows] > fewest[rows])
    if not len(several):
        return found
    return Cases.join([found, Cases(rows[several], word[several], number[several], most[rows[several]])])


def blocks(found: Cases, most: int) -> Iterator[Cases]:
    """The cases, `most` at a time."""
    for first in range(0, len(found.row), most):
        yield found.take(slice(first, first + most))
