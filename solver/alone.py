"""Rows of one stage that leave each layer free, in a stack of one kind: their least step, many at once."""

from __future__ import annotations

import numpy as np

from ..costs.columns import Bools, Ints
from ..costs.sums import Sum
from .capacity import capacity_kib, host_capacity_kib
from .cases import allowed_recompute, knows, recompute_alike
from .coefficients import Coefficients
from .lower import NEVER

GRID = 2**18
"""Ways to leave the layers of some rows that are weighed at once."""


def stand_alone(coefficients: Coefficients) -> Bools:
    """Rows with one stage of one chunk whose layers are of one kind, each free."""
    s = coefficients.strategies
    single = (s.pipeline_parallel == 1) & (s.virtual_pipeline == 1) & ~recompute_alike(coefficients)
    found: Bools = single & (len(coefficients.request.model.kinds) == 1)
    return found


def least_alone(coefficients: Coefficients, rows: Ints) -> Ints:
    """The least step of `rows`, all of which `stand_alone`, ns; `NEVER` where nothing fits.

    Exact but for limits on stages, which only make it longer: every number of layers offloaded and of those
    partly recomputed is tried, with as few fully recomputed as fit.
    """
    found = np.full(len(rows), NEVER, dtype=np.int64)
    layers = coefficients.request.model.layers
    parted = coefficients.strategies.away("offload_optimizer")[rows] & ~coefficients.folds[rows]
    for some, most in ((np.flatnonzero(parted), layers), (np.flatnonzero(~parted), 0)):
        size = max(1, GRID // ((most + 1) * (layers + 1)))
        for first in range(0, len(some), size):
            block = some[first : first + size]
            found[block] = _Grid(coefficients, rows[block], np.arange(most + 1)[:, None]).least()
    return found


class _Grid:
    """Rows under each number of offloaded and of partly recomputed layers, (rows, offloaded, selective)."""

    def __init__(self, coefficients: Coefficients, rows: Ints, offloaded: Ints) -> None:
        self.coefficients, self.rows, self.offloaded = coefficients, rows, offloaded
        self.layers = coefficients.request.model.layers
        self.words = allowed_recompute(coefficients.request)
        self.fully, self.partly = self._able("full"), self._able("selective")
        self.selective = np.arange(self.layers + 1 if self.partly.any() else 1)

    def _able(self, word: str) -> Bools:
        """Rows whose layers may be recomputed so, beside the other axes."""
        found: Bools = knows(word)[self.coefficients.strategies.backend[self.rows]] & (word in self.words)
        return found[:, None, None]

    def _wide(self, values: Ints) -> Ints:
        """Values of rows, beside the other axes."""
        return values[:, None, None]

    def _each(self, total: Sum, piece: str, flying: bool) -> Ints:
        """What a layer of a piece weighs in a sum; with chunks in flight where they count."""
        found = total.stage[piece][self.rows, 0]
        if flying:
            found = found + self.coefficients.in_flight[self.rows, 0] * total.flight[piece][self.rows, 0]
        return self._wide(found)

    def _plain(self, total: Sum, flying: bool) -> Ints:
        """A sum with nothing recomputed, by the number of offloaded layers."""
        ends = self._ends(total.stage)
        if flying:
            ends = ends + self._wide(self.coefficients.in_flight[self.rows, 0]) * self._ends(total.flight)
        kept = ends + self._each(total, "layer", flying) * self.layers
        found: Ints = kept + self._each(total, "offloaded", flying) * self.offloaded
        return found

    def _ends(self, part: dict[str, Ints]) -> Ints:
        """Fixed, first and last coefficients of the one stage."""
        return self._wide((part["fixed"] + part["first"] + part["last"])[self.rows])

    def _lacking(self) -> list[tuple[Ints, Ints]]:
        """At each moment (KiB above the card with nothing recomputed whole, KiB that such a layer frees)."""
        capacity, found = capacity_kib(self.coefficients.request), []
        for total in self.coefficients.memory.values():
            over = self._plain(total, True) + self._each(total, "selective", True) * self.selective - capacity
            found.append((over, -self._each(total, "full", True)))
        return found

    def _recomputed(self, lacking: list[tuple[Ints, Ints]]) -> Ints:
        """Layers recomputed whole: as few as fit, or all the others where none may be kept."""
        if "none" not in self.words:
            return np.broadcast_to(self.layers - self.selective, lacking[0][0].shape)
        found = np.zeros_like(lacking[0][0])
        for over, freed in lacking:
            found = np.maximum(found, -(-np.maximum(over, 0) // np.maximum(freed, 1)))
        return found

    def _fits_host(self) -> Bools:
        """Numbers of offloaded layers that the host of a machine holds."""
        c = self.coefficients
        _, cards, aligned = c.node_stages
        used = self._plain(c.host, False) * self._wide(cards[self.rows])
        held = (used <= host_capacity_kib(c.request)) & aligned[self.rows][:, None, None]
        found: Bools = held | ~c.on_host[self.rows][:, None, None]
        return found

    def least(self) -> Ints:
        """The least step of each row that fits."""
        c, lacking = self.coefficients, self._lacking()
        full = self._recomputed(lacking)
        fits = self._fits_host() & (full + self.selective <= self.layers)
        fits = fits & (self.fully | (full == 0)) & (self.partly | (self.selective == 0))
        for over, freed in lacking:
            fits = fits & (over <= freed * full)
        passes = self._wide(c.passes[self.rows])
        step = passes * self._plain(c.chunk, False) + self._plain(c.tail, False)
        for piece, number in (("selective", self.selective), ("full", full)):
            each = passes * self._each(c.chunk, piece, False) + self._each(c.tail, piece, False)
            step = step + each * number
        found: Ints = np.where(fits, step, NEVER).min(axis=(1, 2))
        return found
