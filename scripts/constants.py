"""Fits the ledger's constants on published runs: ``python scripts/constants.py [--write] [RUNS.csv...]``

Prints errors by source before, after, and with the source left out; with `--write` puts what is fitted into
the catalogues, with its sources and the date. Without files the runs of ``benchmarks/data`` are read. The
constant is fitted to the published runs alone; how far peaks lie off is told by those of other software too.
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
from benchmarks.peaks import SHARE, Peak, Peaks, coverage  # noqa: E402
from shardwise.runs.priced import price_jobs, read_rows  # noqa: E402
from shardwise.runs.record import read_records  # noqa: E402

RUNS = ROOT / "benchmarks" / "data" / "published_runs.csv"
OTHERS = ROOT / "benchmarks" / "data" / "more_runs.csv"
CATALOGUE = ROOT / "costs" / "catalogue"


def peaks_of(files: list[str]) -> Peaks:
    """The rows of `files` with a measured peak."""
    records = [r for file in files for r in read_records(file) if r.number("peak_mem_gib")]
    return Peaks(tuple(Peak.of(run) for run in price_jobs(read_rows(records)[0])))


def write_memory(part: Peaks, every: Peaks, day: str) -> None:
    """The allocator's constant, and residuals of all runs by kind under it."""
    fitted = part.fit(part.sources())
    able = [s for s in part.sources() if any(spot.holed for p in part.by_source[s] for spot in p.spots)]
    _dump("law_memory.json", part.entry(fitted, able, day))
    kinds = every.residuals(every.sources(), fitted[SHARE])
    about = "Measured over predicted peak: 10 % and 90 % quantiles by kind of run, sources weigh alike."
    _dump(
        "peak_residuals.json",
        {"_about": about, "date": day, "kinds": {kind: asdict(entry) for kind, entry in kinds.items()}},
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
    inside = coverage(memory)
    print(f"80 % intervals of sources left out hold {100 * inside['inside']:.0f} % of rows,", end=" ")
    print(f"median width {inside['median_width_percent']:.0f} %")
    if given.write:
        write_memory(memory, peaks_of([*given.runs, str(OTHERS)]), given.date)


if __name__ == "__main__":
    main()
