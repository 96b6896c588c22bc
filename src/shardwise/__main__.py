"""The process's own way in (``shardwise``, ``python -m shardwise``): Ctrl-C is told before all else loads."""

from __future__ import annotations

import os
import sys
from _signal import (  # type: ignore[import-not-found]  # `signal` itself takes 20 ms to load
    SIGINT,
    default_int_handler,
    getsignal,
    signal,
)

TYPE_CHECKING = False  # as in `typing`, which loads too

if TYPE_CHECKING:
    from types import FrameType


def _leave(number: int, frame: FrameType | None) -> None:
    """Nothing is begun yet that could be left half done."""
    os.write(2, b"interrupted\n")
    os._exit(130)


if getsignal(SIGINT) is default_int_handler:
    signal(SIGINT, _leave)

from .cli import main as _run  # noqa: E402


def main() -> int:
    """The command line; it hears Ctrl-C from here on."""
    if getsignal(SIGINT) is _leave:
        signal(SIGINT, default_int_handler)
    return _run()


if __name__ == "__main__":
    sys.exit(main())
