"""Fit the curves of products and write the tables of collectives into the catalogue.

    python scripts/curves.py

Reads ``benchmarks/data/products.csv`` (microseconds by shape, a column a card and precision) and
``collectives.csv`` (microseconds by message size, a line a card, count and kind): aiconfigurator's measured
database without the shapes and sizes of ``efficiency.csv``, which stay unseen. Writes the measured rows of
``hardware/catalogue/gemm.json`` and ``collectives.json``; all other rows stay.

The energy of a FLOP in 16 bits and in fp8 is taken where it is published (grade P), else fitted: kept where
it lowers the error by more than chance does, where no card of the architecture was seen to sustain more, and
where narrow arithmetic costs no more than wide.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.efficiency import timed_seconds  # noqa: E402
from shardwise.hardware import GemmCurve, gpu  # noqa: E402

Array = npt.NDArray[np.float64]
CATALOGUE = ROOT / "src/shardwise/hardware/catalogue"
DATA = ROOT / "benchmarks/data"
SOURCE = "aiconfigurator measured database (Apache-2.0, commit 095f58a5)"
TILES = ((128, 128), (256, 128), (128, 256), (256, 256), (64, 128))
START = np.array([0.7, 1.0, 5.0, 0.4, 3.0, 0.5])
"""e_max, k0 in hundreds, launch in microseconds, wave exponent, bytes while quantising; and where the energy
of a FLOP is sought, the share of the peak that power sustains."""
STEPS = np.array([0.1, 1.0, 4.0, 0.2, 2.0, 0.1])
LARGEST = np.array([1.0, 40.0, 100.0, 1.0, 20.0, 1.0])
MOVES = 300
POWERED = ("bf16", "fp8")
"""Arithmetic whose energy is sought."""


@dataclass(frozen=True)
class Measured:
    """The shapes of one card and precision and their seconds."""

    card: str
    precision: str
    shapes: Array
    seconds: Array
    sustained: float | None
    settles: float

    @property
    def peak(self) -> float:
        """Dense peak FLOP/s."""
        return gpu(self.card).peak_flops_per_s(self.precision) or 0.0

    def curve(self, tile: tuple[int, int], point: Array) -> GemmCurve:
        """The curve of one point of the search."""
        quantised = self.precision != "bf16"
        return GemmCurve(
            sustained_flops_per_s=self.peak * point[5] if len(point) > 5 else self.sustained,
            power_settles_seconds=self.settles,
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
        predicted = timed_seconds(curve, gpu(self.card), self.shapes)
        return float(np.mean(np.abs(np.log(predicted / self.seconds))))


def rounded(value: float) -> float:
    """Three digits."""
    return float(f"{value:.3g}")


def simplex(error: Callable[[Array], float], start: Array) -> Array:
    """The best point of a search by moving simplex (Nelder and Mead 1965) inside 0 and `LARGEST`."""
    steps, largest = STEPS[: len(start)], LARGEST[: len(start)]
    corners = [start, *(start + step for step in np.diag(steps))]

    def judged(point: Array) -> tuple[float, Array]:
        inside = np.clip(point, 1e-3, largest)
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
    return np.clip(points[0][1], 1e-3, largest)


@dataclass(frozen=True)
class Fitted:
    """The best curve of a search, its constants and its error."""

    error: float
    tile: tuple[int, int]
    point: Array
    curve: GemmCurve


def fitted(measured: Measured, start: Array, tiles: tuple[tuple[int, int], ...] = TILES) -> Fitted:
    """The curve of the tile and the constants that predict best, sought from `start`."""
    found = []
    for tile in tiles:
        point = simplex(lambda at, tile=tile: measured.error(measured.curve(tile, at)), start)  # type: ignore[misc]
        curve = measured.curve(tile, point)
        found.append(Fitted(measured.error(curve), tile, point, curve))
    best = min(found, key=lambda one: one.error)
    rounded_error = {"mean_log_error": round(best.error, 3)}
    return Fitted(best.error, best.tile, best.point, replace(best.curve, **rounded_error))


def with_energy(measured: Measured, most: float) -> tuple[GemmCurve, float | None]:
    """The best curve, and the joules of a FLOP where the card's own products show its power limit.

    `most` are the joules a FLOP may take. More than chance is a gain in likelihood (of errors that fall off
    exponentially) above half the logarithm of their count (Schwarz 1978), against the better of the search
    without and of another from where that with energy ended.
    """
    plain = fitted(measured, START[:5])
    watts = gpu(measured.card).tdp_watts
    if measured.sustained or not watts or measured.precision not in POWERED:
        return plain.curve, None
    powered = fitted(measured, START)
    again = fitted(measured, powered.point[:5], (powered.tile,))
    count = len(measured.seconds)
    gain = count * np.log(min(plain.error, again.error) / powered.error)
    joules = rounded(watts / (powered.curve.sustained_flops_per_s or np.inf))
    seen = gain > 0.5 * np.log(count) and joules <= most
    return (powered.curve, joules) if seen else (plain.curve, None)


def most_joules() -> dict[tuple[str, str], float]:
    """Joules of a FLOP by architecture and precision that no card of it exceeds.

    In long loops over all shapes (`gemm_max` of ``efficiency.csv``) a card kept within its power.
    """
    with (DATA / "efficiency.csv").open(encoding="utf-8", newline="") as file:
        lines = [line for line in csv.DictReader(file) if line["what"] == "gemm_max"]
    found: dict[tuple[str, str], float] = {}
    for line in lines:
        card, key = gpu(line["gpu"]), (gpu(line["gpu"]).arch, line["precision"])
        joules = (card.tdp_watts or np.inf) / (1e12 * float(line["measured"]))
        found[key] = min(joules, found.get(key, np.inf))
    return found


def products(data: dict[str, Any]) -> list[Measured]:
    """The columns of ``products.csv``, with what is published of their power."""
    joules = {(gpu(row["gpu"]).arch, row["precision"]): row["joules_per_flop"] for row in published(data)}
    with (DATA / "products.csv").open(encoding="utf-8", newline="") as file:
        head, *lines = csv.reader(file)
    found = []
    for index, name in enumerate(head[3:], start=3):
        met = [line for line in lines if line[index]]
        shapes = np.array([[float(side) for side in line[:3]] for line in met])
        seconds = np.array([float(line[index]) for line in met]) * 1e-6
        card, precision = name.split()
        energy, watts = joules.get((gpu(card).arch, precision)), gpu(card).tdp_watts
        sustained = watts / energy if energy and watts else None
        settles = data["power_settles"]["power_settles_seconds"]
        found.append(Measured(card, precision, shapes, seconds, sustained, settles))
    return found


def published(data: dict[str, Any]) -> list[dict[str, Any]]:
    """Energies of a FLOP that others measured."""
    return [row for row in data["energy"] if row["grade"] == "P"]


def fit_products(data: dict[str, Any]) -> None:
    """Put the curves of ``products.csv`` and the energies that they show into `data`."""
    rows, energy, bounds = [], published(data), most_joules()
    for measured in products(data):
        card, precision = gpu(measured.card), measured.precision
        known = [row["joules_per_flop"] for row in energy if gpu(row["gpu"]).arch == card.arch]
        known += [bounds[card.arch, word] for word in ("bf16", precision) if (card.arch, word) in bounds]
        curve, joules = with_energy(measured, min(known, default=np.inf))
        apart = ("hbm_share", "sustained_flops_per_s", "power_settles_seconds")
        rows.append({field: value for field, value in asdict(curve).items() if field not in apart})
        if joules is not None:
            count = len(measured.seconds)
            energy.append(
                {
                    "gpu": card.name,
                    "precision": precision,
                    "joules_per_flop": joules,
                    "grade": "M",
                    "source": f"fitted beside its curve to {count} shapes",
                }
            )
    data["energy"] = energy
    data["rows"] = rows + [row for row in data["rows"] if row["grade"] != "M"]


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
    fit_products(data)
    write("gemm.json", data, ("energy", "rows"))
    data = json.loads((CATALOGUE / "collectives.json").read_text(encoding="utf-8"))
    sizes, data["rows"] = collective_rows()
    data["message_bytes"] = {"value": sizes, "source": "sizes of the same tables"}
    write("collectives.json", data, ("p2p", "rated", "rows"))


if __name__ == "__main__":
    main()
