"""Processor time of the command beside that of importing OR-Tools: ``python -m benchmarks.speed [CASE...]``

Each line is a fresh process; its user and system time is divided by that of a fresh process that imports
``ortools.sat.python.cp_model`` (best of five, `import_seconds`). Nothing is cached between processes; tables
are built inside the timed part. Cases: see `CASES`; without names all are run, once each (``--help`` five
times). deepseek-v3@2048 takes minutes and so has a limit of 10 deterministic seconds, which counts search and
not the tables before it; a process is killed after `LONGEST_SECONDS` and then reported as stopped.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Timer
from typing import Any

from shardwise.inputs import InputError, nearest

from .face import Result, run, table

REPEATS = 5
LONGEST_SECONDS = 600
IMPORT = ("-c", "import ortools.sat.python.cp_model")
SHARDWISE = ("-c", "from shardwise.cli import main; raise SystemExit(main())")


@dataclass(frozen=True)
class Case:
    """One command, and what it asks."""

    name: str
    words: tuple[str, ...]
    repeats: int = 1
    program: tuple[str, ...] = SHARDWISE


def _plan(model: str, cluster: str, nodes: int, batch: int, length: int, *more: str) -> tuple[str, ...]:
    shape = ("--nodes", str(nodes), "--global-batch-size", str(batch), "--sequence-length", str(length))
    return ("plan", model, "--cluster", cluster, *shape, "--json", "-q", *more)


CASES = (
    Case("help", ("--help",), REPEATS),
    Case("price@100000", (), program=("-m", "benchmarks.pricing")),
    Case("7b@64", _plan("llama-2-7b", "dgx-h100", 8, 512, 4096)),
    Case("175b@1024", _plan("gpt3-175b", "dgx-a100-80gb", 128, 1536, 2048)),
    Case("405b@16384", _plan("llama-3.1-405b", "dgx-h100", 2048, 2048, 8192)),
    Case("deepseek-v3@2048", _plan("deepseek-v3", "dgx-h100", 256, 15360, 4096, "--time-limit", "10")),
    Case("175b@64-tight", _plan("gpt3-175b", "dgx-a100-80gb", 8, 512, 2048)),
)
"""The last one is tight: 16 bytes a parameter leave little of 64 cards of 80 GB for activations."""


def cpu_seconds(words: Sequence[str]) -> tuple[float, int, str]:
    """(user and system seconds, exit code, standard output) of a fresh Python process."""
    process = subprocess.Popen(
        [sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    killer = Timer(LONGEST_SECONDS, process.kill)
    killer.start()
    with process:
        output = process.stdout.read() if process.stdout else ""
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    killer.cancel()
    return usage.ru_utime + usage.ru_stime, process.returncode, output


def measure(names: Sequence[str]) -> Result:
    """Ratios of the named cases, of all without names."""
    known = {case.name: case for case in CASES}
    for name in names:
        if name not in known:
            raise InputError("case", name, "command line", "is not known", legal=nearest(name, known))
    unit = min(cpu_seconds(IMPORT)[0] for _ in range(REPEATS))
    chosen = [known[name] for name in names] or list(CASES)
    return {"import_seconds": unit, "lines": [_line(case, unit) for case in chosen]}


def _line(case: Case, unit: float) -> dict[str, Any]:
    tries = [cpu_seconds((*case.program, *case.words)) for _ in range(case.repeats)]
    seconds, code, output = min(tries)
    return {
        "case": case.name,
        "imports": seconds / unit,
        "cpu_seconds": seconds,
        "exit_code": code,
        "status": "stopped" if code < 0 else _status(output),
        "time_limit": case.words[case.words.index("--time-limit") + 1]
        if "--time-limit" in case.words
        else None,
        "command": " ".join(("shardwise" if case.program is SHARDWISE else case.program[-1], *case.words)),
    }


def _status(output: str) -> str | None:
    try:
        found = json.loads(output)
    except json.JSONDecodeError:
        return None
    return str(found.get("status")) if isinstance(found, dict) else None


def text(found: Result) -> str:
    """The result as a table."""
    keys = ("case", "imports", "cpu_seconds", "exit_code", "status", "time_limit", "command")
    head = ("case", "imports", "CPU s", "exit", "status", "limit s", "command")
    lines = table(head, [[line[key] for key in keys] for line in found["lines"]])
    return f"{lines}\n\none import: {found['import_seconds']:.3f} s of CPU (best of {REPEATS})"


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    return run((__doc__ or "").splitlines()[0], ["CASE*"], measure, text, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
