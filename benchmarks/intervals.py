"""Do 80 % intervals of step times hold? ``python -m benchmarks.intervals RUNS.csv...``

A source of the fit is priced with the constants the others give, and its interval is what the others scatter
by (``data/left_out.json``, ``left_out_scatter.json``); a source no fit knows gets the catalogue's, as a user
does. By class of run, then by source, worst first: share of rows inside, the mean of the sources' shares, the
median width. *measured*: another source of the fit had the row's software on its card. *doubtful*: by
`benchmarks.fit.trusted`.

How an interval is learnt: the size of a residual is abs(ln(measured / predicted)). A kind's scale is the mean
size, sources alike, drawn to the scale of all runs as if `ALIKE` more sources had that. Sizes over the scales
of their kinds are pooled, each source with the same weight; with n sources, a row of the next one lies at or
below their quantile 0.8 (n + 1) / n with 80 % (sources are alike: Dunn, Wasserman, Ramdas, arXiv 1809.07441).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import exp, log
from pathlib import Path
from statistics import fmean, median
from typing import Any

from shardwise.costs.interval import ANY
from shardwise.costs.scatter import Scatter, drawn, scatters, step_kind
from shardwise.runs.priced import Run, price_jobs, read_rows
from shardwise.runs.record import read_records

from .face import Result, run, table
from .fit import trusted
from .left_out import price_left_out

FILE = Path(__file__).parent / "data" / "left_out_scatter.json"
INSIDE = 0.8
"""Share of rows that an interval shall hold."""


@dataclass(frozen=True)
class Residual:
    """A run's kind, source and abs(ln(measured / predicted)); what ran it, and whether a fit trusts it."""

    source: str
    kind: str
    size: float
    ran: str
    trusted: bool

    @classmethod
    def of(cls, run: Run) -> Residual:
        """Of a run with a measured time."""
        return cls(
            source=run.job.record.text("source"),
            kind=step_kind(any(kind.feed_forward.experts for kind in run.job.transformer.kinds)),
            size=abs(log((run.measured_seconds or 0.0) / run.seconds)),
            ran=f"{run.candidate.strategy.software_stack}/{run.job.cluster.node.gpu.name}",
            trusted=trusted(run.job.record),
        )


def scatters_of(rows: Iterable[Residual]) -> dict[str, Scatter]:
    """Scatter by kind, and of all runs.

    >>> made = [Residual(source, "dense", 0.1 * (i + 1), "", True) for source in "abcd" for i in range(4)]
    >>> found = scatters_of(made)["dense"]
    >>> round(found.scale, 2), round(found.reach, 2), found.rows, found.sources
    (0.25, 0.4, 16, 4)
    """
    kinds: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        kinds[row.kind][row.source].append(row.size)
        kinds[ANY][row.source].append(row.size)
    every = fmean(fmean(sizes) for sizes in kinds[ANY].values())
    scales = {kind: drawn([fmean(sizes) for sizes in found.values()], every) for kind, found in kinds.items()}
    times = _quantile(
        [
            (size / scales[kind], 1.0 / len(kinds[ANY][source]))
            for kind, found in kinds.items()
            for source, sizes in found.items()
            for size in sizes
            if kind != ANY
        ],
        INSIDE * (len(kinds[ANY]) + 1) / len(kinds[ANY]),
    )
    return {
        kind: Scatter(
            scale=round(scales[kind], 4),
            reach=round(times * scales[kind], 4),
            rows=sum(map(len, found.values())),
            sources=len(found),
        )
        for kind, found in sorted(kinds.items())
    }


def _quantile(weighed: Sequence[tuple[float, float]], share: float) -> float:
    """The least value at which the weights of all up to it reach `share` of them; else the greatest."""
    enough, total = share * sum(weight for _, weight in weighed), 0.0
    for value, weight in sorted(weighed):
        total += weight
        if total >= enough:
            return value
    return max(weighed)[0]


@cache
def known() -> dict[str, Any]:
    """By source of the fit: what the others scatter by; by software and card: the sources that ran them."""
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def _without(source: str) -> Mapping[str, Scatter]:
    listed = known()["sources"].get(source)
    return scatters() if listed is None else {kind: Scatter(**entry) for kind, entry in listed.items()}


def _measured(row: Residual) -> bool:
    return bool(set(known()["measured"].get(row.ran, ())) - {row.source})


@dataclass(frozen=True)
class Judged:
    """A residual, whether the interval drawn without its source holds it, and the interval's width in %."""

    row: Residual
    inside: bool
    width_percent: float

    @classmethod
    def of(cls, row: Residual) -> Judged:
        """By the scatter of the row's kind."""
        found = _without(row.source)
        reach = found.get(row.kind, found[ANY]).reach
        return cls(row, row.size <= reach, 100.0 * (exp(reach) - exp(-reach)))


def step_coverage(left_out: Sequence[Run]) -> dict[str, Any]:
    """How often intervals drawn from the other sources hold rows of those, and how wide they are."""
    return _summary([Judged.of(Residual.of(run)) for run in left_out])


def _summary(rows: Sequence[Judged]) -> dict[str, Any]:
    by_source = _grouped(rows, lambda one: one.row.source)
    return {
        "rows": len(rows),
        "sources": len(by_source),
        "inside": fmean(one.inside for one in rows),
        "inside_by_source_mean": fmean(fmean(one.inside for one in mine) for mine in by_source.values()),
        "median_width_percent": median(one.width_percent for one in rows),
    }


def _grouped(rows: Sequence[Judged], key: Callable[[Judged], str]) -> Mapping[str, list[Judged]]:
    found: dict[str, list[Judged]] = defaultdict(list)
    for one in rows:
        found[key(one)].append(one)
    return found


CLASSES: tuple[Callable[[Residual], str], ...] = (
    lambda row: "all rows",
    lambda row: "as told" if row.trusted else "doubtful",
    lambda row: row.kind,
    lambda row: "measured" if _measured(row) else "not measured",
)


def measure(files: Sequence[str]) -> Result:
    """Coverage by class and by source."""
    jobs, _ = read_rows(record for file in files for record in read_records(file))
    timed = [run for run in price_jobs(jobs) if run.measured_seconds]
    rows = [Judged.of(Residual.of(run)) for run in price_left_out(timed)]
    classes = {}
    for named in CLASSES:
        found = _grouped(rows, lambda one, named=named: named(one.row))  # type: ignore[misc]
        classes.update({name: _summary(mine) for name, mine in sorted(found.items())})
    sources = {name: _summary(mine) for name, mine in _grouped(rows, lambda one: one.row.source).items()}
    return {"classes": classes, "sources": sources}


KEYS = ("rows", "sources", "inside", "inside_by_source_mean", "median_width_percent")


def text(found: Result) -> str:
    """Two tables: classes, and sources with the worst first."""
    head = ("rows that are", "rows", "sources", "inside", "mean of sources", "median width %")
    body = [[name, *(one[key] for key in KEYS)] for name, one in found["classes"].items()]
    worst = sorted(found["sources"].items(), key=lambda item: (item[1]["inside"], item[0]))
    lines = [[name, one["rows"], one["inside"], one["median_width_percent"]] for name, one in worst]
    return f"{table(head, body)}\n\n{table(('source', 'rows', 'inside', 'median width %'), lines)}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    return run((__doc__ or "").splitlines()[0], ["RUNS..."], measure, text, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
