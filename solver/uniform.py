"""Uniform plans: real ones, so their step times are upper bounds and give the first incumbents."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..costs.book import Sum
from ..costs.columns import Bools, Ints, distinct
from ..costs.schedule import step
from ..inputs.record import dataclass
from .bounds import relief_of, supports
from .coefficients import Coefficients, allowed_recompute, capacity_kib, host_capacity_kib
from .even import even_step, recompute_all
from .lower import NEVER


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


def balanced_counts(chunk: dict[str, Ints], row: int, kinds: Ints, stages: int, last: int = 1) -> list[int]:
    """Layers of a mixed stack on each stage so that the slowest chunk is about as short as can be.

    The work of layers by kind is that of one row; each stage takes layers up to an even share of what is
    left, and at least one, the last one at least `last`.
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
        most = len(kinds) - start - (left - 2) - last
        taken = int(np.searchsorted(work[start:].cumsum(), share + work[start] / 2))
        sizes.append(min(max(taken, 1), most))
        start += sizes[-1]
    return sizes


@dataclass(frozen=True)
class _Even:
    """Rows of one pipeline length and chunk number, evenly cut: counts are (stages, kinds)."""

    rows: Ints
    counts: Ints
    stages: int


def _groups(coefficients: Coefficients) -> Iterator[_Even]:
    s = coefficients.strategies
    pairs = (s.pipeline_parallel << 32) | s.virtual_pipeline
    kinds = np.array(coefficients.request.model.kind_of_layer)
    for pair in distinct(pairs).tolist():
        p, v = pair >> 32, pair & 0xFFFFFFFF
        rows = np.flatnonzero(pairs == pair)
        sizes = uniform_counts(-(-len(kinds) // v), p)
        if p > 1 and kinds.max():
            last = max(coefficients.request.model.mtp_layers, 1)
            if len(kinds) < p - 1 + last:
                continue
            sizes = balanced_counts(coefficients.chunk.stage, int(rows[0]), kinds, p, last)
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
    if len(coefficients.request.model.kinds) == 1:
        return even_step(coefficients)
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
    capacity = host_capacity_kib(coefficients.request)
    found = np.zeros(len(rows), dtype=np.bool_)
    for count in distinct(np.asarray(stages)).tolist():
        some = stages == count
        padded = np.pad(each[some], ((0, 0), (0, -even.stages % count)))
        blocks = padded.reshape(padded.shape[0], -1, count).sum(axis=2).max(axis=1)
        found[some] = blocks * cards[some] <= capacity
    fits: Bools = np.logical_or(~coefficients.on_host[rows], np.logical_and(found, aligned))
    return fits


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
        again = np.where(recompute_all(coefficients, word)[rows][:, None], layers[None, :], again)
    fits = fits_host & supports(coefficients, rows, word)
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
    ends = np.zeros_like(busy)
    ends[:, 0] += chunk["first"][rows]
    ends[:, -1] += chunk["last"][rows]
    longest = busy - ends
    rounds = coefficients.rounds(rows, longest, longest[:, 0], longest[:, -1])
    held = np.ones_like(busy, dtype=np.bool_)
    total = step(busy, after, held, coefficients.passes[rows], None, rounds).total
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
            relief, _ = relief_of(coefficients, total)
            over = over - flight * layers * relief[even.rows][:, None]
            lack[even.rows] = np.maximum(lack[even.rows], over.max(axis=1))
    return lack
