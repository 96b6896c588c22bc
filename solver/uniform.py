"""Uniform plans: real ones, so their step times are upper bounds and give the first incumbents."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..costs.columns import Bools, Ints, distinct
from ..costs.schedule import step
from ..costs.sums import Sum
from ..inputs.record import dataclass
from .capacity import capacity_kib, host_capacity_kib
from .cases import allowed_recompute, knows
from .coefficients import Coefficients
from .even import even_step, recompute_all
from .loose import relief_of
from .lower import NEVER
from .slots import kinds_before, slots


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


def balanced_counts(coefficients: Coefficients, row: int) -> list[int]:
    """Layers of each round on the stages of a row so that the slowest chunk is about as short as can be.

    Of a mixed stack; a place weighs what its heaviest layer of any round does. Each stage takes layers up to
    an even share of what is left, and at least one, the last one all that predicts further tokens.
    """
    model, s = coefficients.request.model, coefficients.strategies
    stages, chunks = int(s.pipeline_parallel[row]), int(s.virtual_pipeline[row])
    held = slots(model, chunks, int(coefficients.places[1][row]))
    each = coefficients.chunk.stage["layer"][row][np.array(model.kind_of_layer)]
    before = np.concatenate([[0], np.cumsum(each)])
    work = np.diff(before[held.before], axis=1).max(axis=0).astype(np.float64)
    last, ends = max(model.mtp_layers, 1), np.zeros(stages)
    ends[-1] = float(coefficients.chunk.stage["last"][row])
    sizes, start = [], 0
    for stage in range(stages):
        left = stages - stage
        if left == 1:
            sizes.append(held.places - start)
            break
        share = (work[start:].sum() + ends[stage:].sum()) / left
        most = held.places - start - (left - 2) - last
        taken = int(np.searchsorted(work[start:].cumsum(), share + work[start] / 2))
        sizes.append(min(max(taken, 1), most))
        start += sizes[-1]
    return sizes


@dataclass(frozen=True)
class _Even:
    """Rows of one pipeline length and chunk number, evenly cut.

    `counts` are layers by kind of the chunks of each distinct round, (rounds, stages, kinds); `times` are
    rounds like each, and the last one is like that at `last`.
    """

    rows: Ints
    counts: Ints
    stages: int
    times: Ints
    last: int

    @property
    def layers(self) -> Ints:
        """Layers of the chunks, (rounds, stages)."""
        found: Ints = self.counts.sum(axis=2)
        return found


def _groups(coefficients: Coefficients) -> Iterator[_Even]:
    s, model = coefficients.strategies, coefficients.request.model
    pairs = (s.pipeline_parallel << 32) | s.virtual_pipeline
    prefix = kinds_before(model)
    for pair in distinct(pairs).tolist():
        p, v = pair >> 32, pair & 0xFFFFFFFF
        rows = np.flatnonzero(pairs == pair)
        held = slots(model, v, int(coefficients.places[1][rows[0]]))
        sizes = uniform_counts(held.places, p)
        if p > 1 and len(model.kinds) > 1:
            if held.places < p - 1 + max(model.mtp_layers, 1):
                continue
            sizes = balanced_counts(coefficients, int(rows[0]))
        edges = held.before[:, np.concatenate([[0], np.cumsum(sizes)])]
        yield _Even(rows, np.diff(prefix[edges], axis=1), p, held.times, held.last)


def _over_stage(part: dict[str, Ints], even: _Even) -> Ints:
    """Values of a sum over each stage without recompute or partial offload, (rows, stages)."""
    return _beside(part, even, np.tensordot(even.times, _layers(part, even), axes=1))


def _layers(part: dict[str, Ints], even: _Even) -> Ints:
    """What the layers of the chunks of each distinct round weigh, all offloaded, (rounds, rows, stages)."""
    each = part["layer"][even.rows] + part["offloaded"][even.rows]
    found: Ints = np.moveaxis(even.counts @ each.T, 2, 1)
    return found


def _beside(part: dict[str, Ints], even: _Even, layers: Ints) -> Ints:
    """`layers` with what is fixed and what embedding and head add."""
    rows = even.rows
    total = layers + part["fixed"][rows][:, None]
    total[:, 0] += part["first"][rows]
    total[:, -1] += part["last"][rows]
    return total


def _again(total: dict[str, Ints], even: _Even, word: str, again: Ints) -> Ints:
    """At most what `again` (rows, stages) recomputed layers of each chunk add, (rounds, rows, stages)."""
    most = total[word][even.rows].max(axis=1)[:, None]
    found: Ints = np.minimum(again, even.layers[:, None, :]) * most
    return found


def _memory_excess(total: Sum, coefficients: Coefficients, even: _Even, added: Ints | int = 0) -> Ints:
    """KiB above the card on each stage, all offloaded, with `added` to each chunk in flight."""
    flight = coefficients.in_flight[even.rows][:, : even.stages]
    chunk = (_layers(total.flight, even) + added).max(axis=0)
    over: Ints = _over_stage(total.stage, even) + flight * _beside(total.flight, even, chunk)
    return over - capacity_kib(coefficients.request)


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
            moment: _memory_excess(total, coefficients, even) for moment, total in coefficients.memory.items()
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
    each = _over_stage(coefficients.host.stage, even)
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
    rows, stages = even.rows, even.stages
    most = np.broadcast_to(even.layers.max(axis=0), (len(rows), stages))
    again = np.zeros((len(rows), stages), dtype=np.int64)
    if word != "none":
        again = _needed(coefficients, even, excess, word)
        again = np.minimum(again.max(axis=1)[:, None], most)
        again = np.where(recompute_all(coefficients, word)[rows][:, None], most, again)
    fits = fits_host & knows(word)[coefficients.strategies.backend[rows]]
    for moment, over in excess.items():
        if word != "none":
            total = coefficients.memory[moment]
            over = _memory_excess(total, coefficients, even, _again(total.flight, even, word, again))
        fits &= (over <= 0).all(axis=1)
    chunk, tail = coefficients.chunk.stage, coefficients.tail.stage
    each = _layers(chunk, even) + chunk["fixed"][rows][:, None]
    if word != "none":
        each = each + _again(chunk, even, word, again)
    longest, first, last = each.max(axis=0), each[0, :, 0], each[even.last, :, -1]
    v, busy = coefficients.strategies.virtual_pipeline[rows], longest.copy()
    busy[:, 0] += np.maximum(chunk["first"][rows] - (longest[:, 0] - first) // v, 0)
    busy[:, -1] += np.maximum(chunk["last"][rows] - (longest[:, -1] - last) // v, 0)
    rounds = coefficients.rounds(rows, longest, first, last)
    held = np.ones_like(busy, dtype=np.bool_)
    found = step(busy, _over_stage(tail, even), held, coefficients.passes[rows], None, rounds).total
    return np.where(fits, found, NEVER)


def _needed(coefficients: Coefficients, even: _Even, excess: dict[str, Ints], word: str) -> Ints:
    """Layers of a chunk to recompute so that each stage fits, by the least relief of any kind."""
    rows = even.rows
    flight = coefficients.in_flight[rows][:, : even.stages]
    needed = np.zeros((len(rows), even.stages), dtype=np.int64)
    for moment, over in excess.items():
        relief = -coefficients.memory[moment].flight[word][rows].max(axis=1)[:, None] * flight
        some = -(-np.maximum(over, 0) // np.maximum(relief, 1))
        needed = np.maximum(needed, some)
    return needed


def shortage(coefficients: Coefficients) -> Ints:
    """KiB by which the leanest even plan of each row exceeds a card (negative: room), for explanations.

    Everything that may be recomputed and offloaded is.
    """
    lack = np.full(len(coefficients.strategies), -(2**60), dtype=np.int64)
    for even in _groups(coefficients):
        flight = coefficients.in_flight[even.rows][:, : even.stages]
        layers = even.layers.max(axis=0)[None, :]
        for total in coefficients.memory.values():
            over = _memory_excess(total, coefficients, even)
            relief, _ = relief_of(coefficients, total)
            over = over - flight * layers * relief[even.rows][:, None]
            lack[even.rows] = np.maximum(lack[even.rows], over.max(axis=1))
    return lack
