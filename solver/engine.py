"""OR-Tools, loaded when first needed and set up the one way it is used here."""

from __future__ import annotations

from functools import cache
from typing import Any

SEED = 0


@cache
def cp_model() -> Any:
    """The `cp_model` module."""
    from ortools.sat.python import cp_model as module

    return module


def new_solver(time_limit: float | None) -> Any:
    """A deterministic solver: one worker, no presolve or probing, a fixed seed.

    `time_limit` counts deterministic seconds, never wall time.
    """
    solver = cp_model().CpSolver()
    parameters = solver.parameters
    parameters.num_workers = 1
    parameters.cp_model_presolve = False
    parameters.cp_model_probing_level = 0
    parameters.random_seed = SEED
    if time_limit is not None:
        parameters.max_deterministic_time = max(time_limit, 1e-6)
    return solver


@cache
def solver_version() -> str:
    """The version of OR-Tools."""
    from importlib.metadata import version

    return version("ortools")
