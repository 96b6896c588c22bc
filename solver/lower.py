"""Lower bounds of step times: what no plan of a shape or of a row can beat, whole nanoseconds."""

from __future__ import annotations

import numpy as np

from ..costs.book import Book
from ..costs.columns import Ints, Strategies
from ..costs.layout import Layout
from ..costs.sums import Sum
from ..inputs.record import dataclass
from ..plans import Request
from .coefficients import Coefficients
from .exchanges import EXCHANGE, PLACED, savings
from .space import Space

NEVER = 2**62
"""Nanoseconds no step reaches: no plan of that kind fits."""


def layers_by_kind(request: Request) -> Ints:
    """How many layers of each kind the model has."""
    model = request.model
    return np.bincount(np.array(model.kind_of_layer), minlength=len(model.kinds)).astype(np.int64)


def time_bound(coefficients: Coefficients) -> Ints:
    """A lower bound of the step of each row, ns, whatever the stages hold: its chunks and its tail."""
    s = coefficients.strategies
    count = layers_by_kind(coefficients.request)
    chunks = least_chunks(
        coefficients.chunk.stage, count, s.pipeline_parallel, s.virtual_pipeline, coefficients.passes
    )
    found: Ints = chunks + least_tail(coefficients)
    return found


def cheapest(each: Ints, count: Ints, layers: Ints) -> Ints:
    """What the `layers` cheapest layers of the stack cost, of `each` (n, kinds) and their `count`.

    >>> cheapest(np.array([[5, 2]]), np.array([3, 4]), np.array([6])).tolist()
    [18]
    """
    if each.shape[1] == 1:
        found: Ints = each[:, 0] * layers
        return found
    order = np.argsort(each, axis=1, kind="stable")
    left, total = layers.copy(), np.zeros(len(each), dtype=np.int64)
    for column in range(each.shape[1]):
        kind = order[:, column]
        taken = np.minimum(left, count[kind])
        total += taken * np.take_along_axis(each, kind[:, None], axis=1)[:, 0]
        left -= taken
    return total


def least_tail(coefficients: Coefficients) -> Ints:
    """The tail of the stage of most layers at least, ns."""
    s, tail = coefficients.strategies, coefficients.tail.stage
    v = s.virtual_pipeline
    fullest = -(-coefficients.request.model.layers // s.pipeline_parallel)
    if len(coefficients.request.model.kinds) == 1:
        fullest = np.maximum(
            fullest, -(-coefficients.depth // s.pipeline_parallel) * v - coefficients.lacking
        )
    each = tail["layer"] + np.minimum(tail["offloaded"], 0)
    return cheapest(each, layers_by_kind(coefficients.request), fullest) + tail["fixed"]


def work_of(chunk: dict[str, Ints], count: Ints, p: Ints, v: Ints) -> Ints:
    """W: the chunks of all stages together without recompute, ns."""
    layers = (chunk["layer"] * count[None, :]).sum(axis=1) // v
    found: Ints = layers + chunk["first"] + chunk["last"] + chunk["fixed"] * p
    return found


def least_chunks(chunk: dict[str, Ints], count: Ints, p: Ints, v: Ints, passes: Ints) -> Ints:
    """(m v - 1) max(ceil(W / p), the fullest stage) + W; ceil(L / (v p)) layers lie in some chunk."""
    depth = -(-int(count.sum()) // v)
    fullest = -(-depth // p)
    work = work_of(chunk, count, p, v)
    least = cheapest(chunk["layer"], count, fullest) + chunk["fixed"]
    bound: Ints = (passes - 1) * np.maximum(-(-work // p), least) + work
    return bound


def least_head(last: Ints, layers: int, v: Ints) -> Ints:
    """What the head adds to a chunk of the last stage: nothing is known where that lacks layers."""
    found: Ints = np.where(-layers % v > 0, 0, -(-last // v))
    return found


@dataclass(frozen=True)
class ShapeBounds:
    """A lower bound of the step of all rows of each shape, ns, and the works it was made of.

    `place` is that of each shape in the book of works.
    """

    least: Ints
    book: Book
    place: Ints

    def works(self, found: Space, shapes: Ints) -> tuple[Book, Ints]:
        """The book of works, and the place in it of each row of some shapes."""
        return self.book, np.repeat(self.place[shapes], found.sizes[shapes])


def shape_bounds(request: Request, found: Space) -> ShapeBounds:
    """`ShapeBounds` of a space: the work of its cards, all else free."""
    works, place = found.works
    book = Book(Layout(request.model, request.training, request.cluster, works))
    total = Sum.of(book.local, len(works), len(request.model.kinds)).stage
    least = _bounds(request, found, {piece: value[place] for piece, value in total.items()})
    return ShapeBounds(least, book, place)


def others_bounds(request: Request, found: Space, bounds: ShapeBounds) -> tuple[Ints, Ints]:
    """Shapes that have other exchanges, and a lower bound of all rows of these, ns."""
    some = np.flatnonzero(found.others)
    if not len(some):
        return some, some
    part, works = found.take(some), bounds.book.layout.strategies
    which, place = np.unique(bounds.place[some], return_inverse=True)
    total = Sum.of(bounds.book.local, len(works), len(request.model.kinds)).stage
    total = {piece: value[which] for piece, value in total.items()}
    names = (*PLACED, *EXCHANGE)
    saved = savings(request, Strategies.partial({name: getattr(works, name)[which] for name in names}))
    total["layer"] = np.maximum(total["layer"] - saved, 0)
    place = place.reshape(-1)
    return some, _bounds(request, part, {piece: value[place] for piece, value in total.items()})


def _bounds(request: Request, found: Space, chunk: dict[str, Ints]) -> Ints:
    """What no row of some shapes beats, of the work of one chunk with embedding and head whole."""
    shapes = found.shapes
    v, p = shapes["virtual_pipeline"], shapes["pipeline_parallel"]
    spread = chunk | {
        "first": -(-chunk["first"] // v),
        "last": least_head(chunk["last"], request.model.layers, v),
    }
    passes = shapes["gradient_accumulation_steps"] * v
    return least_chunks(spread, layers_by_kind(request), p, v, passes)


def shape_bound(request: Request, found: Space) -> Ints:
    """A lower bound of the step of all rows of each shape, ns."""
    return shape_bounds(request, found).least
