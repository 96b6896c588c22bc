"""One card: memory, dense peaks, links."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ..inputs import Frozen, InputError, nearest

PEAK_FIELDS = {
    "bf16": "bf16_flops_per_s",
    "fp16": "fp16_flops_per_s",
    "fp32": "tf32_flops_per_s",
    "fp8": "fp8_flops_per_s",
    "fp8_blockwise": "fp8_flops_per_s",
    "mxfp8": "mxfp8_flops_per_s",
    "fp4": "fp4_flops_per_s",
    "nvfp4": "fp4_flops_per_s",
}
"""Arithmetic of a matrix product to the field of its peak; fp32 products run as TF32."""

Interconnect = Literal["nvlink", "xgmi", "roce", "ici", "none"]


class Gpu(Frozen):
    """One card. Peaks are dense (no sparsity), bandwidths in ONE direction, GB = 1e9.

    `memory_usable_bytes` is what a process can allocate, `memory_bytes` the nominal size.
    `nvlink_bytes_per_s` is the rate of one card into its island, whatever `interconnect` that is (0:
    none); `peer_bytes_per_s` the rate to ONE peer where the island is a mesh without a switch;
    `bridge_gpus` how many cards a bridge joins (None: no such limit). `peer_to_peer` is False where
    the driver sends card-to-card copies through host memory. `c2c_bytes_per_s` is the coherent link
    to the host, shared by `c2c_sharers` cards. A peak of None: the card lacks that arithmetic.
    """

    name: str = Field(min_length=1)
    vendor: str
    arch: str
    aliases: tuple[str, ...] = ()
    memory_bytes: int = Field(ge=1)
    memory_usable_bytes: int = Field(ge=1)
    hbm_bytes_per_s: float = Field(gt=0)
    bf16_flops_per_s: float | None = Field(default=None, gt=0)
    fp16_flops_per_s: float | None = Field(default=None, gt=0)
    tf32_flops_per_s: float | None = Field(default=None, gt=0)
    fp8_flops_per_s: float | None = Field(default=None, gt=0)
    mxfp8_flops_per_s: float | None = Field(default=None, gt=0)
    fp4_flops_per_s: float | None = Field(default=None, gt=0)
    interconnect: Interconnect = "none"
    nvlink_bytes_per_s: float = Field(default=0.0, ge=0)
    bridge_gpus: int | None = Field(default=None, ge=2)
    peer_bytes_per_s: float | None = Field(default=None, gt=0)
    peer_to_peer: bool = True
    pcie_generation: int = Field(ge=1, le=7)
    pcie_bytes_per_s: float = Field(gt=0)
    c2c_bytes_per_s: float | None = Field(default=None, gt=0)
    c2c_sharers: int = Field(default=1, ge=1)
    sms: int | None = Field(default=None, ge=1)
    tdp_watts: float | None = Field(default=None, gt=0)
    source: str

    def peak_flops_per_s(self, precision: str) -> float | None:
        """Dense peak FLOP/s of matrix products in `precision`, None where the card lacks it.

        Raises `InputError` for a word that is no precision.
        """
        if not isinstance(precision, str) or precision not in PEAK_FIELDS:
            legal = nearest(str(precision), PEAK_FIELDS)
            raise InputError("precision", precision, "precision", "is not known", legal=legal)
        peak: float | None = getattr(self, PEAK_FIELDS[precision])
        return peak

    @property
    def precisions(self) -> tuple[str, ...]:
        """What the card can multiply in, in the order of `PEAK_FIELDS`."""
        return tuple(p for p in PEAK_FIELDS if self.peak_flops_per_s(p) is not None)

    @property
    def reads_transposed(self) -> bool:
        """Whether 8-bit products with one scale a tensor can read an operand transposed.

        Cards before Blackwell, and Blackwell's consumer cards, read operands along the inner dimension only,
        so each weight has a transposed copy (Transformer Engine, `is_non_tn_fp8_gemm_supported`).
        """
        return self.arch in ("blackwell", "blackwell-ultra")

    def joins(self, ranks: int) -> bool:
        """Whether the card's own interconnect can join `ranks` cards (a bridge joins few)."""
        return self.nvlink_bytes_per_s > 0 and (self.bridge_gpus is None or ranks <= self.bridge_gpus)
