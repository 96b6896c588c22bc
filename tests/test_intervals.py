"""Intervals of step times: they hold the next source as often as they say, and few runs are not overheard."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.intervals import Residual, known, scatters_of
from shardwise.costs.interval import ANY
from shardwise.costs.scatter import ALIKE, drawn, scatters, step_scatter


def source(
    name: str, chance: np.random.Generator, rows: int, kind: str = "dense", scale: float = 0.06
) -> list[Residual]:
    """A source that is off by a share of its own, its rows by another each."""
    own = chance.normal(0.0, scale)
    off = np.abs(own + chance.normal(0.0, scale, rows)).tolist()
    return [Residual(name, kind, size, "", True) for size in off]


def test_the_interval_of_twelve_sources_holds_rows_of_the_next() -> None:
    """Of 400 times a row of a thirteenth source, 80 % lie inside, three standard errors allowed each way.

    Sources have 2 to 40 rows. The upper end allows for the one source that may lie beyond: 0.8 + 1 / 13.
    """
    chance, held, times = np.random.default_rng(0), 0, 400
    for _ in range(times):
        rows = [row for i in range(12) for row in source(str(i), chance, int(chance.integers(2, 41)))]
        held += source("next", chance, 1)[0].size <= scatters_of(rows)["dense"].reach

    error = (0.8 * 0.2 / times) ** 0.5
    assert 0.8 - 3 * error < held / times < 0.8 + 1 / 13 + 3 * error


def test_kinds_keep_their_own_width() -> None:
    """Runs that scatter three times as wide have an interval twice as wide or more; both hold 75 %."""
    chance = np.random.default_rng(1)
    narrow = [row for i in range(12) for row in source(f"n{i}", chance, 20)]
    wide = [row for i in range(12) for row in source(f"w{i}", chance, 20, "moe", 0.18)]
    found = scatters_of(narrow + wide)

    assert found["moe"].reach > 2 * found["dense"].reach
    for kind, rows in (("dense", narrow), ("moe", wide)):
        assert np.mean([row.size <= found[kind].reach for row in rows]) >= 0.75


def test_one_source_of_a_kind_is_drawn_to_all_runs() -> None:
    """Its mean counts as one among `ALIKE` of the size that all runs have."""
    dense = [Residual(name, "dense", 0.1, "", True) for name in "abcdefghi"]
    found = scatters_of([*dense, Residual("j", "moe", 0.5, "", True)])
    every = (9 * 0.1 + 0.5) / 10

    assert found[ANY].scale == pytest.approx(every, abs=1e-4)
    assert found["moe"].scale == pytest.approx((0.5 + ALIKE * every) / (1 + ALIKE), abs=1e-4)
    assert drawn([], every) == pytest.approx(every)


def test_a_source_has_no_say_in_its_own_interval() -> None:
    """What is kept of each source of the fit rests on the rows of the others alone."""
    every = scatters()[ANY]
    own = {name: every.rows - kinds[ANY]["rows"] for name, kinds in known()["sources"].items()}

    assert all(kinds[ANY]["sources"] == every.sources - 1 for kinds in known()["sources"].values())
    assert len(own) == every.sources and sum(own.values()) == every.rows


def test_intervals_hold_the_prediction_and_are_wider_where_runs_scatter_more() -> None:
    """Dense runs and runs with experts in the catalogue."""
    dense, routed = step_scatter(routed=False), step_scatter(routed=True)

    assert dense.low < 1.0 < dense.high
    assert routed.reach > dense.reach
    assert "left out of the fit" in dense.told
