"""Ctrl-C: no traceback at any moment; a search under way shows its best plan with a gap that holds."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from time import sleep

import pytest

from shardwise.cli import interrupts
from shardwise.cli.progress import state
from shardwise.hardware import Cluster
from shardwise.models import Training
from shardwise.plans import Request
from shardwise.plans.saved import plan_from
from shardwise.solver.engine import cp_model, new_solver
from shardwise.solver.judge import judge
from shardwise.solver.search import Search
from shardwise.solver.watch import Watch, stopped, watched

PROGRAM = """
import signal, sys, shardwise.cli as cli
signal.signal(signal.SIGINT, signal.default_int_handler)
run = cli._run
def ready(words):
    print(">", flush=True, file=sys.stderr)
    return run(words)
cli._run = ready
sys.exit(cli.main())
"""
"""The command line in a process that says when it is there, and hears Ctrl-C though its parent may not."""

ASK = (
    *("plan", "gpt3-175b", "--cluster", "dgx-a100-80gb", "--nodes", "16"),
    *("--global-batch-size", "1536", "--sequence-length", "2048", "--json"),
)
STEPS = """
import sys, signal, os
from shardwise.solver import search
from shardwise.cli import main
after = int(sys.argv.pop(1))
opened, count = search.Search._opened, 0
def one(self, *given):
    global count
    count += 1
    if count == after:
        os.kill(os.getpid(), signal.SIGINT)
    return opened(self, *given)
search.Search._opened = one
sys.exit(main())
"""
"""The command line in a process that gets Ctrl-C as it opens rows for the n-th time."""


def asked() -> Request:
    """The question of `ASK`."""
    training = Training(global_batch_size=1536, sequence_length=2048)
    return Request(model="gpt3-175b", cluster=Cluster.preset("dgx-a100-80gb", nodes=16), training=training)


@pytest.mark.parametrize("milliseconds", [0, 10, 30, 50, 100, 200, 400])
def test_no_traceback_while_modules_load(milliseconds: int) -> None:
    """From the start of the command on, whatever is being imported."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *ASK], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None and process.stderr.readline() == ">\n"
    sleep(milliseconds / 1000)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert (process.returncode, told) == (130, "interrupted\n")


def test_an_interrupt_within_a_class_being_made() -> None:
    """Python wraps it in an error of its own; it is still Ctrl-C."""

    class Named:
        def __set_name__(self, owner: type, name: str) -> None:
            raise KeyboardInterrupt

    with pytest.raises(BaseException) as caught:
        type("Owner", (), {"named": Named()})
    assert interrupts(caught.value)
    assert not interrupts(ValueError("no"))


@pytest.mark.parametrize("after", [2, 3])
def test_the_best_so_far_is_shown(after: int) -> None:
    """A real plan on standard output, its bound no more than the optimum; exit 130."""
    ran = subprocess.run([sys.executable, "-c", STEPS, str(after), *ASK], capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (130, "interrupted\n")
    shown = plan_from(json.loads(ran.stdout), "answer")
    best = Search(asked()).run().best
    assert best is not None and shown.status == "feasible"
    judge(asked(), shown.strategy, round(shown.time.step_seconds * 1e9))
    assert round(shown.proof.bound_seconds * 1e9) <= best.step_ns <= round(shown.time.step_seconds * 1e9)
    gap = 1.0 - shown.proof.bound_seconds / shown.time.step_seconds
    assert shown.proof.gap == pytest.approx(gap, abs=1e-6) and gap > 0


def test_interrupted_before_any_plan() -> None:
    """Exit 130, and the object says that nothing is known."""
    ran = subprocess.run([sys.executable, "-c", STEPS, "1", *ASK], capture_output=True, text=True)
    assert ran.returncode == 130
    assert json.loads(ran.stdout)["status"] in ("unknown", "feasible")


@pytest.fixture
def restored() -> Iterator[None]:
    """Leaves the handler of Ctrl-C as it was."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


def test_cp_sat_leaves_ctrl_c_to_python(restored: None) -> None:
    """After a solve the handler in force is the one from before."""
    seen: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    model = cp_model().CpModel()
    model.maximize(model.new_bool_var("x"))
    new_solver(None).solve(model)
    os.kill(os.getpid(), signal.SIGINT)
    assert seen == [signal.SIGINT]


def test_a_watch_sees_best_and_bound() -> None:
    """The bound rises to the optimum; without a watch nobody can stop a search."""
    with watched() as watch:
        found = Search(asked()).run()
    assert found.best is not None and watch.best_ns == found.best.step_ns
    assert watch.bound_ns is not None and watch.bound_ns <= found.best.step_ns
    assert not stopped()


def test_what_the_line_says() -> None:
    """Best, bound and gap as far as they are known."""
    assert state(None) == state(Watch()) == ""
    assert state(Watch(bound_ns=2 * 10**9)) == ": no plan yet, nothing below 2.00 s"
    assert state(Watch(4 * 10**9, 3 * 10**9)) == ": best 4.00 s, nothing below 3.00 s, gap 25.0 %"


LOADING = """
import importlib.abc, os, runpy, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "shardwise.cli":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
sys.argv = ["shardwise", "--help"]
runpy.run_module("shardwise", run_name="__main__")
"""
"""The process's way in, interrupted as it starts to load the command line."""


def test_an_interrupt_before_the_command_line_is_loaded_is_told() -> None:
    """The first milliseconds are imports: no traceback, and the code of an interrupt."""
    done = subprocess.run([sys.executable, "-c", LOADING], capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")
