"""Hardware curves against measured points: ``python -m benchmarks.efficiency CSV``

Matrix products and attention by speed, collectives by bus rate, per card and kind of arithmetic. Points whose
source the catalogue's curves were fitted to are marked `in_sample`: their error is that of the fit, not of a
prediction; only the others test the curves on points they have not seen.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shardwise.hardware import Gpu, attention_curve, collective_curve, gemm_curve, gpu
from shardwise.inputs import InputError
from shardwise.runs.record import Record, read_records, words

from .face import Result, run, table
from .scores import summary

COLUMNS = words("what gpu shape_or_bytes precision measured unit source")
_PRODUCT = re.compile(r"^(\d+)x(\d+)x(\d+) \(m x n x k\)")
_ATTENTION = re.compile(r"^d=(\d+) s=(\d+)")
_COLLECTIVE = re.compile(r"^(\d+) (B|MiB|GiB), (\d+) GPUs one node")
_UNITS = {"B": 1, "MiB": 2**20, "GiB": 2**30}
_KINDS = {
    "nccl_all_reduce": "all_reduce",
    "nccl_all_gather": "all_gather",
    "nccl_reduce_scatter": "reduce_scatter",
    "nccl_alltoall": "all_to_all",
}
_PASSES = {
    "attention_fwd_causal": "forward",
    "attention_fwd_bwd_causal": "both",
    "attention_fwd_causal_cudnn": "forward",
}
_KERNELS = (("prefill", "prefill"), ("fa3", "flash3"), ("fa2", "flash2"))
FITTED = "aiconfigurator"
"""Word in the source of points that product and collective curves were fitted to."""
LARGE_BYTES = 2**20
"""Collectives below it are dominated by latency and reported apart."""


@dataclass(frozen=True)
class Point:
    """One measured speed beside the curve's."""

    group: str
    card: str
    arithmetic: str
    predicted: float
    measured: float
    in_sample: bool


def _product(record: Record, card: Gpu) -> Point | None:
    met = _PRODUCT.match(record.text("shape_or_bytes"))
    if not met or record.text("what") != "gemm":
        return None
    blackwell = card.arch.startswith("blackwell")
    word = {"fp8_tensorwise": "fp8", "nvfp4": "fp4"}.get(record.text("precision"), record.text("precision"))
    word = ("mxfp8" if blackwell else "fp8_blockwise") if word == "fp8_blockwise_or_mxfp8" else word
    peak = card.peak_flops_per_s(word)
    if peak is None:
        return None
    m, n, k = (int(side) for side in met.groups())
    seconds = gemm_curve(card, word).seconds(
        m,
        n,
        k,
        peak_flops_per_s=peak,
        hbm_bytes_per_s=card.hbm_bytes_per_s,
        bytes_per_element=OPERAND_BYTES[word],
        sms=card.sms,
    )
    return _point(record, card, "products", word, 2.0 * m * n * k / float(seconds) / 1e12)


OPERAND_BYTES = {"bf16": 2.0, "fp8": 1.0, "fp8_blockwise": 1.0, "mxfp8": 1.03125, "fp4": 0.5625}
"""Bytes of an operand element with its scales (one byte for 32 MX elements, for 16 NVFP4 elements)."""


def _attention(record: Record, card: Gpu) -> Point | None:
    met, passes = _ATTENTION.match(record.text("shape_or_bytes")), _PASSES.get(record.text("what"))
    if not met or not passes:
        return None
    source = record.text("source").lower()
    kernel = (
        "cudnn" if "cudnn" in record.text("what") else next((k for w, k in _KERNELS if w in source), None)
    )
    try:
        curve = attention_curve(card, kernel)
    except InputError:
        return None
    speed = curve.forward_flops_per_s if passes == "forward" else curve.forward_backward_flops_per_s
    predicted = float(np.asarray(speed(int(met[2]), int(met[1])))) / 1e12
    return _point(record, card, "attention", f"{kernel} {passes}", predicted)


def _collective(record: Record, card: Gpu) -> Point | None:
    met, kind = _COLLECTIVE.match(record.text("shape_or_bytes")), _KINDS.get(record.text("what"))
    if not met or not kind:
        return None
    payload, ranks = int(met[1]) * _UNITS[met[2]], int(met[3])
    moved = payload * (ranks - 1) / ranks * (2.0 if kind == "all_reduce" else 1.0)
    curve = collective_curve(card, ranks, kind)
    group = "collectives" if payload >= LARGE_BYTES else "collectives below 1 MiB"
    return _point(record, card, group, kind, moved / float(curve.seconds(moved)) / 1e9)


def _point(record: Record, card: Gpu, group: str, arithmetic: str, predicted: float) -> Point:
    fitted = FITTED in record.text("source") or group == "attention"
    return Point(group, card.name, arithmetic, predicted, record.number("measured") or 0.0, fitted)


_READERS: tuple[Callable[[Record, Gpu], Point | None], ...] = (_product, _attention, _collective)


def points_of(records: Sequence[Record]) -> list[Point]:
    """All points that a curve speaks of."""
    found = []
    for record in records:
        try:
            card = gpu(record.text("gpu"))
        except InputError:
            continue
        met = (reader(record, card) for reader in _READERS)
        found += [point for point in met if point is not None and point.measured]
    return found


def measure(files: Sequence[str]) -> Result:
    """Scores by group, and within it by card and arithmetic, in sample and out of it."""
    points = points_of(read_records(files[0], COLUMNS))
    groups: dict[str, Any] = {}
    for name in dict.fromkeys(point.group for point in points):
        mine = [point for point in points if point.group == name]
        groups[name] = {
            "in_sample": _score([p for p in mine if p.in_sample]),
            "held_out": _score([p for p in mine if not p.in_sample]),
            "cards": [
                _card(mine, *key) for key in dict.fromkeys((p.card, p.arithmetic, p.in_sample) for p in mine)
            ],
        }
    return {"points": len(points), "groups": groups}


def _score(points: Sequence[Point]) -> dict[str, Any] | None:
    return summary([(p.predicted, p.measured) for p in points]) if points else None


def _card(points: Sequence[Point], card: str, arithmetic: str, in_sample: bool) -> dict[str, Any]:
    mine = [p for p in points if (p.card, p.arithmetic, p.in_sample) == (card, arithmetic, in_sample)]
    return {"card": card, "arithmetic": arithmetic, "in_sample": in_sample, **(_score(mine) or {})}


def text(found: Result) -> str:
    """The result as tables, worst card first."""
    keys = ("card", "arithmetic", "in_sample", "rows", "mape", "median_ape", "bias")
    parts = []
    for name, group in found["groups"].items():
        lines = sorted(group["cards"], key=lambda line: -line["mape"])
        parts.append(table((name, *keys[1:]), [[line[key] for key in keys] for line in lines]))
        for word in ("in_sample", "held_out"):
            if score := group[word]:
                parts[-1] += (
                    f"\n{word}: {score['rows']} points, "
                    f"mape {score['mape']:.2f} %, bias {score['bias']:.2f} %"
                )
    return "\n\n".join([*parts, "in_sample: the curve was fitted to this source; held_out: it was not"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    return run((__doc__ or "").splitlines()[0], ["CSV"], measure, text, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
