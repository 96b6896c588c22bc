"""The grid that Calculon enumerates: counted as its loops count, and solved."""

from __future__ import annotations

from itertools import product

import pytest

from benchmarks.calculon import CASES, degrees, executions, measure
from shardwise.inputs import InputError


def counted(cards: int, batch: int) -> int:
    """The grid loop by loop, as its source nests them, one execution at a time."""
    found = 0
    for tensor, pipeline, data in degrees(cards):
        if data > batch:
            continue
        share = batch // data
        chunks = [v for v in range(1, 97) if 96 // pipeline % v == 0 and (pipeline > 1 or v == 1)]
        sizes = [m for m in range(1, share + 1) if share % m == 0 and m * 2048 % tensor == 0]
        for again, sharded, collective in product("fpn", (0, 1), ("ar", "p2p", "rs")):
            if sharded and data == 1:
                continue
            redo = (0, 1) if collective == "rs" and again != "f" else (0,)
            hidden = product((0, 1) if data > 1 else (0,), (0, 1, 2) if tensor > 1 else (0,))
            places = product((0, 1), (0,) if again == "f" else (0, 1), (0, 1))
            networks = [range(2) if degree > 1 else range(1) for degree in (tensor, pipeline, data)]
            found += sum(1 for _ in product(chunks, sizes, redo, hidden, places, *networks))
    return found


@pytest.mark.parametrize(("cards", "batch"), [(1, 4), (8, 12), (12, 6), (16, 24)])
def test_the_closed_form_counts_the_loops(cards: int, batch: int) -> None:
    """Small grids, each execution counted by itself."""
    assert executions(cards, batch) == counted(cards, batch) > 0


def test_the_grids_are_those_of_the_paper_sized_runs() -> None:
    """3.2, 13.2 and 7.1 million executions."""
    assert [executions(*case) for case in CASES.items()] == [3_232_128, 13_165_632, 7_126_368]


def test_each_is_proved_within_ten_cpu_seconds() -> None:
    """Optimal, with both counts."""
    for case in measure([])["cases"]:
        assert (case["status"], case["executions"]) == ("optimal", executions(case["cards"], case["batch"]))
        assert case["cpu_seconds"] < 10 and 1_000 < case["rows"] < case["executions"]


def test_an_unknown_case_is_bad_input() -> None:
    """Named with the nearest ones."""
    with pytest.raises(InputError, match="4096"):
        measure(["4095"])
