"""Who hides behind whom: exposed seconds of communication beside compute."""

from __future__ import annotations

import numpy as np

from .columns import Bools, Floats
from .law import law


def beside(compute: Floats, comm: Floats) -> Floats:
    """Exposed seconds of `comm` that runs beside `compute`: it slows compute, or outlasts it."""
    slowed = compute + law("overlap_slowdown") * np.minimum(comm, compute)
    return np.maximum(slowed, comm) - compute


def shown(compute: Floats, comm: Floats, hidden: Bools) -> Floats:
    """Exposed seconds of `comm` in rows that run it beside `compute`, and all of it in others."""
    found: Floats = np.where(hidden[:, None], beside(compute, comm), comm)
    return found
