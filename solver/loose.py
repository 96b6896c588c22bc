"""Rows whose stages leave each layer free: layers that cards hold in fractions, sound and never complete."""

from __future__ import annotations

import numpy as np

from ..costs.columns import Bools, Ints
from ..costs.sums import Sum
from .capacity import capacity_kib
from .cases import allowed_recompute, knows
from .coefficients import Coefficients
from .lower import layers_by_kind, work_of


def slowest_loose(coefficients: Coefficients, bounds: Ints, limit_ns: int) -> Ints:
    """The slowest chunk with which a row can keep the limit, ns.

    What the limit leaves above the bound may go into one chunk: m v times where all chunks are one stage's,
    else m v - 1 times where the slowest stage is no lighter than what the bound took for it; with that much
    time a chunk recomputes at the cheapest rate, in fractions of layers.
    """
    s, chunk, passes = coefficients.strategies, coefficients.chunk.stage, coefficients.passes
    p, v = s.pipeline_parallel, s.virtual_pipeline
    count = layers_by_kind(coefficients.request)
    work = work_of(chunk, count, p, v)
    mean = -(-work // p)
    fullest = chunk["layer"].min(axis=1) * -(-coefficients.depth // p) + chunk["fixed"]
    slack = np.maximum(limit_ns - bounds, 0)
    several = np.where(
        passes > 1, np.maximum(mean, fullest) + slack // np.maximum(passes - 1, 1), work + slack
    )
    return np.where(p > 1, several, work + slack // passes)


def holds_all(coefficients: Coefficients, tau: Ints) -> Bools:
    """Whether stages whose chunks take at most `tau` can hold all layers; sound, not complete."""
    s = coefficients.strategies
    most = most_layers(coefficients, tau)
    held = np.arange(most.shape[1])[None, :] < s.pipeline_parallel[:, None]
    impossible = (held & (most < 1)).any(axis=1)
    total = np.where(held, np.minimum(most, 2**20), 0).sum(axis=1)
    enough: Bools = ~impossible & (total >= coefficients.depth)
    return enough


def most_layers(coefficients: Coefficients, tau: Ints) -> Ints:
    """Most layers a chunk of each stage holds within `tau` ns and the card's memory, (n, stages).

    For each moment: kept layers cost time only; beyond the memory each further layer buys its room by
    recompute at the best KiB a ns of any word, until all is recomputed. Rounded in the row's favour; what
    chunks of several kinds of layers lack may be any stage's.
    """
    flight = coefficients.in_flight
    capacity = capacity_kib(coefficients.request)
    layer = coefficients.chunk.stage["layer"].min(axis=1).astype(np.float64)[:, None]
    chunks = coefficients.strategies.virtual_pipeline[:, None]
    lacks = np.zeros_like(chunks)
    if len(coefficients.request.model.kinds) > 1:
        lacks = coefficients.places[1][:, None] * chunks - coefficients.request.model.layers
    time = tau[:, None].astype(np.float64) - _ends(coefficients, coefficients.chunk.stage)
    time = time + lacks * layer / chunks
    most = np.floor(time / np.maximum(layer, 1e-3) + 1e-6)
    for total in coefficients.memory.values():
        relief, rate = relief_of(coefficients, total)
        stay = total.stage["layer"] + np.minimum(total.stage["offloaded"], 0)
        lightest = stay.min(axis=1)[:, None]
        each = lightest * chunks + flight * total.flight["layer"].min(axis=1)[:, None].astype(np.float64)
        room = capacity - _ends(coefficients, total.stage) - flight * _ends(coefficients, total.flight)
        room = room + lacks * np.maximum(lightest, 0)
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


def relief_of(coefficients: Coefficients, total: Sum) -> tuple[Ints, np.ndarray]:
    """(KiB a recomputed layer frees at most, best KiB a nanosecond) of each row, one chunk in flight."""
    size = len(coefficients.strategies)
    relief, rate = np.zeros(size, dtype=np.int64), np.zeros(size)
    words = allowed_recompute(coefficients.request)
    for word in ("selective", "full"):
        if word not in words:
            continue
        usable = knows(word)[coefficients.strategies.backend]
        freed = np.where(usable[:, None], -total.flight[word], 0)
        cost = np.maximum(coefficients.chunk.stage[word], 1e-6)
        relief = np.maximum(relief, freed.max(axis=1))
        rate = np.maximum(rate, (freed / cost).max(axis=1))
    return relief, rate
