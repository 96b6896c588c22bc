"""Intervals of step times: they hold the next source as often as they say, each kind by its own runs."""

from __future__ import annotations

from math import log
from typing import Any

import numpy as np
import pytest

from benchmarks.ends import Pool
from benchmarks.intervals import known
from benchmarks.pairs import pair_scatters_of, pairs_of
from benchmarks.residuals import Residual, own_scatter_of, pools_of, scatters_of
from shardwise import Plan, Request, plan
from shardwise.costs.interval import ANY
from shardwise.costs.scatter import (
    KIND_WORDS,
    NEAR,
    StepKind,
    measured_cards,
    pair_scatter,
    scatters,
    step_scatter,
)


def source(
    name: str, chance: np.random.Generator, rows: int, scale: float = 0.06, lean: float = 0.0
) -> list[tuple[str, float]]:
    """A source that is off by a share of its own, its rows by another each; slow ones further by `lean`."""
    own = chance.normal(0.0, scale)
    off = own + lean * abs(own) + chance.normal(0.0, scale, rows)
    return [(name, size) for size in off.tolist()]


@pytest.mark.parametrize("lean", [0.0, 3.0])
def test_the_interval_of_twelve_sources_holds_rows_of_the_next(lean: float) -> None:
    """Of 400 times a row of a thirteenth source, 80 % lie inside, three standard errors allowed each way.

    Sources have 2 to 40 rows. The upper end allows for the one source that may lie beyond: 0.8 + 1 / 13.
    """
    chance, held, times = np.random.default_rng(0), 0, 400
    for _ in range(times):
        sizes = chance.integers(2, 41, 12).tolist()
        rows = [row for i, n in enumerate(sizes) for row in source(str(i), chance, n, lean=lean)]
        low, high = Pool.of(rows).drawn()
        held += low <= source("next", chance, 1, lean=lean)[0][1] <= high

    error = (0.8 * 0.2 / times) ** 0.5
    assert 0.8 - 3 * error < held / times < 0.8 + 1 / 13 + 3 * error


def test_sources_left_out_are_held_as_often_as_is_said_and_hardly_more() -> None:
    """The level is the least: at the one below, intervals drawn without a source hold less than 80 %."""
    chance = np.random.default_rng(1)
    pool = Pool.of([row for i in range(15) for row in source(str(i), chance, 10)])
    held = pool.held()
    chosen = int(np.flatnonzero(held >= 0.8)[0])

    assert held[chosen - 1] < 0.8 <= held[chosen]
    assert pool.drawn() == tuple(float(end[chosen]) for end in pool.ends(np.arange(100, 201) / 200.0))


def test_runs_that_lean_have_ends_that_lean() -> None:
    """Where sources are slower than told, the upper end is the farther; turned round, the lower."""
    chance = np.random.default_rng(2)
    rows = [row for i in range(20) for row in source(str(i), chance, 5, lean=4.0)]
    low, high = Pool.of(rows).drawn()
    turned = Pool.of([(name, -size) for name, size in rows]).drawn()

    assert high > -2 * low
    assert turned == (-high, -low)


def row(name: str, size: float, card: str = "A", limit: float = 0.5) -> Residual:
    """A row on a card whose predicted step is at a share of the physical limit."""
    return Residual(name, size, limit, "stack", card)


def test_a_run_is_of_a_kind_by_who_measured_its_card_and_how_near_its_limit_it_is() -> None:
    """Its own source does not make a card measured, nor does one that no fit knows."""
    cards = {"A": ["a", "b"], "B": ["a"]}

    assert row("a", 0.0).kind(cards) == "near"
    assert row("a", 0.0, limit=NEAR).kind(cards) == "near"
    assert row("a", 0.0, limit=NEAR - 1e-6).kind(cards) == "far"
    assert row("b", 0.0, card="B").kind(cards) == "near"
    for limit in (0.1, 0.5):
        assert row("a", 0.0, "B", limit).kind(cards) == row("a", 0.0, "C", limit).kind(cards) == "new-card"


def test_kinds_keep_their_own_width_and_few_sources_make_none() -> None:
    """Rows far from the limit scatter thrice as wide; new cards of two sources have the interval of all."""
    chance = np.random.default_rng(3)
    narrow = [row(*one) for i in range(12) for one in source(f"n{i}", chance, 20)]
    wide = [row(*one, limit=0.1) for i in range(12) for one in source(f"w{i}", chance, 20, 0.18)]
    few = [row(*one, card=f"B{i}") for i in range(2) for one in source(f"f{i}", chance, 20)]
    found = scatters_of(pools_of(narrow + wide + few))

    assert set(found) == {ANY, "near", "far"}
    assert found["far"].reach > 2 * found["near"].reach


def test_a_source_left_out_has_no_say_in_the_ends() -> None:
    """Whatever its rows are, those of the others give what they give without it."""
    chance = np.random.default_rng(4)
    others = [row(*one) for i in range(6) for one in source(str(i), chance, 8)]
    without = [
        scatters_of(pools_of([*others, row("x", 1.0), row("x", size)]), "x")["near"] for size in (-3.0, 0.4)
    ]
    alone = scatters_of(pools_of(others))["near"]

    assert without == [alone, alone]


def test_runs_of_a_source_are_off_by_its_scale() -> None:
    """Rows about their source's mean: what a source is off as a whole does not count.

    80 % of normal errors lie within 1.28 deviations, their mean size is 0.8: `times` is 1.6. Sources whose
    errors are of one size speak less than all together.
    """
    chance = np.random.default_rng(5)
    rows = [row(str(i), i + size) for i in range(30) for size in chance.normal(0.0, 0.1, 25).tolist()]
    found = own_scatter_of(rows)

    assert found.scale == pytest.approx(0.08, rel=0.1)
    assert found.times == pytest.approx(1.28 / 0.8, rel=0.1)
    assert found.alike > 25
    assert found.reach([]) == pytest.approx(found.times * found.scale)


def test_what_a_source_is_off_by_leaves_the_ratio_of_its_runs() -> None:
    """Sources off by e times and more, their runs by a tenth each: ratios are off by 1.28 sqrt(2) tenths.

    Rows of two cards are no pair of one card; a single run of a source is no pair at all.
    """
    chance = np.random.default_rng(6)
    sizes = [(i, size) for i in range(30) for size in chance.normal(0.0, 0.1, 12).tolist()]
    rows = [row(str(i), i + size) for i, size in sizes] + [row("alone", 0.0)]
    found = pair_scatters_of(rows)["alike"]["near"]
    other = pair_scatters_of([*rows, *(row(str(i), 2.0 * i, card="B") for i in range(5))])

    assert found.reach == pytest.approx(0.181, rel=0.1)
    assert (found.rows, found.sources) == (30 * 66, 30)
    assert other["alike"]["near"].rows == found.rows and other["apart"]["near"].rows == 5 * 12


def test_a_pair_is_of_the_kind_of_the_less_known_run() -> None:
    """One run far from the limit makes the pair far, one on a card that nobody else had makes it new."""
    shared = [row("b", 0.0), row("b", 0.0, limit=0.1)]
    found = pairs_of((each, 0.0) for each in [row("a", 0.0), row("a", 0.0, limit=0.1), *shared])
    new = pairs_of((each, 0.0) for each in [row("a", 0.0), row("a", 0.0, card="B"), *shared])

    assert {key: len(pairs) for key, pairs in found.items()} == {("alike", "far"): 2, ("alike", ANY): 2}
    assert len(new["apart", "new-card"]) == len(new["apart", ANY]) == 1


def test_a_pair_is_right_where_the_run_predicted_to_be_faster_was() -> None:
    """The faster by prediction comes first, whichever row it is; an error beyond the lead turns the pair."""
    rows = [(row("a", 0.0), 2.0), (row("a", 0.3), 1.8), (row("a", 0.0), 3.0)]
    found = pairs_of(rows)["alike", "new-card"]
    leads = {round(pair.lead, 9): (round(pair.off, 9), pair.right) for pair in found}

    assert leads == {0.2: (-0.3, False), 1.0: (0.0, True), 1.2: (-0.3, True)}


def test_ratios_are_known_better_than_steps_and_best_on_one_software_and_card() -> None:
    """Of every kind; of two softwares or cards less well."""
    for kind in KIND_WORDS:
        alike, apart = pair_scatter(True, kind), pair_scatter(False, kind)
        assert alike.reach < apart.reach < 2 * step_scatter(kind).reach


def test_what_is_kept_without_a_source_rests_on_the_others() -> None:
    """Each source of the file lacks its own rows of all runs, and all its own together are all runs."""
    every = scatters()[ANY]
    own = {name: every.rows - kinds[ANY]["rows"] for name, kinds in known()["sources"].items()}

    assert all(kinds[ANY]["sources"] == every.sources - 1 for kinds in known()["sources"].values())
    assert len(own) == every.sources and sum(own.values()) == every.rows


def test_intervals_hold_the_prediction_and_are_wider_where_less_is_known() -> None:
    """Narrow near the limit, wider far from it, widest on cards that no other source of the fit had."""
    reaches = []
    for kind in ("near", "far", "new-card"):
        found = step_scatter(kind)
        assert found.low < 1.0 < found.high
        assert found.reach == pytest.approx(log(found.high / found.low) / 2.0)
        assert "left out of the fit" in found.told
        reaches.append(found.reach)

    assert "L4" not in measured_cards() and "H100-SXM-80GB" in measured_cards()
    assert reaches == sorted(reaches) and reaches[1] > 1.5 * reaches[0]


@pytest.mark.parametrize(
    ("cards", "batch", "kind"),
    [
        ({"preset": "dgx-h100"}, 128, "near"),
        ({"preset": "dgx-h100", "nodes": 8}, 64, "far"),
        ({"gpu": "L4", "gpus_per_node": 8}, 64, "new-card"),
    ],
)
def test_a_plan_tells_by_which_runs_its_step_is_known(
    cards: dict[str, Any], batch: int, kind: StepKind
) -> None:
    """The interval is that of its kind, whose name and number of runs stand beside it."""
    asked = {
        "model": "llama-3.2-1b",
        "cluster": cards,
        "training": {"global_batch_size": batch, "sequence_length": 2048},
    }
    found = plan(Request.model_validate(asked))
    assert isinstance(found, Plan)
    told, known = found.time, step_scatter(kind)

    assert (told.limit_fraction >= NEAR) is (kind == "near") or kind == "new-card"
    assert told.uncertainty.basis == f"{known.told}, {KIND_WORDS[kind]}"
    assert told.uncertainty.high_seconds == pytest.approx(told.step_seconds * known.high, rel=1e-6)
