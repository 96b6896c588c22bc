"""The command line: a module a command, and the only place that prints.

| file | holds |
|---|---|
| `app` | the commands put together |
| `plan`, `check`, `ledger`, `emit`, `lint`, `show`, `list` | one command each |
| `options`, `parsed` | flags shared by commands, and their groups; flags that are numbers |
| `voice`, `errors`, `output` | what is said where; failures and exit codes; files written |
| `tables`, `words`, `plan_text`, `no_plan_text`, `check_text`, `ledger_text`, `model_text` | answers |
| `cards`, `listing`, `findings` | what `show`, `list` and `lint` tell |
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType, ModuleType

__all__ = ["main"]

GARBAGE = 200_000
"""New objects before cycles are looked for: a process that loads many classes and ends soon has few."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs `argv` (default: the process's own) and returns the exit code of `cli.errors`."""
    if argv is not None:
        return _main(argv)
    _lighten()
    code = _main(sys.argv[1:])
    gc.freeze()  # Python would look for cycles among all objects twice more while it ends: 0.12 s of CPU
    return code


def _main(words: Sequence[str]) -> int:
    try:
        with _leaving_imports():
            return _run([*words])
    except BaseException as error:  # while modules load, before anything could be guarded
        if not interrupts(error):
            raise
        print("interrupted", file=sys.stderr)
        return 130


@contextmanager
def _leaving_imports() -> Iterator[None]:
    """Ctrl-C while a module loads ends the process at once: nothing is half done, and what Python's import
    does with an exception is not always to pass it on. Where someone else handles Ctrl-C, they do.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    try:
        signal.signal(signal.SIGINT, _leave)
    except ValueError:  # not in the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(number: int, frame: FrameType | None) -> None:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            os.write(2, b"interrupted\n")
            os._exit(130)
        frame = frame.f_back
    raise KeyboardInterrupt


def interrupts(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind an error: a class that was being made wraps it in one of its own."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _run(words: list[str]) -> int:
    _open_closed()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    from .errors import guarded
    from .findings import plain, tell_findings

    simple = plain(words)
    if simple is not None:
        return guarded(lambda: tell_findings(*simple), words, ())
    from .app import run

    return run(words)


def _lighten() -> None:
    """What a process of our own does without: early garbage collection, a look for plugins of pydantic, and
    the threads that numpy's OpenBLAS starts as it loads (0.02 s of CPU), for products here are small.
    """
    gc.set_threshold(GARBAGE)
    if os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__") == "__all__":
        sys.modules.setdefault("pydantic.plugin._loader", _without_plugins())
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def _without_plugins() -> ModuleType:
    """In place of the module that looks for plugins of pydantic: it loads `importlib.metadata`, which loads
    what reads e-mail, before it is told that none is wanted (0.01 s of CPU).
    """
    stand_in = ModuleType("pydantic.plugin._loader")
    stand_in.__dict__["get_plugins"] = tuple
    return stand_in


def _open_closed() -> None:
    """A standard stream that the shell closed reads as empty and takes everything."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
