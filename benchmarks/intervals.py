"""Do 80 % intervals of step times hold? ``python -m benchmarks.intervals RUNS.csv...``

A source of the fit is priced with the constants the others give, a source no fit knows with the catalogue's;
the interval of either is drawn from the others (``data/left_out.json``, ``left_out_scatter.json``). By class
of run and by file, then by source, worst first: share of rows inside and above, the mean of the sources'
shares inside, the median width. *measured*: another source of the fit had the row's software on its card.
*doubtful*: by `benchmarks.fit.trusted`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import exp
from pathlib import Path
from statistics import fmean, median
from typing import Any

from shardwise.costs.interval import ANY
from shardwise.costs.scatter import Scatter, scatters
from shardwise.runs.priced import Run, price_jobs, read_rows
from shardwise.runs.record import read_records

from .face import Result, run, table
from .left_out import price_left_out
from .residuals import Residual

FILE = Path(__file__).parent / "data" / "left_out_scatter.json"


@cache
def known() -> dict[str, Any]:
    """By source, what the others scatter by; by card, and by software and card, the sources that ran them."""
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def scatter_without(source: str, kind: str) -> Scatter:
    """What runs of a kind scatter by, without those of a source."""
    entries = known()["sources"].get(source, {})
    if kind in scatters():
        return Scatter(**entries[kind]) if kind in entries else scatters()[kind]
    return Scatter(**entries[ANY]) if ANY in entries else scatters()[ANY]


@dataclass(frozen=True)
class Judged:
    """A residual, its kind, the interval drawn without its source, and whether that holds it."""

    run: Run
    row: Residual
    kind: str
    inside: bool
    above: bool
    width_percent: float

    @classmethod
    def of(cls, run: Run) -> Judged:
        """By the scatter of the run's kind."""
        row = Residual.of(run)
        kind = row.kind(known()["cards"])
        found = scatter_without(row.source, kind)
        ratio = exp(row.log)
        return cls(run, row, kind, found.low <= ratio <= found.high, ratio > found.high, found.width_percent)

    @property
    def doubt(self) -> str:
        """Whether a fit would trust the row."""
        return "as told" if self.row.trusted else "doubtful"

    @property
    def routed(self) -> bool:
        """Whether the model has experts."""
        return any(kind.feed_forward.experts for kind in self.run.job.transformer.kinds)


def step_coverage(left_out: Sequence[Run]) -> dict[str, Any]:
    """How often intervals drawn from the other sources hold rows of those, and how wide they are."""
    return _summary([Judged.of(run) for run in left_out])


def _summary(rows: Sequence[Judged]) -> dict[str, Any]:
    by_source = _grouped(rows, lambda one: one.row.source)
    return {
        "rows": len(rows),
        "sources": len(by_source),
        "inside": fmean(one.inside for one in rows),
        "above": fmean(one.above for one in rows),
        "inside_by_source_mean": fmean(fmean(one.inside for one in mine) for mine in by_source.values()),
        "median_width_percent": median(one.width_percent for one in rows),
    }


def _grouped(rows: Sequence[Judged], key: Callable[[Judged], str]) -> Mapping[str, list[Judged]]:
    found: dict[str, list[Judged]] = defaultdict(list)
    for one in rows:
        found[key(one)].append(one)
    return found


def _measured(row: Residual) -> bool:
    return bool(set(known()["measured"].get(row.ran, ())) - {row.source})


CLASSES: tuple[Callable[[Judged], str], ...] = (
    lambda one: "all rows",
    lambda one: one.doubt,
    lambda one: f"{one.kind}, {one.doubt}",
    lambda one: "with experts" if one.routed else "dense",
    lambda one: "complete" if one.run.job.complete else "with blanks",
    lambda one: "measured" if _measured(one.row) else "not measured",
)


def measure(files: Sequence[str]) -> Result:
    """Coverage by class and by source."""
    by_file = {Path(file).name: _judged(file) for file in files}
    rows = [one for mine in by_file.values() for one in mine]
    classes = {}
    for named in CLASSES:
        classes.update({name: _summary(mine) for name, mine in sorted(_grouped(rows, named).items())})
    classes.update({name: _summary(mine) for name, mine in by_file.items() if mine})
    sources = {name: _summary(mine) for name, mine in _grouped(rows, lambda one: one.row.source).items()}
    return {"classes": classes, "sources": sources}


def _judged(file: str) -> list[Judged]:
    jobs, _ = read_rows(read_records(file))
    return [
        Judged.of(run) for run in price_left_out([run for run in price_jobs(jobs) if run.measured_seconds])
    ]


KEYS = ("rows", "sources", "inside", "above", "inside_by_source_mean", "median_width_percent")


def text(found: Result) -> str:
    """Two tables: classes, and sources with the worst first."""
    head = ("rows that are", "rows", "sources", "inside", "above", "mean of sources", "median width %")
    body = [[name, *(one[key] for key in KEYS)] for name, one in found["classes"].items()]
    worst = sorted(found["sources"].items(), key=lambda item: (item[1]["inside"], item[0]))
    lines = [[name, one["rows"], one["inside"], one["median_width_percent"]] for name, one in worst]
    return f"{table(head, body)}\n\n{table(('source', 'rows', 'inside', 'median width %'), lines)}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    return run((__doc__ or "").splitlines()[0], ["RUNS..."], measure, text, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
