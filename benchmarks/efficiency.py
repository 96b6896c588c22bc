"""Hardware curves against measured points they have not seen: ``python -m benchmarks.efficiency CSV``

Matrix products and attention by speed, collectives by bus rate, per card and kind of arithmetic, worst first. Each
point is predicted without itself:

- products: the catalogue's curves were fitted (``scripts/curves.py``) to ``products.csv``, which has no shape of
  efficiency.csv;
- attention and collectives are tables, so each point is predicted by the table of its card without that length or
  size (held out by `shape`), the ends by what the table says beyond its ends;
- collectives of other sources than the tables' are predicted by the whole table (held out by `source`).

nccl-tests times calls that follow each other on the device; ``all_reduce_bench.py`` times one call behind a barrier,
so a launch stands in each of its times (`LAUNCH_SECONDS`). Plans take the former: in a training loop collectives wait
on the device too, and what the host takes is a constant of the software stack.
"""  # noqa: E501

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from shardwise.hardware import (
    AttentionCurve,
    CollectiveCurve,
    GemmCurve,
    Gpu,
    attention_curve,
    collective_curve,
    gemm_curve,
    gpu,
)
from shardwise.hardware.collective import Kind, bus_share, knots_of
from shardwise.hardware.curves import SpeedRow
from shardwise.inputs import InputError
from shardwise.runs.record import Record, read_records, words

from .face import Result, run, table
from .scores import summary

COLUMNS = words("what gpu shape_or_bytes precision measured unit source")
_PRODUCT = re.compile(r"^(\d+)x(\d+)x(\d+) \(m x n x k\)")
_ATTENTION = re.compile(r"^d=(\d+) s=(\d+)")
_COLLECTIVE = re.compile(r"^(\d+) (B|MiB|GiB), (\d+) GPUs one node")
_UNITS = {"B": 1, "MiB": 2**20, "GiB": 2**30}
_KINDS: dict[str, Kind] = {
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
TABLES = "aiconfigurator"
"""Word in the source of the points that the tables of collectives hold."""
LAUNCH_SECONDS = {"H200-SXM": 20e-6, "B200-SXM": 20e-6}
"""What all_reduce_bench.py (ml-engineering) times beside the collective, on the cards it was run on: times
of 32 to 512 KiB (38-40 microseconds on 8 x H200, 47-53 on 8 x B200) less those of nccl-tests (20-21, 28-29).
The 8 x A100 line of that source is of nccl-tests, one process driving all cards."""
TIMED_SINGLY = "ml-engineering"
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
    held_out_by: str


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
    shape = np.array([[float(side) for side in met.groups()]])
    seconds = float(timed_seconds(gemm_curve(card, word), card, shape)[0])
    return _point(record, card, "products", word, 2.0 * float(shape.prod()) / seconds / 1e12)


OPERAND_BYTES = {"bf16": 2.0, "fp8": 1.0, "fp8_blockwise": 1.0, "mxfp8": 1.03125, "fp4": 0.5625}
"""Bytes of an operand element with its scales (one byte for 32 MX elements, for 16 NVFP4 elements)."""
L2_BYTES = {"L40S": 96 * 2**20, "H100-SXM-80GB": 50 * 2**20, "H200-SXM": 50 * 2**20}
"""Second-level cache of the cards whose power limit is known (NVIDIA's architecture papers)."""
CALLS = 12
"""aiconfigurator times six calls after six that warm up."""
COPIES = 5
"""Its calls cycle through so many copies of a matrix as fill the second-level cache, at most these."""


def timed_seconds(curve: GemmCurve, card: Gpu, shapes: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Seconds of m x n x k products (a row each) as aiconfigurator times them, on a rested card."""
    element = OPERAND_BYTES[curve.precision]
    m, n, k = shapes.T
    rested = curve.seconds(
        m,
        n,
        k,
        peak_flops_per_s=card.peak_flops_per_s(curve.precision) or 0.0,
        hbm_bytes_per_s=card.hbm_bytes_per_s,
        bytes_per_element=element,
        sms=card.sms,
    )
    copies = np.clip(np.ceil(L2_BYTES.get(card.name, 0) / (n * k * element)), 1, COPIES)
    return curve.timed_seconds(rested, curve.power_seconds(m, n, k), CALLS * copies)


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
    size, length = int(met[1]), int(met[2])
    left = _without_length(curve, passes, length, size)
    if left is None:
        return None
    speed = left.forward_flops_per_s if passes == "forward" else left.forward_backward_flops_per_s
    predicted = float(np.asarray(speed(length, size))) / 1e12
    return _point(record, card, "attention", f"{kernel} {passes}", predicted)


def _without_length(curve: AttentionCurve, passes: str, length: int, size: int) -> AttentionCurve | None:
    """The curve without one point; None where its head size has no other."""
    field = "forward" if passes == "forward" else "forward_backward"
    rows: list[SpeedRow] = []
    for row in getattr(curve, field):
        if row.head_dim == size and length in row.lengths:
            index = row.lengths.index(length)
            lengths, speeds = list(row.lengths), list(row.flops_per_s)
            del lengths[index], speeds[index]
            if not lengths:
                return None
            row = SpeedRow(head_dim=size, lengths=tuple(lengths), flops_per_s=tuple(speeds))
        rows.append(row)
    changed: dict[str, Any] = {field: tuple(rows)}
    return replace(curve, **changed)


def _collective(record: Record, card: Gpu) -> Point | None:
    met, kind = _COLLECTIVE.match(record.text("shape_or_bytes")), _KINDS.get(record.text("what"))
    if not met or not kind:
        return None
    payload, ranks = int(met[1]) * _UNITS[met[2]], int(met[3])
    moved = payload * bus_share(kind, ranks)
    curve = collective_curve(card, ranks, kind)
    seconds = float(_without_size(curve, moved).seconds(moved))
    if TABLES not in record.text("source"):
        seconds = float(curve.seconds(moved))
    if TIMED_SINGLY in record.text("source"):
        seconds += LAUNCH_SECONDS.get(card.name, 0.0)
    group = "collectives" if payload >= LARGE_BYTES else "collectives below 1 MiB"
    return _point(record, card, group, kind, moved / seconds / 1e9)


def _without_size(curve: CollectiveCurve, moved: float) -> CollectiveCurve:
    """The table without the knot of `moved` bytes."""
    kept = [
        pair
        for pair in zip(curve.bus_bytes, curve.knot_seconds, strict=True)
        if abs(pair[0] / moved - 1.0) > 1e-6
    ]
    sizes, seconds = zip(*kept, strict=True)
    return replace(curve, **knots_of(sizes, seconds))


def _point(record: Record, card: Gpu, group: str, arithmetic: str, predicted: float) -> Point:
    apart = "collectives" in group and TABLES not in record.text("source")
    measured = record.number("measured") or 0.0
    return Point(group, card.name, arithmetic, predicted, measured, "source" if apart else "shape")


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
    """Scores by group, by card in it, and by card and kind; and how they stand to the bars."""
    points = points_of(read_records(files[0], COLUMNS))
    groups: dict[str, Any] = {}
    for name in dict.fromkeys(point.group for point in points):
        mine = [point for point in points if point.group == name]
        parts = dict.fromkeys((p.card, p.arithmetic, p.held_out_by) for p in mine)
        groups[name] = {
            "all": _score(mine),
            "cards": sorted((_card(mine, *part) for part in parts), key=lambda line: -line["mape"]),
        }
    return {"points": len(points), "groups": groups, "bars": [_bar(points, *bar) for bar in BARS]}


BARS = (
    ("products", ("bf16",), 9.0),
    ("products", ("fp8", "fp8_blockwise", "mxfp8"), 14.0),
    ("collectives", tuple(_KINDS.values()), 10.0),
)
"""Mean error of a card, percent, that is wanted: group, kinds of arithmetic, most."""


def _bar(points: Sequence[Point], group: str, kinds: tuple[str, ...], most: float) -> dict[str, Any]:
    """Mean error of each card over some kinds, worst first."""
    mine = [point for point in points if point.group == group and point.arithmetic in kinds]
    cards = {name: _score([p for p in mine if p.card == name]) for name in {point.card for point in mine}}
    errors = sorted(((score["mape"], name) for name, score in cards.items()), reverse=True)
    return {
        "group": group,
        "kinds": kinds,
        "most": most,
        "within": sum(error <= most for error, _ in errors),
        "cards": [{"card": name, "mape": error} for error, name in errors],
    }


def _score(points: Sequence[Point]) -> dict[str, Any]:
    return summary([(p.predicted, p.measured) for p in points])


def _card(points: Sequence[Point], card: str, arithmetic: str, held_out_by: str) -> dict[str, Any]:
    mine = [p for p in points if (p.card, p.arithmetic, p.held_out_by) == (card, arithmetic, held_out_by)]
    return {"card": card, "arithmetic": arithmetic, "held_out_by": held_out_by, **_score(mine)}


def text(found: Result) -> str:
    """The result as tables, worst first; then each card against the bars."""
    keys = ("card", "arithmetic", "held_out_by", "rows", "mape", "median_ape", "bias")
    parts = []
    for name, group in found["groups"].items():
        score = group["all"]
        parts.append(
            table((name, *keys[1:]), [[line[key] for key in keys] for line in group["cards"]])
            + f"\nall: {score['rows']} points, mape {score['mape']:.2f} %, bias {score['bias']:.2f} %"
        )
    for bar in found["bars"]:
        cards = ", ".join(f"{line['card']} {line['mape']:.1f}" for line in bar["cards"])
        title = f"{bar['group']} {' '.join(bar['kinds'])}, at most {bar['most']:.0f} % a card"
        parts.append(f"{title}: {bar['within']} of {len(bar['cards'])} cards\n  {cards}")
    return "\n\n".join(parts)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    return run((__doc__ or "").splitlines()[0], ["CSV"], measure, text, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
