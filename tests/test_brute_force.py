"""The search against an exhaustive one: 500 random small requests, and what their optima covered."""

from __future__ import annotations

import ast
import doctest
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import oracle
import pytest
from oracle.brute import Answer, brute, faults
from oracle.coverage import Coverage
from oracle.requests import request
from oracle.ways import JOBS, trained

from shardwise.models import Strategy
from shardwise.plans import Request
from shardwise.solver.outcome import Outcome
from shardwise.solver.search import Search

pytestmark = pytest.mark.slow

REQUESTS = 500
BLOCK = 25


class Compared(NamedTuple):
    """One request, the plan the search found, what the exhaustive search tried, and where they differ."""

    seed: int
    request: Request
    strategy: Strategy | None
    answer: Answer
    differences: list[str]


def differences(asked: Request, outcome: Outcome, answer: Answer) -> list[str]:
    """What a search got wrong, in words."""
    found, tally = outcome.best, outcome.tally
    step = found.step_ns if found else None
    wrong = []
    if step != answer.step_ns:
        wrong.append(f"step {step}, exhaustive {answer.step_ns} by {answer.best}")
    if not outcome.proved or outcome.bound_ns != step:
        wrong.append(f"proved {outcome.proved} with bound {outcome.bound_ns}")
    if tally.rows - tally.rule != len(answer.rows):
        wrong.append(f"{tally.rows - tally.rule} rows kept by rules, exhaustive {len(answer.rows)}")
    if sum(tally.excluded().values()) + (found is not None) != tally.rows:
        wrong.append(f"excluded {tally.excluded()} of {tally.rows} rows")
    return wrong + (faults(asked, found.strategy, found.step_ns) if found else [])


@cache
def compared(block: int) -> tuple[Compared, ...]:
    """The requests of one block, asked both ways."""
    done = []
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        asked = request(seed)
        outcome, answer = Search(asked).run(), brute(asked)
        strategy = outcome.best.strategy if outcome.best else None
        done.append(Compared(seed, asked, strategy, answer, differences(asked, outcome, answer)))
    return tuple(done)


@pytest.mark.parametrize("block", range(REQUESTS // BLOCK))
def test_search_equals_an_exhaustive_one(block: int) -> None:
    """Feasibility, step and number of legal rows are equal; the plan is legal and takes that step.

    The exhaustive search prices the plan's row alone; which of several equal plans is returned is free.
    """
    wrong = {f"seed {one.seed}": one.differences for one in compared(block) if one.differences}
    assert wrong == {}


WAYS = 4 * len(JOBS)
"""Requests of other ways of training: four of each."""


@pytest.mark.parametrize("start", range(0, WAYS, len(JOBS)))
def test_the_search_equals_an_exhaustive_one_in_every_way_of_training(start: int) -> None:
    """Adapters, 4-bit bases, frozen parts, no master copy, reference models, documents, mean lengths."""
    wrong, feasible = {}, 0
    for seed in range(start, start + len(JOBS)):
        asked = trained(seed)
        outcome, answer = Search(asked).run(), brute(asked)
        feasible += outcome.best is not None
        if found := differences(asked, outcome, answer):
            wrong[f"seed {seed}"] = found
    assert wrong == {}
    assert feasible >= len(JOBS) // 4


def imported(path: Path) -> set[str]:
    """Modules that a file imports by name."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    found = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    return found | {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}


def test_the_oracle_stands_alone() -> None:
    """It imports nothing of the solver, nor numpy; of the ledger, in one module, what holds coefficients."""
    files = sorted(Path(oracle.__path__[0]).glob("*.py"))
    uses = {path.stem: imported(path) for path in files}
    assert len(files) >= 9
    assert not any(
        name.startswith(("shardwise.solver", "numpy", "ortools")) for part in uses.values() for name in part
    )
    priced = {
        stem: name for stem, part in uses.items() for name in part if name.startswith("shardwise.costs")
    }
    assert set(priced) == {"prices"}


@pytest.mark.parametrize("name", sorted(path.stem for path in Path(oracle.__path__[0]).glob("*.py")))
def test_examples_of_the_oracle(name: str) -> None:
    """The examples in its docstrings hold."""
    assert doctest.testmod(import_module("oracle" if name == "__init__" else f"oracle.{name}")).failed == 0


def test_the_requests_cover_the_space(capsys: pytest.CaptureFixture[str]) -> None:
    """A quarter is infeasible, a quarter has uneven stages, each value of each knob is optimal ten times."""
    coverage = Coverage()
    for block in range(REQUESTS // BLOCK):
        for one in compared(block):
            coverage.add(one.request, one.strategy, one.answer.tried)
    with capsys.disabled():
        print(f"\n{coverage.line()}")

    assert coverage.requests == REQUESTS
    assert coverage.infeasible >= REQUESTS / 4
    assert coverage.uneven >= REQUESTS / 4
    assert coverage.rare == {}
