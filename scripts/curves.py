"""Fit the curves of products and write the tables of collectives into the catalogue.

    python scripts/curves.py

Reads ``benchmarks/data/products.csv`` (microseconds by shape, a column a card and precision) and
``collectives.csv`` (microseconds by message size, a line a card, count and kind): aiconfigurator's measured
database without the shapes and sizes of ``efficiency.csv``, which stay unseen. Writes the measured rows of
``hardware/catalogue/gemm.json`` and ``collectives.json``; all other rows stay.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.efficiency import OPERAND_BYTES  # noqa: E402
from shardwise.hardware import GemmCurve, gpu  # noqa: E402

Array = npt.NDArray[np.float64]
CATALOGUE = ROOT / "src/shardwise/hardware/catalogue"
DATA = ROOT / "benchmarks/data"
SOURCE = "aiconfigurator measured database (Apache-2.0, commit 095f58a5)"
TILES = ((128, 128), (256, 128), (128, 256), (256, 256), (64, 128))
START = np.array([0.7, 1.0, 5.0, 0.4, 3.0])
"""e_max, k0 in hundreds, launch in microseconds, wave exponent, bytes while quantising."""
STEPS = np.array([0.1, 1.0, 4.0, 0.2, 2.0])
LARGEST = np.array([1.0, 40.0, 100.0, 1.0, 20.0])
MOVES = 300


@dataclass(frozen=True)
class Measured:
    """The shapes of one card and precision and their seconds."""

    card: str
    precision: str
    shapes: Array
    seconds: Array

    def curve(self, tile: tuple[int, int], point: Array) -> GemmCurve:
        """The curve of one point of the search."""
        quantised = self.precision != "bf16"
        return GemmCurve(
            gpu=self.card,
            precision=self.precision,
            e_max=rounded(point[0]),
            k0=rounded(100 * point[1]),
            tile_m=tile[0],
            tile_n=tile[1],
            wave_exponent=rounded(point[3]),
            launch_seconds=rounded(1e-6 * point[2]),
            quantise_bytes=rounded(point[4]) if quantised else 0.0,
            hbm_share=0.85,
            grade="M",
            source=f"fit to {len(self.seconds)} shapes of {SOURCE}",
        )

    def error(self, curve: GemmCurve) -> float:
        """Mean |ln(predicted / measured)|."""
        card = gpu(self.card)
        predicted = curve.seconds(
            *self.shapes.T,
            peak_flops_per_s=card.peak_flops_per_s(self.precision) or 0.0,
            hbm_bytes_per_s=card.hbm_bytes_per_s,
            bytes_per_element=OPERAND_BYTES[self.precision],
            sms=card.sms,
        )
        return float(np.mean(np.abs(np.log(predicted / self.seconds))))


def rounded(value: float) -> float:
    """Three digits."""
    return float(f"{value:.3g}")


def simplex(error: Callable[[Array], float]) -> Array:
    """The best point of a search by moving simplex (Nelder and Mead 1965) inside 0 and `LARGEST`."""
    corners = [START, *(START + step for step in np.diag(STEPS))]

    def judged(point: Array) -> tuple[float, Array]:
        inside = np.clip(point, 1e-3, LARGEST)
        return error(inside) + float(np.sum(np.abs(point - inside))), point

    points = sorted((judged(corner) for corner in corners), key=lambda pair: pair[0])
    for _ in range(MOVES):
        centre = np.mean([point for _, point in points[:-1]], axis=0)
        away = centre - points[-1][1]
        tried = judged(centre + away)
        if tried[0] < points[0][0]:
            tried = min(tried, judged(centre + 2 * away), key=lambda pair: pair[0])
        elif tried[0] >= points[-2][0]:
            tried = judged(centre - 0.5 * away)
        if tried[0] < points[-1][0]:
            points[-1] = tried
        else:
            best = points[0][1]
            points = [points[0], *(judged(best + 0.5 * (point - best)) for _, point in points[1:])]
        points.sort(key=lambda pair: pair[0])
    return np.clip(points[0][1], 1e-3, LARGEST)


def fitted(measured: Measured) -> GemmCurve:
    """The curve of the tile and constants that predict best."""
    found = []
    for tile in TILES:
        point = simplex(lambda at, tile=tile: measured.error(measured.curve(tile, at)))  # type: ignore[misc]
        curve = measured.curve(tile, point)
        found.append((measured.error(curve), curve))
    error, curve = min(found, key=lambda pair: pair[0])
    return curve.model_copy(update={"mean_log_error": round(error, 3)})


def products() -> list[Measured]:
    """The columns of ``products.csv``."""
    with (DATA / "products.csv").open(encoding="utf-8", newline="") as file:
        head, *lines = csv.reader(file)
    found = []
    for index, name in enumerate(head[3:], start=3):
        met = [line for line in lines if line[index]]
        shapes = np.array([[float(side) for side in line[:3]] for line in met])
        seconds = np.array([float(line[index]) for line in met]) * 1e-6
        card, precision = name.split()
        found.append(Measured(card, precision, shapes, seconds))
    return found


def collective_rows() -> tuple[list[int], list[dict[str, Any]]]:
    """Sizes and lines of ``collectives.csv``."""
    with (DATA / "collectives.csv").open(encoding="utf-8", newline="") as file:
        head, *lines = csv.reader(file)
    rows = [
        {
            "gpu": line[0],
            "link": "island" if gpu(line[0]).joins(int(line[1])) else "pcie",
            "ranks": int(line[1]),
            "kind": line[2],
            "microseconds": [float(entry) for entry in line[4:]],
            "source": f"{SOURCE}, nccl {line[3]}",
        }
        for line in lines
    ]
    return [int(size) for size in head[4:]], rows


def write(name: str, data: dict[str, Any], lists: tuple[str, ...]) -> None:
    """A file of the catalogue, an entry of its lists a line."""
    parts = []
    for key, value in data.items():
        inner = ",\n".join(f"    {json.dumps(entry)}" for entry in value) if key in lists else ""
        parts.append(f"  {json.dumps(key)}: " + (f"[\n{inner}\n  ]" if inner else json.dumps(value)))
    (CATALOGUE / name).write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


def main() -> None:
    """Fit and write both files."""
    data = json.loads((CATALOGUE / "gemm.json").read_text(encoding="utf-8"))
    fresh = [fitted(measured).model_dump(exclude={"hbm_share"}) for measured in products()]
    data["rows"] = fresh + [row for row in data["rows"] if row["grade"] != "M"]
    write("gemm.json", data, ("rows",))
    data = json.loads((CATALOGUE / "collectives.json").read_text(encoding="utf-8"))
    sizes, data["rows"] = collective_rows()
    data["message_bytes"] = {"value": sizes, "source": "sizes of the same tables"}
    write("collectives.json", data, ("p2p", "rated", "rows"))


if __name__ == "__main__":
    main()
