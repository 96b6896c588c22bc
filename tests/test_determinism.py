"""Same request, same bytes: in fresh processes with other hash seeds, and with rows in another order."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from shuffled import MODELS, Shuffled, asked

from shardwise.solver.search import Search

SCRIPT = Path(__file__).with_name("shuffled.py")


def answers(seed: int) -> str:
    """The whole answers of a fresh process with this hash seed and this order of rows, one a line."""
    environment = os.environ | {"PYTHONHASHSEED": str(seed)}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(seed)],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_twenty_fresh_processes_print_the_same_bytes() -> None:
    """Each hashes otherwise and lists its rows otherwise: plan, proof, alternatives, offers are equal."""
    first = answers(0)
    assert len(first.splitlines()) == len(MODELS)
    assert all('"proof"' in line and '"alternatives"' in line for line in first.splitlines())
    assert all(answers(seed) == first for seed in range(1, 20))


@pytest.mark.parametrize("model", ["llama-3.1-8b", "mixtral-8x7b", "deepseek-v2-lite"])
def test_the_order_of_shapes_does_not_show(model: str) -> None:
    """Plan, bound and certificate are the same in whatever order the rows lie."""
    one = asked(model, 4)
    plain, mixed = Search(one).run(), Search(one, tables=Shuffled(5)).run()

    assert plain.best is not None and plain == mixed
