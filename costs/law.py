"""Constants of the ledger that belong to no card, link or stack, each with unit, source and grade."""

from __future__ import annotations

from functools import cache

from ..inputs.data import data
from ..inputs.listed import Listed
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
def constants() -> dict[str, Constant]:
    """All constants by name."""
    tables = [data(__package__, "catalogue", name) for name in FILES]
    return {name: Constant.listed(**entry) for table in tables for name, entry in table.items()}


def law(name: str) -> float:
    """The value of the constant `name`.

    >>> law("risky_share")
    0.92
    """
    return constants()[name].value
