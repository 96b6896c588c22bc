"""Constants of the ledger that belong to no card, link or stack, each with unit, source and grade."""

from __future__ import annotations

from functools import cache

from ..inputs.data import data
from ..inputs.listed import Entries, Listed
from ..inputs.record import dataclass


@dataclass(frozen=True, kw_only=True)
class Constant(Listed):
    """A number of the ledger and where it comes from."""

    value: float
    unit: str
    grade: str
    source: str
    date: str | None = None
    """Day of the fit, where a script fitted it."""


FILES = ("law.json", "law_memory.json")
"""Stated constants, and those that scripts/constants.py fits."""


@cache
def constants() -> Entries[Constant]:
    """All constants by name."""
    told = {name: entry for file in FILES for name, entry in data(__package__, "catalogue", file).items()}
    return Entries(told, lambda name, entry: Constant.listed(**entry))


def law(name: str) -> float:
    """The value of the constant `name`.

    >>> law("risky_share")
    0.92
    """
    return constants()[name].value
