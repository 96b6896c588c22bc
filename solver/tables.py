"""What one question leaves for the next on the same cluster: shapes, their bounds, priced rows."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import field
from threading import Lock
from typing import Any, TypeVar

import numpy as np

from ..costs.columns import Bools, Ints
from ..inputs.record import dataclass
from ..plans import Request
from .coefficients import Coefficients
from .cuts import obeying
from .grids import every_cut
from .lower import ShapeBounds, shape_bounds, time_bound
from .room import with_room
from .space import Space, space

MOST = 64
"""Tables kept at most; the oldest go first."""

Made = TypeVar("Made")


@dataclass
class Priced:
    """Rows of some shapes with their time bounds, and the last of them whose memory was priced.

    `among` are their numbers among all rows of the shapes.
    """

    among: Ints
    whole: Coefficients
    bounds: Ints
    last: tuple[Ints, Coefficients] | None = None

    def within(self, limit_ns: int, some: Bools, request: Request) -> tuple[Ints, Coefficients]:
        """(rows with bounds at most `limit_ns`, their coefficients), under the limits of `request`.

        Of rows for which the mask `some` of all rows of the shapes holds.
        """
        worth = np.flatnonzero((self.bounds <= limit_ns) & some[self.among])
        known = self.last
        if known is not None and np.isin(worth, known[0]).all():
            return worth, known[1].take(np.searchsorted(known[0], worth)).under(request)
        every = len(worth) == len(self.bounds)
        part = (self.whole if every else self.whole.take(worth)).under(request)
        self.last = worth, part
        return worth, part


@dataclass
class Tables:
    """A bounded store of pure results, safe to share between threads.

    Limits, rules and the objective are no part of a key: a question that differs in these alone finds
    everything again; one that differs in the cluster's rates finds its shapes.
    """

    most: int = MOST
    _kept: OrderedDict[Any, Any] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def _get(self, key: Any, make: Callable[[], Made]) -> Made:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                found: Made = self._kept[key]
                return found
        made = make()
        with self._lock:
            self._kept[key] = made
            while len(self._kept) > self.most:
                self._kept.popitem(last=False)
        return made

    def outcome(self, request: Request, find: Callable[[], Made]) -> Made:
        """What a search of the whole request found, searched once."""
        return self._get(("outcome", request.inputs_hash()), find)

    def space(self, request: Request) -> Space:
        """`space` of the request, every row."""
        return self._get(("space", *_job(request), _cards(request)), lambda: space(request))

    def roomy(self, request: Request) -> Space:
        """`space` of the request, without rows whose states alone are too large."""
        card = (*_cards(request), request.cluster.node.gpu.memory_usable_bytes)
        return self._get(("roomy", *_job(request), card), lambda: with_room(request, self.space(request)))

    def bounds(self, request: Request, found: Space) -> ShapeBounds:
        """`shape_bounds` of a whole space."""
        return self._get(("bounds", *_job(request), request.cluster), lambda: shape_bounds(request, found))

    def priced(
        self, request: Request, found: Space, bounds: ShapeBounds, shapes: Ints, some: Bools
    ) -> Priced:
        """Rows of some shapes of a space that no rule or limit cuts, at least those of the mask `some`."""
        key = ("rows", *_job(request), request.cluster, shapes.tobytes())
        kept = self._get(key, lambda: priced(request, found, bounds, shapes, some))
        if some[kept.among].sum() == some.sum():
            return kept
        with self._lock:
            self._kept.pop(key, None)
        return self._get(key, lambda: priced(request, found, bounds, shapes, some))


def priced(request: Request, found: Space, bounds: ShapeBounds, shapes: Ints, some: Bools) -> Priced:
    """The rows of some shapes that the mask `some` and the request's rules leave, with their time bounds."""
    rows, (book, place) = found.rows(shapes), bounds.works(found, shapes)
    kept = np.flatnonzero(some & obeying(request, rows))
    if len(kept) < len(rows):
        rows, place = rows.take(kept), place[kept]
    whole = Coefficients(request, rows, of_work=(book, place))
    return Priced(kept, whole, time_bound(whole))


def _cards(request: Request) -> tuple[Any, ...]:
    cluster, node = request.cluster, request.cluster.node
    islands = tuple(tier.cards for tier in cluster.tiers().tiers)
    return cluster.gpus, node.gpus, cluster.nodes, node.gpu.name, node.gpu.precisions, islands


def _job(request: Request) -> tuple[Any, ...]:
    choose = request.choose.model_copy(update={"rules": ()})
    return request.model, request.training, choose, every_cut(request)
