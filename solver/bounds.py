"""Admissible integer bounds of rows: what no plan of a row can beat, and whether one can fit."""

from __future__ import annotations

import numpy as np

from ..costs.book import Sum
from ..costs.columns import Bools, Ints
from ..models.backend import backend
from ..models.strategy import BACKENDS
from .coefficients import Coefficients, allowed_recompute, capacity_kib

NEVER = 2**62
"""Nanoseconds no step reaches: no plan of that kind fits."""


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


def supports(coefficients: Coefficients, rows: Ints, word: str) -> Bools:
    known = np.array([word in backend(name).recompute for name in BACKENDS])
    return known[coefficients.strategies.backend[rows]]


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
    most = most_layers(coefficients, tau)
    held = np.arange(most.shape[1])[None, :] < s.pipeline_parallel[:, None]
    impossible = (held & (most < 1)).any(axis=1)
    total = np.where(held, np.minimum(most, 2**20), 0).sum(axis=1)
    enough: Bools = ~impossible & (total >= coefficients.request.model.layers // s.virtual_pipeline)
    return enough


def most_layers(coefficients: Coefficients, tau: Ints) -> Ints:
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
        relief, rate = relief_of(coefficients, total)
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


def relief_of(coefficients: Coefficients, total: Sum) -> tuple[Ints, np.ndarray]:
    """(KiB a recomputed layer frees at most, best KiB a nanosecond) of each row, one chunk in flight."""
    size = len(coefficients.strategies)
    relief, rate = np.zeros(size, dtype=np.int64), np.zeros(size)
    words = allowed_recompute(coefficients.request)
    for word in ("selective", "full"):
        if word not in words:
            continue
        usable = supports(coefficients, np.arange(size), word)
        freed = np.where(usable[:, None], -total.flight[word], 0)
        cost = np.maximum(coefficients.chunk.stage[word], 1e-6)
        relief = np.maximum(relief, freed.max(axis=1))
        rate = np.maximum(rate, (freed / cost).max(axis=1))
    return relief, rate
