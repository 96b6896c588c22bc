"""How far measured peaks lie from predicted ones."""

from __future__ import annotations

from functools import cache

from ..inputs.data import data
from ..inputs.listed import Listed
from ..inputs.record import dataclass

ANY = "any"
"""The kind that all runs are of."""
LEAST_SOURCES = 3
"""A kind of fewer sources has no interval of its own: its runs take that of the next wider kind."""


def runs_of(rows: int, sources: int) -> str:
    """What an interval rests on, in words.

    >>> runs_of(12, 1)
    '12 published runs of one source left out of the fit'
    """
    many = "one source" if sources == 1 else f"{sources} sources"
    return f"{rows} published runs of {many} left out of the fit"


@dataclass(frozen=True, kw_only=True)
class Residuals(Listed):
    """Measured over predicted: 80 % of runs lie between `low` and `high`, and what that rests on."""

    low: float
    high: float
    rows: int
    sources: int

    @property
    def told(self) -> str:
        """What it rests on, in words."""
        return runs_of(self.rows, self.sources)


@cache
def peak_interval() -> Residuals:
    """That of peaks, of sources left out that the ledger was not made with (``scripts/constants.py``).

    One for all software: kinds by backend, pipeline, what is trained or how much is told hold no more of the
    sources that are left out.
    """
    return Residuals.listed(**data(__package__, "catalogue", "peak_residuals.json")["peaks"])
