"""Putting a folder into the place of another in one step: a killed process leaves one of them whole."""

from __future__ import annotations

import ctypes
import os
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

_HERE = -100
"""AT_FDCWD: paths are as the process sees them (Linux, fcntl.h)."""

_EXCHANGE = 2
"""RENAME_EXCHANGE (Linux, renameat2(2)): both paths are swapped atomically."""


def put(fresh: Path, place: Path) -> None:
    """Moves the folder `fresh` to `place`; what stood there is at `fresh` afterwards, or gone.

    A missing `place` is taken by one rename. One that is there is swapped where the system can
    (Linux); elsewhere two renames leave a moment without either. Raises OSError.
    """
    if not place.is_dir():
        os.rename(fresh, place)
        return
    if _swapped(fresh, place):
        return
    aside = Path(tempfile.mkdtemp(prefix=f".{place.name}.old.", dir=place.parent))
    os.rename(place, aside / "was")
    os.rename(fresh, place)
    os.rename(aside / "was", fresh)
    aside.rmdir()


def _swapped(one: Path, other: Path) -> bool:
    """Whether the system swapped both in one step."""
    rename = _renameat2()
    if rename is None:
        return False
    return bool(rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0)


@cache
def _renameat2() -> Any:
    """The C library's call, None where there is none."""
    try:
        found = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError, TypeError):
        return None
    found.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    return found
