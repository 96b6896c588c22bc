"""Measured curves: seconds of a matrix product, speed of attention.

All functions take numpy arrays of any broadcastable shapes and loop over no element.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal, TypedDict, Unpack

import numpy as np
import numpy.typing as npt
from pydantic import Field

from ..inputs.listed import Listed
from ..inputs.record import dataclass

Array = npt.NDArray[np.float64]
Grade = Literal["M", "A"]
"""M measured on that card, A assumed: taken from a sister card or derived from its links."""


def _floats(values: npt.ArrayLike) -> Array:
    return np.asarray(values, dtype=np.float64)


class Rates(TypedDict):
    """What a product meets on a card: the dense peak of its precision, HBM, bytes of an element, SMs.

    Without `sms` tiles are rounded up but waves are not. An element of the output has 2 bytes.
    """

    peak_flops_per_s: npt.ArrayLike
    hbm_bytes_per_s: npt.ArrayLike
    bytes_per_element: npt.ArrayLike
    sms: int | None


@dataclass(frozen=True, kw_only=True)
class GemmCurve(Listed):
    """Seconds of an m x n x k matrix product on one card.

    ``t = launch + q m k / (hbm_share HBM) + (c^4 + b^4)^(1/4)`` with
    ``c = 2 m n k (1 + k0/k) / (peak e_max w^wave_exponent)`` and ``b = bytes / (hbm_share HBM)``,
    where w is the filled share of the output tiles, rounded up to whole waves of multiprocessors, and q
    (`quantise_bytes`) the bytes that move for each element of the 16-bit input before 8- and 4-bit products:
    its largest value sought, read, written narrow; none in 16 bits. A catalogue's curve has launch and q of
    the serving kernels that it was measured with; other software has its own (`quantised_by`). Fitted by
    ``scripts/curves.py`` to aiconfigurator's tables for m >= 256 and n, k from 1,024 to 16,384;
    `mean_log_error` is the mean |ln(predicted/measured)|.

    This is a rested card at its boost clock. Under steady load its board may draw `sustained_flops_per_s`
    times the energy of a FLOP and no more (`power_seconds`); the clock settles to that within
    `power_settles_seconds` (`timed_seconds`). None: no limit was seen.
    """

    gpu: str
    precision: str
    e_max: Annotated[float, Field(gt=0, le=1)]
    k0: Annotated[float, Field(ge=0)]
    tile_m: Annotated[int, Field(ge=1)]
    tile_n: Annotated[int, Field(ge=1)]
    wave_exponent: Annotated[float, Field(ge=0, le=1)]
    launch_seconds: Annotated[float, Field(ge=0)]
    quantise_bytes: Annotated[float, Field(ge=0)] = 0.0
    hbm_share: Annotated[float, Field(gt=0, le=1)]
    sustained_flops_per_s: Annotated[float | None, Field(gt=0)] = None
    power_settles_seconds: Annotated[float, Field(gt=0)] = 0.1
    mean_log_error: float | None = None
    grade: Grade
    source: str

    def quantised_by(self, other: GemmCurve, quantise_bytes: float) -> GemmCurve:
        """The same products in software that launches as `other` and moves `quantise_bytes` of its own."""
        return replace(self, launch_seconds=other.launch_seconds, quantise_bytes=quantise_bytes)

    def seconds(self, m: npt.ArrayLike, n: npt.ArrayLike, k: npt.ArrayLike, **card: Unpack[Rates]) -> Array:
        """Seconds of the product of (m, k) and (k, n) on a rested card; 0 where a side is 0."""
        return self._called(self._product_seconds(m, n, k, **card), m, k, card)

    def loaded_seconds(
        self,
        m: npt.ArrayLike,
        n: npt.ArrayLike,
        k: npt.ArrayLike,
        load_factor: float,
        **card: Unpack[Rates],
    ) -> Array:
        """`seconds` at a clock under load that was measured.

        `load_factor` is the time of the product itself over that on a rested card, which neither launches
        nor memory-bound quantisation share.
        """
        return self._called(load_factor * self._product_seconds(m, n, k, **card), m, k, card)

    def capped_seconds(
        self, m: npt.ArrayLike, n: npt.ArrayLike, k: npt.ArrayLike, **card: Unpack[Rates]
    ) -> Array:
        """`seconds` on a card whose clock under load was not measured: no product beats `power_seconds`."""
        rested = self._product_seconds(m, n, k, **card)
        return self._called(np.maximum(rested, self.power_seconds(m, n, k)), m, k, card)

    def _called(self, worked: Array, m: npt.ArrayLike, k: npt.ArrayLike, card: Rates) -> Array:
        """Seconds of products with what is read before them and their launch."""
        read = self.quantise_seconds(_floats(m) * _floats(k), card["hbm_bytes_per_s"])
        return np.where(worked > 0, self.launch_seconds + read + worked, 0.0)

    def quantise_seconds(self, elements: npt.ArrayLike, hbm_bytes_per_s: npt.ArrayLike) -> Array:
        """Seconds in which so many 16-bit elements are made narrow; none in 16 bits."""
        return self.quantise_bytes * _floats(elements) / (self.hbm_share * _floats(hbm_bytes_per_s))

    def _product_seconds(
        self, m: npt.ArrayLike, n: npt.ArrayLike, k: npt.ArrayLike, **card: Unpack[Rates]
    ) -> Array:
        rows, columns, depth = _floats(m), _floats(n), _floats(k)
        inner = np.maximum(depth, 1.0)
        tiles = np.ceil(rows / self.tile_m) * np.ceil(columns / self.tile_n)
        sms = card["sms"]
        waves = tiles if sms is None else np.ceil(tiles / sms) * sms
        filled = rows * columns / np.maximum(waves * (self.tile_m * self.tile_n), 1.0)
        share = self.e_max * np.where(filled > 0, filled, 1.0) ** self.wave_exponent
        peak = share * _floats(card["peak_flops_per_s"])
        compute = 2.0 * rows * columns * inner * (1.0 + self.k0 / inner) / peak
        operands = (rows * depth + depth * columns) * _floats(card["bytes_per_element"])
        moved = operands + 2.0 * rows * columns
        rate = self.hbm_share * _floats(card["hbm_bytes_per_s"])
        busy = (rows > 0) & (columns > 0) & (depth > 0)
        return np.where(busy, np.sqrt(np.hypot(compute**2, (moved / rate) ** 2)), 0.0)

    def power_seconds(self, m: npt.ArrayLike, n: npt.ArrayLike, k: npt.ArrayLike) -> Array:
        """Seconds below which the board's power limit lets no m x n x k product fall under steady load.

        ``2 m n k joules_per_flop / watts``, the power-capped roofline of Choi, Dukhan, Liu and Vuduc,
        "Algorithmic time, energy, and power on candidate HPC compute building blocks" (IPDPS 2014).
        """
        flops = 2.0 * _floats(m) * _floats(n) * _floats(k)
        return flops / (self.sustained_flops_per_s or np.inf)

    def timed_seconds(self, rested: npt.ArrayLike, sustained: npt.ArrayLike, calls: npt.ArrayLike) -> Array:
        """Mean seconds of the later half of `calls` products that follow each other on a rested card.

        `rested` are the seconds at the boost clock, `sustained` those under steady load. The clock falls
        from one to the other as ``exp(-time / power_settles_seconds)``.
        """
        first, last = _floats(rested), _floats(sustained)
        half = np.maximum(0.5 * _floats(calls) * first / self.power_settles_seconds, 1e-9)
        boosted = np.exp(-half) * -np.expm1(-half) / half
        return first + (1.0 - boosted) * np.maximum(last - first, 0.0)


@dataclass(frozen=True, kw_only=True)
class SpeedRow(Listed):
    """Measured speeds of one head size: knots over sequence length."""

    head_dim: Annotated[int, Field(ge=1)]
    lengths: Annotated[tuple[int, ...], Field(min_length=1)]
    flops_per_s: Annotated[tuple[float, ...], Field(min_length=1)]

    @property
    def growing_share(self) -> float:
        """Share of the time at the longest knot that grows with the length alone, by the last two knots."""
        if len(self.lengths) < 2:
            return 0.0
        shorter, longest = self.lengths[-2:]
        slower = self.flops_per_s[-1] / self.flops_per_s[-2] - 1.0
        return max(slower / (longest / shorter - 1.0), 0.0)


@dataclass(frozen=True, kw_only=True)
class AttentionCurve(Listed):
    """Speed of fused causal attention on one card, FLOP/s counted on the causal half of the square.

    Linear between knots. Beyond the longest the seconds of a FLOP stay on the line through the last two
    knots over ``1/length``: half-used blocks of the diagonal and the start of each row of blocks grow with
    the length, the work with its square. Below the shortest knot it falls as
    ``(length/shortest)^short_exponent``. Between head sizes linear, outside the measured ones flat, and
    below `small_head_dim` in proportion to the head size.
    """

    gpu: str
    forward: Annotated[tuple[SpeedRow, ...], Field(min_length=1)]
    forward_backward: Annotated[tuple[SpeedRow, ...], Field(min_length=1)]
    short_exponent: Annotated[float, Field(ge=0, le=1)]
    small_head_dim: Annotated[int, Field(ge=1)]
    grade: Grade
    source: str

    def forward_flops_per_s(self, length: npt.ArrayLike, head_dim: npt.ArrayLike) -> Array:
        """Speed of the forward pass at sequences of `length` tokens, ``2 s^2 d`` FLOPs a head."""
        return self._speed(self.forward, length, head_dim)

    def forward_backward_flops_per_s(self, length: npt.ArrayLike, head_dim: npt.ArrayLike) -> Array:
        """Speed of forward and backward together, 3.5 times the FLOPs of the forward pass."""
        return self._speed(self.forward_backward, length, head_dim)

    def _speed(self, rows: tuple[SpeedRow, ...], length: npt.ArrayLike, head_dim: npt.ArrayLike) -> Array:
        tokens, size = np.broadcast_arrays(_floats(length), _floats(head_dim))
        tokens, size = np.maximum(tokens, 1.0), np.maximum(size, 1.0)
        stack = np.stack([self._along(row, tokens) for row in rows])
        known = _floats([row.head_dim for row in rows])
        right = np.minimum(np.searchsorted(known, size), len(rows) - 1)
        left = np.maximum(right - 1, 0)
        gap = np.where(right > left, known[right] - known[left], 1.0)
        weight = np.clip((size - known[left]) / gap, 0.0, 1.0)
        below = np.take_along_axis(stack, left[None], axis=0)[0]
        above = np.take_along_axis(stack, right[None], axis=0)[0]
        return np.asarray((below + weight * (above - below)) * np.minimum(1.0, size / self.small_head_dim))

    def _along(self, row: SpeedRow, tokens: Array) -> Array:
        speed = np.interp(tokens, row.lengths, row.flops_per_s)
        speed = speed * np.minimum(1.0, tokens / row.lengths[0]) ** self.short_exponent
        return np.asarray(speed / (1.0 - row.growing_share * np.maximum(1.0 - row.lengths[-1] / tokens, 0.0)))
