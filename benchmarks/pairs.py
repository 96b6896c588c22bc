"""How far the ratio of two runs of one source lies from the predicted one: what a comparison rests on.

What a source does its own way (its network, its clocks, its code) stands in both of its runs and leaves
their ratio. *Alike* are pairs of one software on one card, *apart* those where either differs; both runs are
of one kind. Each reach is drawn as ends of intervals are (`ends`): the least at which 80 % of pairs of
sources left out lie inside.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import combinations

from shardwise.costs.interval import ANY, LEAST_SOURCES
from shardwise.costs.scatter import PairScatter

from .ends import Pool
from .residuals import Residual, sources_by

ALIKE, APART = "alike", "apart"


def pair_scatters_of(rows: Iterable[Residual]) -> dict[str, dict[str, PairScatter]]:
    """By `ALIKE` or `APART`, then by kind of run; kinds of few sources are left to all.

    >>> rows = [Residual(s, 0.1 * i, False, True, "", "T4") for s in "abcd" for i in range(3)]
    >>> found = pair_scatters_of(rows)["alike"]["any"]
    >>> found.reach, found.rows, found.sources
    (0.2, 12, 4)
    """
    rows = list(rows)
    cards = sources_by(rows, lambda row: row.gpu)
    by_source: dict[str, list[Residual]] = defaultdict(list)
    for row in rows:
        by_source[row.source].append(row)
    sizes: dict[tuple[str, str], list[tuple[str, float]]] = defaultdict(list)
    for source, mine in sorted(by_source.items()):
        for one, other in combinations(mine, 2):
            which, kind = ALIKE if one.ran == other.ran else APART, one.kind(cards)
            for name in (kind, ANY) if kind == other.kind(cards) else (ANY,):
                sizes[which, name].append((source, abs(one.log - other.log)))
    found: dict[str, dict[str, PairScatter]] = {ALIKE: {}, APART: {}}
    for (which, name), pairs in sorted(sizes.items()):
        pool = Pool.of(pairs)
        if name == ANY or len(pool.names) >= LEAST_SOURCES:
            found[which][name] = _scatter(pool)
    return found


def _scatter(pool: Pool) -> PairScatter:
    return PairScatter(reach=round(pool.drawn()[1], 4), rows=len(pool.logs), sources=len(pool.names))
