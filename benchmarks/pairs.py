"""Is the run predicted to be faster the faster one? ``python -m benchmarks.pairs RUNS.csv...``

What a source does its own way (its network, its clocks, its code) stands in both of two of its runs and
leaves their ratio, so that a ratio is known better than either step. Pairs of rows of one source, each row
priced without its source: *alike* of one software on one card, *apart* where either differs; of two kinds a
pair is of the less known.
`reach` is how far 80 % of ratios lie from predicted ones, drawn as ends of intervals are (`ends`) without the
pair's own source. A lead, in seconds a token, beyond it settles a pair: of how many, and of how many rightly.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import expm1, log
from statistics import fmean
from typing import Any

from shardwise.costs.interval import ANY, LEAST_SOURCES
from shardwise.costs.scatter import PairScatter, step_kind
from shardwise.runs.priced import price_jobs, read_rows
from shardwise.runs.record import read_records

from .ends import Pool
from .face import Result, run, table
from .fit import trusted
from .left_out import price_left_out
from .residuals import Residual, sources_by

ALIKE, APART = "alike", "apart"


@dataclass(frozen=True)
class Pair:
    """Two runs of a source: ln of what their ratio is off by, and of the predicted ratio, 0 or more."""

    source: str
    off: float
    lead: float

    @property
    def right(self) -> bool:
        """Whether the run predicted to be faster was."""
        return self.lead + self.off > 0.0


Groups = dict[tuple[str, str], list[Pair]]
"""Pairs by `ALIKE` or `APART` and by kind of run, and all of them."""


def pairs_of(rows: Iterable[tuple[Residual, float]]) -> Groups:
    """All pairs of rows of a source; each row with ln of its predicted seconds a token."""
    rows = list(rows)
    cards = sources_by((row for row, _ in rows), lambda row: row.gpu)
    by_source: dict[str, list[tuple[Residual, float]]] = defaultdict(list)
    for row in rows:
        by_source[row[0].source].append(row)
    found: Groups = defaultdict(list)
    for source, mine in sorted(by_source.items()):
        for pair in combinations(mine, 2):
            (one, first), (other, second) = sorted(pair, key=lambda row: row[1])
            which = ALIKE if one.ran == other.ran else APART
            nearest = min(one.limit_fraction, other.limit_fraction)
            kind = step_kind(nearest, one.measured(cards) and other.measured(cards))
            for name in (kind, ANY):
                found[which, name].append(Pair(source, other.log - one.log, second - first))
    return found


def pair_scatters_of(rows: Iterable[Residual]) -> dict[str, dict[str, PairScatter]]:
    """By `ALIKE` or `APART`, then by kind of run; kinds of few sources are left to all.

    >>> rows = [Residual(s, 0.1 * i, 0.5, "", "T4") for s in "abcd" for i in range(3)]
    >>> found = pair_scatters_of(rows)["alike"]["any"]
    >>> found.reach, found.rows, found.sources
    (0.2, 12, 4)
    """
    found: dict[str, dict[str, PairScatter]] = {ALIKE: {}, APART: {}}
    for (which, name), pool in _pools(pairs_of((row, 0.0) for row in rows)):
        reach = round(pool.drawn()[1], 4)
        found[which][name] = PairScatter(reach=reach, rows=len(pool.logs), sources=len(pool.names))
    return found


def _pools(groups: Groups) -> Iterator[tuple[tuple[str, str], Pool]]:
    for key, pairs in sorted(groups.items()):
        pool = Pool.of((pair.source, abs(pair.off)) for pair in pairs)
        if key[1] == ANY or len(pool.names) >= LEAST_SOURCES:
            yield key, pool


def measure(files: Sequence[str]) -> Result:
    """Each group with its reach and what leads beyond it were worth."""
    jobs, _ = read_rows(record for file in files for record in read_records(file))
    timed = [job for job in price_jobs(jobs) if job.measured_seconds and trusted(job.job.record)]
    left_out = price_left_out(timed)
    rows = [(Residual.of(one), log(one.seconds / one.candidate.training.tokens)) for one in left_out]
    groups = pairs_of(rows)
    return {
        f"{which} {kind}": _judged(groups[which, kind], pool)
        for (which, kind), pool in _pools(groups)
        if kind != ANY
    }


def _judged(pairs: Sequence[Pair], pool: Pool) -> dict[str, Any]:
    without = {name: pool.drawn({place})[1] for place, name in enumerate(pool.names)}
    settled: Mapping[str, list[bool]] = defaultdict(list)
    for pair in pairs:
        if pair.lead > without[pair.source]:
            settled[pair.source].append(pair.right)
    count = sum(map(len, settled.values()))
    return {
        "pairs": len(pairs),
        "sources": len(pool.names),
        "reach_percent": 100.0 * expm1(pool.drawn()[1]),
        "inside": fmean(abs(pair.off) <= without[pair.source] for pair in pairs),
        "settled": count / len(pairs),
        "right": sum(map(sum, settled.values())) / count if count else None,
        "right_by_source_mean": fmean(map(fmean, settled.values())) if count else None,
    }


KEYS = ("pairs", "sources", "reach_percent", "inside", "settled", "right", "right_by_source_mean")


def text(found: Result) -> str:
    """A line a group."""
    head = ("pairs that are", "pairs", "sources", "reach %", "inside", "settled", "right", "mean of sources")
    return table(head, [[name, *(one[key] for key in KEYS)] for name, one in found.items()])


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    return run((__doc__ or "").splitlines()[0], ["RUNS..."], measure, text, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
