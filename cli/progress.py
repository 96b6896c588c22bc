"""A line on standard error while a search takes longer than a second, on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from time import monotonic

PATIENCE = 1.0
"""Seconds before the line appears, and between its changes."""


@contextmanager
def working(what: str, wanted: bool = True) -> Iterator[None]:
    """Shows `what` with the seconds gone by, from the first second on; wiped when the work is done."""
    if not wanted or not sys.stderr.isatty():
        yield
        return
    done = Event()
    line = Thread(target=_shown, args=(what, done), daemon=True)
    line.start()
    try:
        yield
    finally:
        done.set()
        line.join()


def _shown(what: str, done: Event) -> None:
    start, told = monotonic(), 0
    while not done.wait(PATIENCE):
        text = f"{what}, {monotonic() - start:.0f} s; Ctrl-C stops"
        told = max(told, len(text))
        sys.stderr.write("\r" + text.ljust(told))
        sys.stderr.flush()
    if told:
        sys.stderr.write("\r" + " " * told + "\r")
        sys.stderr.flush()
