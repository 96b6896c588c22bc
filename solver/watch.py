"""What somebody outside sees of a search at work, and the one thing they can tell it: to stop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ..inputs.record import dataclass


@dataclass
class Watch:
    """The best step so far and what none can beat, ns; `stopped` asks the search for what it has."""

    best_ns: int | None = None
    bound_ns: int | None = None
    stopped: bool = False


_watch: ContextVar[Watch | None] = ContextVar("watch", default=None)


@contextmanager
def watched() -> Iterator[Watch]:
    """A watch on every search of this thread within the block."""
    watch = Watch()
    token = _watch.set(watch)
    try:
        yield watch
    finally:
        _watch.reset(token)


def stopped() -> bool:
    """Whether somebody asked the searches of this thread to stop."""
    watch = _watch.get()
    return watch is not None and watch.stopped


def is_over(spent_seconds: float, limit_seconds: float | None) -> bool:
    """Whether a search that took so many deterministic seconds has to end: by its limit, or as asked."""
    return stopped() or (limit_seconds is not None and spent_seconds >= limit_seconds)


def refuse_stopped() -> None:
    """Raises `KeyboardInterrupt` where somebody asked to stop and there is nothing to show for it."""
    if stopped():
        raise KeyboardInterrupt


def tell(best_ns: int | None, bound_ns: int) -> None:
    """Shows how far a search is."""
    watch = _watch.get()
    if watch is not None:
        watch.best_ns, watch.bound_ns = best_ns, bound_ns
