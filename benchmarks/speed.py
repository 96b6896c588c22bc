"""CPU time beside that of importing OR-Tools: ``python -m benchmarks.speed [CASE...]``

Each line is a fresh process; its user and system time is divided by that of a fresh process that imports
``ortools.sat.python.cp_model`` (best of five, `import_seconds`). Lines of the command are whole processes.
Lines of the library are one call of `Planner.plan` after all imports, with no tables (cold); of the same
planner: the same question with another memory margin (warm), `Planner.check` of the plan (check), and what
stands beside the plan, which is searched for when it is looked at (beside). Nothing is cached between
processes but Python's bytecode, which an installed package has. Cases: see `CASES`; without names all are
run. What takes less than two imports is run five times as the import is, and the least of each line told, as
on a busy machine one try beside the best of five would say more of the machine; longer ones are run once. A
process is killed after `LONGEST_SECONDS` and then reported as stopped.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from threading import Timer
from typing import Any

from shardwise.inputs import InputError, nearest

from .face import Result, run, table

REPEATS = 5
LEAST = 0.0005
"""CPU seconds from which on a part is named."""
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
    library: bool = False


CURVE = (
    *("--cluster", "dgx-h100", "--global-batch-size", "1024", "--sequence-length", "8192"),
    *("--gpus", "8,16,32,64,128,256,512,768,896,1024", "--json", "-q"),
)
"""Ten counts of cards up to 1,024."""


def _plan(model: str, cluster: str, nodes: int, batch: int, length: int, *more: str) -> tuple[str, ...]:
    shape = ("--nodes", str(nodes), "--global-batch-size", str(batch), "--sequence-length", str(length))
    return ("plan", model, "--cluster", cluster, *shape, "--json", "-q", *more)


def _call(name: str, *question: object, repeats: int = 1) -> Case:
    return Case(name, tuple(map(str, question)), repeats, program=("-m", "benchmarks.library"), library=True)


CASES = (
    Case("help", ("--help",), REPEATS),
    Case("70b@64", _plan("llama-3.1-70b", "dgx-h100", 8, 512, 8192), REPEATS),
    Case("curve@1024", ("curve", "llama-3.1-70b", *CURVE)),
    Case("price@100000", (), program=("-m", "benchmarks.pricing")),
    _call("7b@64", "llama-2-7b", "dgx-h100", 8, 512, 4096, repeats=REPEATS),
    _call("175b@1024", "gpt3-175b", "dgx-a100-80gb", 128, 1536, 2048),
    _call("405b@16384", "llama-3.1-405b", "dgx-h100", 2048, 2048, 8192),
    _call("deepseek-v3@2048", "deepseek-v3", "dgx-h100", 256, 15360, 4096),
    _call("175b@64-tight", "gpt3-175b", "dgx-a100-80gb", 8, 512, 2048),
    _call("70b@two-pools-4k", "llama-3.1-70b", "dgx-h100+dgx-a100-80gb", 16, 512, 4096),
    _call("70b@two-pools-8k", "llama-3.1-70b", "dgx-h100+dgx-a100-80gb", 16, 512, 8192),
    _call("70b@2000-free", "llama-3.1-70b", "dgx-a100-80gb/64", 2000, 2048, 4096),
)
"""``-tight``: 16 bytes a parameter leave little of 64 cards of 80 GB for activations. ``two-pools``: 16
machines of each type. ``2000-free``: free cards over 64 leaves.
"""


def _environment(bytecode: str) -> dict[str, str]:
    """This process's, with bytecode kept in a folder of this run."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONPYCACHEPREFIX": bytecode}


def cpu_seconds(words: Sequence[str], bytecode: str | None = None) -> tuple[float, int, str, int]:
    """(user and system seconds, exit code, standard output, peak MiB) of a fresh Python process."""
    process = subprocess.Popen(
        [sys.executable, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=None if bytecode is None else _environment(bytecode),
    )
    killer = Timer(LONGEST_SECONDS, process.kill)
    killer.start()
    with process:
        output = process.stdout.read() if process.stdout else ""
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    killer.cancel()
    return usage.ru_utime + usage.ru_stime, process.returncode, output, usage.ru_maxrss // 1024


def measure(names: Sequence[str]) -> Result:
    """Ratios of the named cases, of all without names."""
    known = {case.name: case for case in CASES}
    for name in names:
        if name not in known:
            raise InputError("case", name, "command line", "is not known", legal=nearest(name, known))
    chosen = [known[name] for name in names] or list(CASES)
    with TemporaryDirectory() as bytecode:
        cpu_seconds((*SHARDWISE, "--help"), bytecode)
        cpu_seconds(
            ("-c", "import shardwise.solver, shardwise.launch.emission, shardwise.cli.plan"), bytecode
        )
        unit = min(cpu_seconds(IMPORT, bytecode)[0] for _ in range(REPEATS))
        lines = [line for case in chosen for line in _lines(case, unit, bytecode)]
    return {"import_seconds": unit, "lines": lines}


def _lines(case: Case, unit: float, bytecode: str) -> Iterator[dict[str, Any]]:
    """One line of a command; of a call one for each state of its tables."""
    tries = [cpu_seconds((*case.program, *case.words), bytecode) for _ in range(case.repeats)]
    seconds, code, _, peak = min(tries)
    name = "shardwise" if case.program is SHARDWISE else case.program[-1]
    found = [_object(output) for _, ended, output, _ in tries if ended == code]
    line: dict[str, Any] = {
        "case": case.name,
        "exit_code": code,
        "status": "stopped" if code < 0 else found[0].get("status"),
        "peak_mib": peak,
        "leaves": None,
        "command": " ".join((name, *case.words)),
        "parts": {},
    }
    if not case.library or code:
        yield line | {"imports": seconds / unit, "cpu_seconds": seconds}
        return
    for heat in found[0]["taken"]:
        least = min(found, key=lambda one: one["taken"][heat])
        parts = {part: value / unit for part, value in least["parts"][heat].items() if value >= LEAST}
        yield line | {
            "case": f"{case.name} {heat}",
            "leaves": least["leaves"] if heat == "cold" else None,
            "imports": least["taken"][heat] / unit,
            "cpu_seconds": least["taken"][heat],
            "parts": parts,
        }


def _object(output: str) -> dict[str, Any]:
    """The JSON object a process printed, empty where it printed none."""
    try:
        found = json.loads(output)
    except json.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def text(found: Result) -> str:
    """The result as a table, with what the time of a call goes to in imports."""
    keys = ("case", "imports", "cpu_seconds", "peak_mib", "exit_code", "status", "leaves")
    head = ("case", "imports", "CPU s", "MiB", "exit", "status", "leaves", "goes to (imports)")
    rows = [[*(line[key] for key in keys), _goes_to(line["parts"])] for line in found["lines"]]
    return f"{table(head, rows)}\n\none import: {found['import_seconds']:.3f} s of CPU (best of {REPEATS})"


def _goes_to(parts: dict[str, float]) -> str:
    ordered = sorted(parts.items(), key=lambda part: -part[1])
    return ", ".join(f"{name} {value:.2f}" for name, value in ordered)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    return run((__doc__ or "").splitlines()[0], ["CASE*"], measure, text, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
