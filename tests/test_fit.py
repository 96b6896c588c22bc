"""The fit of constants: bounded least squares by brute force, what the priors bound, halves of a source."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import across, halves
from benchmarks.fit import priors, unknowns
from benchmarks.trial import constant
from shardwise.calibration.fit import Array, Fit, Unknown, bounded
from shardwise.inputs import InputError
from shardwise.models.stack import stack_names

RUNS = Path(__file__).parents[1] / "benchmarks" / "data" / "published_runs.csv"
SIDES = st.floats(-3.0, 3.0, allow_nan=False)


def brute(left: Array, right: Array, low: Array, high: Array) -> float:
    """The least squared residual inside the box: every choice of free, low and high, where legal."""
    least = np.inf
    for choice in product("flh", repeat=len(low)):
        free = np.array([word == "f" for word in choice])
        found = np.where(np.array(choice) == "l", low, high)
        found[free] = np.linalg.lstsq(left[:, free], right - left[:, ~free] @ found[~free], rcond=None)[0]
        if np.all(found >= low - 1e-9) and np.all(found <= high + 1e-9):
            least = min(least, float(np.sum((left @ found - right) ** 2)))
    return least


@settings(deadline=None, max_examples=60)
@given(
    entries=st.lists(SIDES, min_size=15, max_size=15),
    right=st.lists(SIDES, min_size=5, max_size=5),
    edges=st.lists(st.tuples(SIDES, SIDES), min_size=3, max_size=3),
)
def test_bounded_least_squares_is_the_best_of_the_box(
    entries: list[float], right: list[float], edges: list[tuple[float, float]]
) -> None:
    """No point of the box fits better: all choices of what is held at which end are tried."""
    left = np.vstack([np.array(entries).reshape(5, 3), np.eye(3)])
    aim = np.concatenate([np.array(right), np.zeros(3)])
    low, high = (np.array([pick(pair) for pair in edges]) for pick in (min, max))
    found = bounded(left, aim, low, high)

    assert np.all(found >= low) and np.all(found <= high)
    assert float(np.sum((left @ found - aim) ** 2)) == pytest.approx(brute(left, aim, low, high), abs=1e-6)


@dataclass(frozen=True)
class Straight:
    """Runs whose seconds are those of one constant, all measured half again as long as it says."""

    @property
    def measured(self) -> Array:
        """Seconds a step."""
        return np.full(3, 1.5)

    @property
    def weights(self) -> Array:
        """All alike."""
        return np.full(3, 100.0)

    def seconds(self, changes: dict[str, float]) -> Array:
        """The constant itself."""
        return np.full(3, changes["stacks/one/gemm_factor"])

    def moved_by(self, unknown: Unknown) -> npt.NDArray[np.bool_]:
        """All of them."""
        return np.full(3, True)

    def start(self, unknown: Unknown) -> float:
        """As it was held likely."""
        return 1.0


def test_a_fit_drawn_closer_stays_nearer_to_what_was_held_likely() -> None:
    """Of a constant that all runs want at 1.5 a tighter spread leaves less, and none at all in the limit."""
    unknown = Unknown(("stacks/one/gemm_factor",), ("one", 0), 0.2, 1.0, 0.2)
    start = Fit.start(Straight(), [unknown])
    found = [float(start.drawn(share).solved()[0]) for share in (1.0, 0.5, 0.25, 1e-6)]

    assert found[0] == float(start.solved()[0])
    assert np.log(1.5) > found[0] > found[1] > found[2] > found[3] == pytest.approx(0.0, abs=1e-6)


def test_the_catalogue_lies_inside_the_bounds_of_the_priors() -> None:
    """Every fitted constant is within the least and the most that are held possible."""
    for unknown in unknowns(stack_names()):
        for path in unknown.paths:
            if constant(path) > 0.0:
                assert unknown.least <= constant(path) <= unknown.most, path


def test_priors_bound_what_software_cannot_do() -> None:
    """Products of a stack take at least what they take in isolation, those of a card near that or more."""
    data = priors()
    assert all(kin["least"] >= 1.0 for kin in data["stacks"]["gemm_factor"]["kin"])
    assert all(card["least"] >= 0.87 for card in data["cards"])


@pytest.mark.tree
def test_half_of_a_source_teaches_the_other(tmp_path: Path) -> None:
    """Every second row of two sources brings the others to 5 % in the median, whichever half teaches."""
    taught = {"megatron_sc21", "zero_bubble"}
    with RUNS.open(encoding="utf-8", newline="") as file, (tmp_path / "two.csv").open("w") as two:
        rows = csv.DictReader(file)
        kept = csv.DictWriter(two, list(rows.fieldnames or ()))
        kept.writeheader()
        kept.writerows(row for row in rows if row["source"] in taught)
    found = halves.measure([str(tmp_path / "two.csv"), *sorted(taught)])

    assert found["within_five_percent"] == found["sources"] == 2
    assert {line["source"] for line in found["lines"]} == taught
    with pytest.raises(InputError):
        halves.measure([str(tmp_path / "two.csv"), "nobody"])


@pytest.mark.tree
def test_tensor_parallel_across_machines_is_the_disaster_it_was() -> None:
    """Each published row within 20 %, and most of its step is tensor-parallel traffic."""
    found = across.measure([str(RUNS)])

    assert len(found["lines"]) >= 4
    for line in found["lines"]:
        assert abs(line["error"]) <= 20.0, line["id"]
        assert line["tensor_percent"] > 50.0 and line["tensor_parallel"] > line["cards_a_machine"]
