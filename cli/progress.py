"""A line on standard error while a search takes longer than a second, and Ctrl-C as a wish to stop it."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread, current_thread, main_thread
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..solver.watch import Watch

PATIENCE = 1.0
"""Seconds before the line appears, and between its changes."""


@contextmanager
def working(what: str, wanted: bool = True, watch: Watch | None = None) -> Iterator[None]:
    """Shows `what` with the seconds gone by and what `watch` sees; wiped when the work is done."""
    if not wanted or not sys.stderr.isatty():
        yield
        return
    done = Event()
    line = Thread(target=_shown, args=(what, done, watch), daemon=True)
    line.start()
    try:
        yield
    finally:
        done.set()
        line.join()


@contextmanager
def stoppable() -> Iterator[Watch]:
    """A watch on the searches of this block that the first Ctrl-C stops; the second interrupts."""
    from ..solver.watch import watched

    with watched() as watch:
        if current_thread() is not main_thread():
            yield watch
            return

        def stop(number: int, frame: FrameType | None) -> None:
            watch.stopped = True
            signal.signal(signal.SIGINT, before)

        before = signal.signal(signal.SIGINT, stop)
        try:
            yield watch
        finally:
            signal.signal(signal.SIGINT, before)


def state(watch: Watch | None) -> str:
    """Best, bound and gap of a search, as far as it has them."""
    from .words import seconds

    if watch is None or watch.bound_ns is None:
        return ""
    bound = f"nothing below {seconds(watch.bound_ns / 1e9)}"
    if watch.best_ns is None:
        return f": no plan yet, {bound}"
    gap = 100.0 * (1.0 - watch.bound_ns / watch.best_ns)
    return f": best {seconds(watch.best_ns / 1e9)}, {bound}, gap {gap:.1f} %"


def _shown(what: str, done: Event, watch: Watch | None) -> None:
    start, told = monotonic(), 0
    stops = "Ctrl-C stops" if watch is None else "Ctrl-C shows the best so far"
    while not done.wait(PATIENCE):
        text = f"{what}, {monotonic() - start:.0f} s{state(watch)}; {stops}"
        told = max(told, len(text))
        sys.stderr.write("\r" + text.ljust(told))
        sys.stderr.flush()
    if told:
        sys.stderr.write("\r" + " " * told + "\r")
        sys.stderr.flush()
