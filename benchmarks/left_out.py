"""Runs priced by what the other sources taught: each source under the constants fitted without it.

``data/left_out.json`` holds those constants (``scripts/step_constants.py`` writes it). A source it does not
name was in no fit, so the catalogue itself is left-out for it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from shardwise.runs.priced import Run, price_jobs

from .trial import in_force

FILE = Path(__file__).parent / "data" / "left_out.json"


@cache
def constants_without() -> dict[str, dict[str, float]]:
    """By source: the constants that differ from the catalogue's when it is left out."""
    found: dict[str, dict[str, float]] = json.loads(FILE.read_text(encoding="utf-8"))["sources"]
    return found


def price_left_out(runs: Sequence[Run]) -> list[Run]:
    """The same runs in order, each priced without its own source."""
    found: dict[int, Run] = {}
    for source in dict.fromkeys(run.job.record.text("source") for run in runs):
        mine = [index for index, run in enumerate(runs) if run.job.record.text("source") == source]
        with in_force(constants_without().get(source, {})):
            priced = price_jobs([runs[index].job for index in mine])
        found.update(zip(mine, priced, strict=True))
    return [found[index] for index in range(len(runs))]
