"""Fits the ledger's constants on published runs: ``python scripts/constants.py [--write] [RUNS.csv...]``

Prints errors by source before, after, and with the source left out; with `--write` puts what is fitted into
the catalogues, with its sources and the date. Without files the runs of ``benchmarks/data`` are read. The
constant is fitted to the published runs alone; how far peaks lie off is told by the blind runs, which the
ledger was not made with (``costs/catalogue/peak_residuals.json``; without each source
``benchmarks/data/left_out_peaks.json``).
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from datetime import date
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.fitting import studied, text  # noqa: E402
from benchmarks.peaks import FILE, SHARE, Peak, Peaks, coverage, residuals_of  # noqa: E402
from shardwise.runs.priced import price_jobs, read_rows  # noqa: E402
from shardwise.runs.record import read_records  # noqa: E402

RUNS = ROOT / "benchmarks" / "data" / "published_runs.csv"
BLIND = sorted((ROOT / "benchmarks" / "data").glob("*blind_runs.csv"))
CATALOGUE = ROOT / "costs" / "catalogue"


def peaks_of(files: list[str]) -> Peaks:
    """The rows of `files` with a measured peak."""
    records = [r for file in files for r in read_records(file) if r.number("peak_mem_gib")]
    return Peaks(tuple(Peak.of(run) for run in price_jobs(read_rows(records)[0])))


def write_memory(part: Peaks, blind: Peaks, day: str) -> None:
    """The allocator's constant, and residuals of the blind runs under it."""
    fitted = part.fit(part.sources())
    able = [s for s in part.sources() if any(spot.holed for p in part.by_source[s] for spot in p.spots)]
    _dump("law_memory.json", part.entry(fitted, able, day))
    pool = blind.pool(fitted[SHARE])
    about = "80 % of measured over predicted peak of blind runs, sources left out (benchmarks/peaks.py)."
    found = {"_about": about, "date": day, "peaks": asdict(residuals_of(pool))}
    _dump("peak_residuals.json", found)
    lines = ",\n".join(f'  "{name}": {json.dumps(asdict(residuals_of(pool, name)))}' for name in pool.names)
    FILE.write_text(
        f'{{\n "about": "{about} By source, without it.",\n "sources": {{\n{lines}\n }}\n}}\n', "utf-8"
    )


def _dump(name: str, content: object) -> None:
    (CATALOGUE / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the catalogues")
    parser.add_argument("--date", default=date.today().isoformat())
    parser.add_argument("runs", nargs="*", default=[str(RUNS)])
    given = parser.parse_args()
    memory = peaks_of(given.runs)
    print(text(studied(memory)))
    if given.write:
        write_memory(memory, peaks_of([str(file) for file in BLIND]), given.date)
    inside = coverage(memory)
    print(f"80 % intervals of sources left out hold {100 * inside['inside']:.0f} % of rows,", end=" ")
    print(f"median width {inside['median_width_percent']:.0f} %")


if __name__ == "__main__":
    main()
