"""Admissible integer bounds of rows, and uniform plans that give the first incumbents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..costs.book import Sum
from ..costs.columns import Bools, Ints
from ..costs.schedule import step
from ..models.backend import backend
from ..models.strategy import BACKENDS
from .coefficients import Coefficients, allowed_recompute, capacity_kib, host_capacity_kib


def layers_by_kind(coefficients: Coefficients) -> Ints:
    """How many layers of each kind the model has."""
    model = coefficients.request.model
    return np.bincount(np.array(model.kind_of_layer), minlength=len(model.kinds)).astype(np.int64)


def time_bound(coefficients: Coefficients) -> Ints:
    """A lower bound of the step of each row, ns, whatever the stages hold.

    (m v - 1) max(ceil(W / p), layers of the fullest stage) + W + tail of the fullest stage, where W is
    the work of all stages without recompute; ceil(L / (v p)) layers lie on some stage.
    """
    s = coefficients.strategies
    p, v = s.pipeline_parallel, s.virtual_pipeline
    count = layers_by_kind(coefficients)
    chunk, tail = coefficients.chunk.stage, coefficients.tail.stage
    layers = int(count.sum())
    fullest = -(-(layers // v) // p)
    work = (chunk["layer"] * count[None, :]).sum(axis=1) // v + chunk["first"] + chunk["last"]
    work = work + chunk["fixed"] * p
    least = chunk["layer"].min(axis=1) * fullest + chunk["fixed"]
    most = np.maximum(-(-work // p), least)
    after = tail["layer"].min(axis=1) * fullest * v + tail["fixed"]
    after = after + np.minimum(tail["offloaded"].min(axis=1), 0) * fullest * v
    bound: Ints = (coefficients.passes - 1) * most + work + after
    return bound


def uniform_counts(layers: int, stages: int) -> list[int]:
    """Layers as even as can be; what is left over goes to inner stages first, to the last one last.

    >>> uniform_counts(10, 4)
    [2, 3, 3, 2]
    """
    base, extra = divmod(layers, stages)
    order = [*range(1, stages - 1), 0, stages - 1] if stages > 1 else [0]
    counts = [base] * stages
    for stage in order[:extra]:
        counts[stage] += 1
    return counts


def balanced_counts(chunk: dict[str, Ints], row: int, kinds: Ints, stages: int) -> list[int]:
    """Layers of a mixed stack on each stage so that the slowest chunk is about as short as can be.

    The work of layers by kind is that of one row; each stage takes layers up to an even share of what is
    left, and at least one.
    """
    work = chunk["layer"][row][kinds].astype(np.float64)
    ends = np.zeros(stages)
    ends[-1] = float(chunk["last"][row])
    sizes, start = [], 0
    for stage in range(stages):
        left = stages - stage
        if left == 1:
            sizes.append(len(kinds) - start)
            break
        share = (work[start:].sum() + ends[stage:].sum()) / left
        most = len(kinds) - start - (left - 1)
        taken = int(np.searchsorted(work[start:].cumsum(), share + work[start] / 2))
        sizes.append(min(max(taken, 1), most))
        start += sizes[-1]
    return sizes


NEVER = 2**62
"""Nanoseconds no step reaches: no plan of that kind fits."""


@dataclass(frozen=True)
class _Even:
    """Rows of one pipeline length and chunk number, evenly cut: counts are (stages, kinds)."""

    rows: Ints
    counts: Ints
    stages: int


def _groups(coefficients: Coefficients) -> Iterator[_Even]:
    s = coefficients.strategies
    pairs = np.stack([s.pipeline_parallel, s.virtual_pipeline], axis=1)
    kinds = np.array(coefficients.request.model.kind_of_layer)
    for p, v in np.unique(pairs, axis=0).tolist():
        rows = np.flatnonzero((pairs[:, 0] == p) & (pairs[:, 1] == v))
        sizes = uniform_counts(len(kinds) // v, p)
        if p > 1 and kinds.max():
            sizes = balanced_counts(coefficients.chunk.stage, int(rows[0]), kinds, p)
        edges = np.concatenate([[0], np.cumsum(sizes)])
        counts = [
            np.bincount(kinds[a:b], minlength=kinds.max() + 1) for a, b in zip(edges, edges[1:], strict=False)
        ]
        yield _Even(rows, np.array(counts, dtype=np.int64), p)


def _stage_values(part: dict[str, Ints], even: _Even, chunks: Ints | int) -> Ints:
    """Values of a sum without recompute or offload on each stage, (rows, stages)."""
    rows = even.rows
    total = part["layer"][rows] @ even.counts.T * chunks + part["fixed"][rows][:, None]
    total[:, 0] += part["first"][rows]
    total[:, -1] += part["last"][rows]
    return total


def _memory_excess(total: Sum, coefficients: Coefficients, even: _Even, capacity: int) -> Ints:
    """KiB above `capacity` on each stage with everything kept and nothing offloaded in part."""
    v = coefficients.strategies.virtual_pipeline[even.rows][:, None]
    flight = coefficients.in_flight[even.rows][:, : even.stages]
    stay = _stage_values(total.stage, even, v)
    offloaded = total.stage["offloaded"][even.rows] @ even.counts.T * v
    over: Ints = stay + offloaded + flight * _stage_values(total.flight, even, 1) - capacity
    return over


def uniform(coefficients: Coefficients) -> Ints:
    """Step time of the best uniform plan of each row, `NEVER` where none fits.

    Even layers, offload whole, least recompute of one word. It is a real plan, so its time is an upper
    bound of the row.
    """
    best = np.full(len(coefficients.strategies), NEVER, dtype=np.int64)
    words = allowed_recompute(coefficients.request)
    for even in _groups(coefficients):
        excess = {
            moment: _memory_excess(total, coefficients, even, capacity_kib(coefficients.request))
            for moment, total in coefficients.memory.items()
        }
        fits_host = _host_fits(coefficients, even)
        for word in ("none", "selective", "full"):
            if word in words:
                found = _with_word(coefficients, even, excess, fits_host, word)
                best[even.rows] = np.minimum(best[even.rows], found)
    return best


def _host_fits(coefficients: Coefficients, even: _Even) -> Bools:
    rows = even.rows
    stages, cards, aligned = (part[rows] for part in coefficients.node_stages)
    v = coefficients.strategies.virtual_pipeline[rows][:, None]
    each = _stage_values(coefficients.host.stage, even, v)
    each += coefficients.host.stage["offloaded"][rows] @ even.counts.T * v
    offloaded = coefficients.strategies.is_("offload_optimizer", "cpu")[rows]
    capacity = host_capacity_kib(coefficients.request, coefficients.layout)
    found = np.zeros(len(rows), dtype=np.bool_)
    for count in np.unique(stages).tolist():
        some = stages == count
        padded = np.pad(each[some], ((0, 0), (0, -even.stages % count)))
        blocks = padded.reshape(padded.shape[0], -1, count).sum(axis=2).max(axis=1)
        found[some] = blocks * cards[some] <= capacity
    fits: Bools = np.logical_or(~offloaded, np.logical_and(found, aligned))
    return fits


def _recompute_all(coefficients: Coefficients, rows: Ints, word: str) -> Bools:
    """Rows that must recompute every layer under `word`: by their backend, or as "none" is not allowed."""
    must = "none" not in allowed_recompute(coefficients.request)
    free = {"full": ("free", "same"), "selective": ("free",)}[word]
    whole = np.array([backend(name).recompute_freedom not in free for name in BACKENDS])
    return whole[coefficients.strategies.backend[rows]] | must


def _supports(coefficients: Coefficients, rows: Ints, word: str) -> Bools:
    known = np.array([word in backend(name).recompute for name in BACKENDS])
    return known[coefficients.strategies.backend[rows]]


def _with_word(
    coefficients: Coefficients, even: _Even, excess: dict[str, Ints], fits_host: Bools, word: str
) -> Ints:
    """Step times of an even group with the least recompute of one word that fits."""
    rows = even.rows
    layers = even.counts.sum(axis=1)
    again = np.zeros((len(rows), even.stages), dtype=np.int64)
    if word != "none":
        again = _needed(coefficients, even, excess, word)
        again = np.minimum(again.max(axis=1)[:, None], layers[None, :])
        again = np.where(_recompute_all(coefficients, rows, word)[:, None], layers[None, :], again)
    fits = fits_host & _supports(coefficients, rows, word)
    flight = coefficients.in_flight[rows][:, : even.stages]
    for moment, over in excess.items():
        if word != "none":
            over = over + flight * again * coefficients.memory[moment].flight[word][rows].max(axis=1)[:, None]
        fits &= (over <= 0).all(axis=1)
    chunk, tail = coefficients.chunk.stage, coefficients.tail.stage
    v = coefficients.strategies.virtual_pipeline[rows][:, None]
    busy = _stage_values(chunk, even, 1) + chunk["offloaded"][rows] @ even.counts.T * v
    if word != "none":
        busy = busy + again * chunk[word][rows].max(axis=1)[:, None]
    after = _stage_values(tail, even, v) + tail["offloaded"][rows] @ even.counts.T * v
    total = step(busy, after, np.ones_like(busy, dtype=np.bool_), coefficients.passes[rows]).total
    return np.where(fits, total, NEVER)


def _needed(coefficients: Coefficients, even: _Even, excess: dict[str, Ints], word: str) -> Ints:
    """Layers of a chunk to recompute so that each stage fits, by the least relief of any kind."""
    rows = even.rows
    flight = coefficients.in_flight[rows][:, : even.stages]
    needed = np.zeros((len(rows), even.stages), dtype=np.int64)
    for moment, over in excess.items():
        relief = -coefficients.memory[moment].flight[word][rows].max(axis=1)[:, None] * flight
        some = -(-np.maximum(over, 0) // np.maximum(relief, 1))
        needed = np.maximum(needed, some)
    found: Ints = np.minimum(needed, even.counts.sum(axis=1)[None, :])
    return found


def can_fit(coefficients: Coefficients) -> Bools:
    """Rows not proved too large: recomputing and offloading all that may be, the stages hold all layers."""
    return _holds_all(coefficients, np.full(len(coefficients.strategies), NEVER, dtype=np.int64))


def within(coefficients: Coefficients, bounds: Ints, limit_ns: int) -> Bools:
    """Rows not proved slower than `limit_ns`: at the slowest chunk that still keeps it, all layers fit.

    `bounds` are the rows' `time_bound`. Of the limit, what is above the bound may go into the bottleneck,
    m v - 1 times; with that much time a chunk recomputes at the cheapest rate, in fractions of layers.
    """
    p = coefficients.strategies.pipeline_parallel
    count = layers_by_kind(coefficients)
    chunk = coefficients.chunk.stage
    v = coefficients.strategies.virtual_pipeline
    work = (chunk["layer"] * count[None, :]).sum(axis=1) // v + chunk["first"] + chunk["last"]
    mean = -(-(work + chunk["fixed"] * p) // p)
    fullest = chunk["layer"].min(axis=1) * -(-(int(count.sum()) // v) // p) + chunk["fixed"]
    slack = np.maximum(limit_ns - bounds, 0) // np.maximum(coefficients.passes - 1, 1)
    tau = np.where(coefficients.passes > 1, np.maximum(mean, fullest) + slack, NEVER)
    return (bounds <= limit_ns) & _holds_all(coefficients, tau)


def _holds_all(coefficients: Coefficients, tau: Ints) -> Bools:
    """Whether stages whose chunks take at most `tau` can hold all layers; sound, not complete."""
    s = coefficients.strategies
    most = _most_layers(coefficients, tau)
    held = np.arange(most.shape[1])[None, :] < s.pipeline_parallel[:, None]
    impossible = (held & (most < 1)).any(axis=1)
    total = np.where(held, np.minimum(most, 2**20), 0).sum(axis=1)
    enough: Bools = ~impossible & (total >= coefficients.request.model.layers // s.virtual_pipeline)
    return enough


def _most_layers(coefficients: Coefficients, tau: Ints) -> Ints:
    """Most layers a chunk of each stage holds within `tau` ns and the card's memory, (n, stages).

    For each moment: kept layers cost time only; beyond the memory each further layer buys its room by
    recompute at the best KiB a ns of any word, until all is recomputed. Rounded in the row's favour.
    """
    flight = coefficients.in_flight
    capacity = capacity_kib(coefficients.request)
    layer = coefficients.chunk.stage["layer"].min(axis=1).astype(np.float64)[:, None]
    time = tau[:, None].astype(np.float64) - _ends(coefficients, coefficients.chunk.stage)
    most = np.floor(time / np.maximum(layer, 1e-3) + 1e-6)
    for total in coefficients.memory.values():
        relief, rate = _relief(coefficients, total)
        stay = total.stage["layer"] + np.minimum(total.stage["offloaded"], 0)
        each = (stay.min(axis=1) * coefficients.strategies.virtual_pipeline)[:, None] + flight * total.flight[
            "layer"
        ].min(axis=1)[:, None].astype(np.float64)
        room = capacity - _ends(coefficients, total.stage) - flight * _ends(coefficients, total.flight)
        rates = np.maximum(flight * rate[:, None], 1e-12)
        bought = (time + room / rates) / np.maximum(layer + each / rates, 1e-9)
        kept = np.where(each > 0, room / np.maximum(each, 1e-9), 2.0**40)
        least = each - flight * relief[:, None]
        squeezed = np.where(least > 0, room / np.maximum(least, 1e-9), 2.0**40)
        here = np.where(room < 0, 0.0, np.maximum(np.minimum(bought, squeezed), kept))
        most = np.minimum(most, np.floor(here + 1e-6))
    found: Ints = most.astype(np.int64)
    return found


def _ends(coefficients: Coefficients, part: dict[str, Ints]) -> Ints:
    """Fixed, first and last coefficients of each stage, (n, stages)."""
    width = coefficients.in_flight.shape[1]
    index = np.arange(width)[None, :]
    last = index == (coefficients.strategies.pipeline_parallel - 1)[:, None]
    ends: Ints = part["fixed"][:, None] + (index == 0) * part["first"][:, None] + last * part["last"][:, None]
    return ends


def _relief(coefficients: Coefficients, total: Sum) -> tuple[Ints, np.ndarray]:
    """(KiB a recomputed layer frees at most, best KiB a nanosecond) of each row, one chunk in flight."""
    size = len(coefficients.strategies)
    relief, rate = np.zeros(size, dtype=np.int64), np.zeros(size)
    words = allowed_recompute(coefficients.request)
    for word in ("selective", "full"):
        if word not in words:
            continue
        usable = _supports(coefficients, np.arange(size), word)
        freed = np.where(usable[:, None], -total.flight[word], 0)
        cost = np.maximum(coefficients.chunk.stage[word], 1e-6)
        relief = np.maximum(relief, freed.max(axis=1))
        rate = np.maximum(rate, (freed / cost).max(axis=1))
    return relief, rate


def shortage(coefficients: Coefficients) -> Ints:
    """KiB by which the leanest even plan of each row exceeds a card (negative: room), for explanations.

    Everything that may be recomputed and offloaded is.
    """
    lack = np.full(len(coefficients.strategies), -(2**60), dtype=np.int64)
    for even in _groups(coefficients):
        flight = coefficients.in_flight[even.rows][:, : even.stages]
        layers = even.counts.sum(axis=1)[None, :]
        for total in coefficients.memory.values():
            over = _memory_excess(total, coefficients, even, capacity_kib(coefficients.request))
            relief, _ = _relief(coefficients, total)
            over = over - flight * layers * relief[even.rows][:, None]
            lack[even.rows] = np.maximum(lack[even.rows], over.max(axis=1))
    return lack
