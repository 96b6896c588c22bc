"""Runs the commands of every file in examples/ and writes beside it what they print.

A command is a comment line ``# $ shardwise ...`` of a request; what a person sees of it, hints too,
goes to ``NAME.out``.
"""

from __future__ import annotations

import io
import shlex
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROMPT = "# $ shardwise "


def commands(path: Path) -> list[str]:
    """Command lines in the comments of a request, without the program's name."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line.removeprefix(PROMPT) for line in lines if line.startswith(PROMPT)]


def output(path: Path) -> str:
    """What the commands of a request print on both streams, each under its own line."""
    from shardwise.cli import main

    blocks = []
    for command in commands(path):
        told = io.StringIO()
        with redirect_stdout(told), redirect_stderr(told):
            code = main(shlex.split(command))
        blocks.append(f"$ shardwise {command}\n{told.getvalue()}[exit {code}]\n")
    return "\n".join(blocks)


def requests() -> list[Path]:
    """Requests with commands, in order."""
    return [path for path in sorted((ROOT / "examples").glob("*.toml")) if commands(path)]


if __name__ == "__main__":
    for request in requests():
        request.with_suffix(".out").write_text(output(request), encoding="utf-8")
        print(request.with_suffix(".out").name, file=sys.stderr)
