"""A robust, hierarchical fit of constants in logarithms.

Residual of a run: ln(predicted / measured). A run counts by the square root of its error once that is large
(between least squares and least absolute deviation). Each constant is drawn to the mean of its kin and that
mean to a centre; one that no run moves therefore stays with its kin. Predictions are linear in the
logarithms of the constants around the last point; two rounds of pricing settle it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ..inputs.record import dataclass

Array = npt.NDArray[np.float64]
STEP = 0.02
"""Change of a logarithm for a derivative."""
LARGE = 0.04
"""Errors beyond it weigh by their root."""
PASSES = 12
GAIN = 1e-9
"""Slopes below it free no unknown that is held at an end."""


@dataclass(frozen=True)
class Unknown:
    """A constant to fit: where it stands, its kin, and how far it is held likely to lie from them."""

    paths: tuple[str, ...]
    kin: tuple[str, int]
    spread: float
    center: float
    kin_spread: float
    shared: bool = False
    """Whether every run may move with it."""
    least: float = 0.0
    most: float = float("inf")

    @property
    def group(self) -> str:
        """Constants of one group move disjoint rows, so one pricing gives all their derivatives."""
        table, *_, field = self.paths[0].split("/")
        return self.paths[0] if self.shared else f"{table}/{field}"


class Rows(Protocol):
    """Runs with measured times that can be priced under other constants."""

    @property
    def measured(self) -> Array:
        """Seconds a step, (n,)."""

    @property
    def weights(self) -> Array:
        """One over the squared spread of each run's error; 0: not fitted to."""

    def seconds(self, changes: dict[str, float]) -> Array:
        """Predicted seconds with `changes` in force."""

    def moved_by(self, unknown: Unknown) -> npt.NDArray[np.bool_]:
        """Runs whose price an unknown can change."""

    def start(self, unknown: Unknown) -> float:
        """The catalogue's value of an unknown."""


@dataclass(frozen=True)
class Fit:
    """Constants `values` (logarithms) with the seconds they give and their derivatives there."""

    rows: Rows
    unknowns: tuple[Unknown, ...]
    values: Array
    seconds: Array
    slopes: Array

    @classmethod
    def start(cls, rows: Rows, unknowns: Sequence[Unknown]) -> Fit:
        """At the constants of the catalogue; a constant that is off there (0) is not fitted."""
        found = tuple(u for u in unknowns if rows.start(u) > 0)
        return cls.at(rows, found, np.log([rows.start(u) for u in found]))

    @classmethod
    def at(cls, rows: Rows, found: tuple[Unknown, ...], values: Array) -> Fit:
        """Prices and slopes at `values`."""
        seconds = rows.seconds(changes(found, values))
        slopes = np.zeros((len(rows.measured), len(found)))
        for group in dict.fromkeys(u.group for u in found):
            mine = [j for j, u in enumerate(found) if u.group == group]
            moved = values.copy()
            moved[mine] += STEP
            slope = np.log(rows.seconds(changes(found, moved)) / seconds) / STEP
            for j in mine:
                mask = rows.moved_by(found[j])
                slopes[mask, j] = slope[mask]
        return cls(rows, found, values, seconds, slopes)

    def solved(self, kept: npt.NDArray[np.bool_] | None = None) -> Array:
        """The constants that fit best around this point, from the runs `kept` (all)."""
        if not self.unknowns:
            return self.values
        trusted = self.rows.weights * (1.0 if kept is None else kept)
        error = np.log(self.seconds / self.rows.measured)
        pull, aim = _pulls(self.unknowns)
        edges = _edges(self.unknowns)
        change = np.zeros(len(self.values))
        for _ in range(PASSES):
            residual = error + self.slopes @ change
            weight = np.sqrt(trusted * np.minimum(1.0, LARGE / np.maximum(np.abs(residual), 1e-9)))
            left = np.vstack([self.slopes * weight[:, None], pull])
            right = np.concatenate([-error * weight, aim - pull @ self.values])
            change = bounded(left, right, *(edge - self.values for edge in edges))
        return self.values + change

    def spreads(self) -> Array:
        """Standard deviations of the logarithms: how well these runs and what was held likely fix each."""
        if not self.unknowns:
            return np.zeros(0)
        pull, _ = _pulls(self.unknowns)
        seen = self.slopes * np.sqrt(self.rows.weights)[:, None]
        covariance = np.linalg.inv(seen.T @ seen + pull.T @ pull)
        found: Array = np.sqrt(np.diag(covariance))
        return found

    def drawn(self, share: float) -> Fit:
        """The fit with each constant held likely to lie `share` as far off; nothing is priced anew."""
        tighter = tuple(
            replace(u, spread=share * u.spread, kin_spread=share * u.kin_spread) for u in self.unknowns
        )
        return Fit(self.rows, tighter, self.values, self.seconds, self.slopes)

    def refined(self) -> Fit:
        """The fit one round on."""
        return Fit.at(self.rows, self.unknowns, self.solved())


def changes(found: Sequence[Unknown], values: Array) -> dict[str, float]:
    """The constants by path, to three significant digits."""
    pairs = zip(found, np.exp(values).tolist(), strict=True)
    return {path: float(f"{value:.3g}") for u, value in pairs for path in u.paths}


def _pulls(found: Sequence[Unknown]) -> tuple[Array, Array]:
    """Rows of the least-squares problem that draw each constant to its kin, and the kin to their centre."""
    kin: dict[tuple[str, int], list[int]] = defaultdict(list)
    for j, u in enumerate(found):
        kin[u.kin].append(j)
    rows, aims = [], []
    for members in kin.values():
        mean = np.zeros(len(found))
        mean[members] = 1.0 / len(members)
        for j in members:
            own = np.zeros(len(found))
            own[j] = 1.0
            rows.append((own - mean) / found[j].spread)
            aims.append(0.0)
        first = found[members[0]]
        rows.append(mean / first.kin_spread)
        aims.append(float(np.log(first.center)) / first.kin_spread)
    return np.array(rows), np.array(aims)


def _edges(found: Sequence[Unknown]) -> tuple[Array, Array]:
    """Logarithms of the least and the greatest value of each constant."""
    with np.errstate(divide="ignore"):
        return np.log([u.least for u in found]), np.log([u.most for u in found])


def bounded(left: Array, right: Array, low: Array, high: Array) -> Array:
    """Least squares of `left` x = `right` inside [low, high], exactly, by an active set.

    From a point inside, the free unknowns go towards their own optimum until one meets an end and is held
    there; once they are at it, the held one that gains most by leaving its end is freed, until none gains.
    """
    found = np.clip(np.zeros(len(low)), low, high)
    free = (low < found) & (found < high)
    for _ in range(10 * len(low) + 10):
        found = _towards(left, right, low, high, found, free)
        pull = left.T @ (right - left @ found)
        inward = np.where(found <= low, pull, -pull)
        inward = np.where(free | (low >= high), 0.0, inward)
        best = int(np.argmax(inward))
        if inward[best] <= GAIN:
            break
        free[best] = True
    return found


def _towards(
    left: Array, right: Array, low: Array, high: Array, found: Array, free: npt.NDArray[np.bool_]
) -> Array:
    """The optimum of the `free` unknowns; those that meet an end on the way are held there, not `free`."""
    while free.any():
        aim = found.copy()
        aim[free] = np.linalg.lstsq(left[:, free], right - left[:, ~free] @ found[~free], rcond=None)[0]
        if np.all((low <= aim) & (aim <= high)):
            return aim
        edge = np.where(aim > found, high, low)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where((aim < low) | (aim > high), (edge - found) / (aim - found), 1.0)
        step = float(share.min())
        met = free & (share <= step)
        found = np.where(met, edge, found + step * (aim - found))
        free[met] = False
    return found
