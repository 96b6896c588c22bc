"""OR-Tools, loaded when first needed and set up the one way it is used here."""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from threading import Lock
from types import ModuleType
from typing import Any

SEED = 0

_loading = Lock()


@cache
def cp_model() -> Any:
    """The `cp_model` module.

    It imports pandas only to accept its series where this package hands over none; pandas is two thirds of
    its load. So a placeholder stands in for pandas while it loads, unless pandas is loaded already or
    OR-Tools does not load with it.
    """
    with _loading:
        return _without_pandas("ortools.sat.python.cp_model")


def _without_pandas(name: str) -> Any:
    """The module `name`, loaded beside a placeholder of pandas, which is taken away again."""
    if name in sys.modules or "pandas" in sys.modules:
        return import_module(name)
    before = set(sys.modules)
    stand_in: Any = ModuleType("pandas")
    stand_in.Index, stand_in.Series, stand_in.DataFrame = (
        type(n, (), {}) for n in ("Index", "Series", "DataFrame")
    )
    sys.modules["pandas"] = stand_in
    try:
        return import_module(name)
    except Exception:
        for loaded in set(sys.modules) - before:
            if loaded.startswith(("ortools", "pandas")):
                del sys.modules[loaded]
    finally:
        if sys.modules.get("pandas") is stand_in:
            del sys.modules["pandas"]
    return import_module(name)


def new_model() -> Any:
    """An empty model."""
    return cp_model().CpModel()


def new_solver(time_limit: float | None) -> Any:
    """A deterministic solver: one worker, no presolve or probing, a fixed seed.

    `time_limit` counts deterministic seconds, never wall time. Ctrl-C stays with Python: a handler of the
    solver's own would kill the process ever after.
    """
    solver = cp_model().CpSolver()
    parameters = solver.parameters
    parameters.num_workers = 1
    parameters.cp_model_presolve = False
    parameters.cp_model_probing_level = 0
    parameters.random_seed = SEED
    parameters.catch_sigint_signal = False
    if time_limit is not None:
        parameters.max_deterministic_time = max(time_limit, 1e-6)
    return solver


@cache
def solver_version() -> str:
    """The version of OR-Tools."""
    return str(import_module("ortools").__version__)
