"""OR-Tools is loaded without pandas, and neither is spoiled by that."""

from __future__ import annotations

import subprocess
import sys

SOLVE = """
from shardwise.solver.engine import cp_model, new_solver
api = cp_model()
model = api.CpModel()
x = model.new_int_var(0, 9, "x")
model.add(3 * x <= 20)
model.maximize(x)
solver = new_solver(None)
assert solver.solve(model) == api.OPTIMAL and solver.value(x) == 6
"""


def run(code: str) -> str:
    """What a fresh Python prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_model_is_solved_without_pandas() -> None:
    """Neither pandas nor its placeholder is left behind."""
    assert run(SOLVE + "import sys; print('pandas' in sys.modules)") == "False"


def test_pandas_can_be_used_afterwards() -> None:
    """It is the real one, and the solver still works with plain numbers."""
    after = "import pandas; print(int(pandas.Series([1, 2, 3]).sum()))"
    assert run(SOLVE + after + SOLVE) == "6"


def test_pandas_that_is_loaded_stays() -> None:
    """Nothing is replaced where somebody uses pandas already; OR-Tools then knows its series."""
    code = "import pandas; mine = pandas\n" + SOLVE
    code += "import sys; assert sys.modules['pandas'] is mine\n"
    code += "names = pandas.Index(['a', 'b']); print(len(model.new_int_var_series('y', names, 0, 1)))"
    assert run(code) == "2"


def test_ortools_that_needs_more_of_pandas_gets_it() -> None:
    """Where it does not load beside the placeholder it is loaded with pandas."""
    code = (
        "import sys, types\n"
        "import shardwise.solver.engine as engine\n"
        "class Bare(types.ModuleType):\n"
        "    def __init__(self, name): super().__init__(name)\n"
        "    def __setattr__(self, name, value):\n"
        "        if name[0] != '_': return\n"
        "        super().__setattr__(name, value)\n"
        "engine.ModuleType = Bare\n" + SOLVE + "print('pandas' in sys.modules)"
    )
    assert run(code) == "True"
