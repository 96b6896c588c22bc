"""`--help` answers at once: it loads none of the heavy rooms."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from shardwise.cli.app import COMMANDS

HEAVY = ("ortools", "pandas", "networkx", "pydantic", "numpy", "rich")

PROBE = """
import sys
from shardwise.cli import main
code = main(sys.argv[1:])
print("loaded:", *sorted({name.partition(".")[0] for name in sys.modules}))
sys.exit(code)
"""


LEFT = """
import gc, os, sys
from shardwise.cli import main
code = main()
print("left:", gc.get_freeze_count(), os.environ["OPENBLAS_NUM_THREADS"])
sys.exit(code)
"""


def loaded(*words: str) -> set[str]:
    """Top-level modules in memory after a command line."""
    done = subprocess.run([sys.executable, "-c", PROBE, *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.rpartition("loaded:")[2].split())


@pytest.mark.parametrize("word", ["--help", "--version"])
def test_help_loads_nothing_heavy(word: str) -> None:
    """Help and version import neither the solver nor pydantic, numpy, networkx or rich."""
    assert not loaded(word) & set(HEAVY)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_of_a_command_loads_no_room(name: str) -> None:
    """The help of a command imports none of our rooms; only typer itself takes pydantic to read options."""
    assert not loaded(name, "--help") & (set(HEAVY) - {"pydantic"})


def test_lists_load_no_solver() -> None:
    """Catalogue commands never load ortools."""
    assert not loaded("list", "models") & {"ortools", "pandas", "networkx"}


QUESTION = """
import sys
from shardwise import Cluster, Request, Training
from shardwise.solver import Planner
from shardwise.solver.engine import cp_model
cp_model()
request = Request(model="llama-2-7b", cluster=Cluster.preset("dgx-h100"),
    training=Training(global_batch_size=64, sequence_length=4096))
before = set(sys.modules)
Planner(request.cluster).plan(request)
print(*sorted(set(sys.modules) - before))
"""


def test_a_question_loads_no_more_modules() -> None:
    """Who has imported the planner and OR-Tools waits for no further import: not for masked arrays either."""
    done = subprocess.run([sys.executable, "-c", QUESTION], capture_output=True, text=True, timeout=120)

    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


def test_a_process_of_our_own_ends_at_once() -> None:
    """After the command nothing is searched for cycles again, and no threads were started for numpy."""
    done = subprocess.run([sys.executable, "-c", LEFT, "--help"], capture_output=True, text=True, timeout=60)

    assert done.returncode == 0, done.stderr
    frozen, threads = done.stdout.rpartition("left:")[2].split()
    assert int(frozen) > 1000
    assert threads == "1"


LOADED = """
import dataclasses, gc, json, os, sys
from shardwise.cli import main
main()
from pydantic import BaseModel
from shardwise.inputs import record
ours = {name: module for name, module in sys.modules.items() if name.startswith("shardwise.")}
classes = {k for m in ours.values() for k in vars(m).values() if isinstance(k, type)}
own = [k for k in classes if k.__module__ in ours]
print("loaded:", json.dumps({
    "modules": len(sys.modules),
    "ours": len(ours),
    "models": sum(issubclass(k, BaseModel) for k in own),
    "compiled": [k.__name__ for k in own if dataclasses.is_dataclass(k) and k.__eq__ is not record._eq],
    "names": sorted(sys.modules),
}))
"""

JOB = ("--cluster", "dgx-h100", "--nodes", "1", "--global-batch-size", "64", "--sequence-length", "2048")


def test_a_plan_loads_what_it_needs() -> None:
    """The cold start of `plan` is the modules and models it loads: of others no more than now, of ours a few.

    Readers of topologies, schemas and scripts of launch files, answers of other questions, the
    search of pools, free cards and cures, readers of e-mail for plugins: none has a part in this question. No
    data class compiles its methods as it is made.
    """
    words = [sys.executable, "-c", LOADED, "plan", "qwen2.5-0.5b", *JOB, "--json", "-q"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.rpartition("loaded:")[2])
    assert found["modules"] - found["ours"] <= 330
    assert found["ours"] <= 260
    assert found["models"] <= 95
    assert not found["compiled"]
    needless = (
        *("html", "email", "importlib.metadata", "importlib.resources", "networkx", "pandas"),
        *("shardwise.hardware.topology.recognise", "shardwise.launch.command", "shardwise.plans.row"),
        *("shardwise.launch.deepspeed.schema", "shardwise.plans.check", "shardwise.plans.message"),
        *("shardwise.solver.pools", "shardwise.solver.fragments", "shardwise.solver.clash"),
    )
    assert [name for name in needless if name in found["names"]] == []


COUNTED = "import sys; from shardwise.cli import main; main(['--help']); print('loaded:', len(sys.modules))"


def test_help_loads_few_modules() -> None:
    """The command line and typer, and of other rooms what makes data classes."""
    done = subprocess.run([sys.executable, "-c", COUNTED], capture_output=True, text=True, timeout=60)

    assert done.returncode == 0, done.stderr
    assert int(done.stdout.rpartition("loaded:")[2]) <= 190
