"""Amounts as people write them: ``80GB``, ``74.5GiB``, ``1.5TB``, ``30e9``, ``70B``, ``1T``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal

from .error import InputError

MOST = 2**62
"""Largest amount taken: the exact integers of the search have 63 bits."""

_NUMBER = re.compile(r"\s*(\d{1,30}(?:_\d{3})*(?:\.\d{1,30})?(?:[eE][+-]?\d{1,3})?)\s*([A-Za-z]*)\s*")
_BYTES = {
    "": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12, "pb": 10**15,
    "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40, "pib": 2**50,
}  # fmt: skip
_COUNTS = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "g": 10**9, "t": 10**12}


def _amount(value: object, field: str, origin: str, units: Mapping[str, int], example: str) -> Decimal:
    """`value` as an exact number of ones, positive and at most `MOST`."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise InputError(field, value, origin, "must be an amount", legal=[example])
    if isinstance(value, int):
        text = str(value) if value.bit_length() <= 64 else "9" * 20
    else:
        text = repr(value) if isinstance(value, float) else value
    found = _NUMBER.fullmatch(text) if len(text) <= 80 else None
    if found is None and text.lstrip().startswith("-"):
        raise InputError(field, value, origin, "must be positive", legal=[example])
    if found is None:
        raise InputError(field, value, origin, "is no amount", legal=[example])
    unit = units.get(found[2].lower())
    if unit is None:
        words = [name for name in units if name]
        raise InputError(field, value, origin, f"has the unknown unit {found[2]!r}", legal=_spelled(words))
    amount = Decimal(found[1].replace("_", "")) * unit
    if amount <= 0:
        raise InputError(field, value, origin, "must be positive", legal=[example])
    if amount > MOST:
        raise InputError(field, value, origin, "is larger than 2^62", legal=[example])
    return amount


def _spelled(units: list[str]) -> list[str]:
    return [unit.upper().replace("IB", "iB") for unit in units]


def bytes_of(value: object, field: str, origin: str) -> int:
    """Bytes in `value`, a whole number or text with a unit; a fraction of a byte is cut off.

    GB is 10^9 bytes, GiB 2^30. Raises `InputError` for anything else, zero, negative or over 2^62.

    >>> bytes_of("74.5GiB", "card", "--card"), bytes_of("80GB", "card", "--card")
    (79993765888, 80000000000)
    """
    amount = int(_amount(value, field, origin, _BYTES, "80GB"))
    if amount < 1:
        raise InputError(field, value, origin, "is less than one byte", legal=["80GB"])
    return amount


def count_of(value: object, field: str, origin: str) -> int:
    """The whole number in `value`: an integer, ``30e9``, or text with K, M, B (10^9) or T (10^12).

    >>> count_of("1T", "training.total_tokens", "--total-tokens"), count_of("0.5B", "n", "n")
    (1000000000000, 500000000)
    """
    amount = _amount(value, field, origin, _COUNTS, "70B")
    if amount != int(amount):
        raise InputError(field, value, origin, "must be a whole number", legal=[str(int(amount) or 1)])
    return int(amount)


def gibs(count: float, digits: int = 1) -> str:
    """Bytes as a number of GiB: whole KiB, which the ledger counts, then `digits` decimals.

    The one way memory is printed, so that the bytes of a catalogue and the KiB of a ledger read alike.

    >>> gibs(84986665370), gibs(84986665370 // 1024 * 1024), gibs(2**40, 2)
    ('79.1', '79.1', '1,024.00')
    """
    return f"{count // 1024 / 2**20:,.{digits}f}"


def gib(count: float) -> str:
    """Bytes as text in GiB, one decimal.

    >>> gib(79993765888)
    '74.5 GiB'
    """
    return f"{gibs(count)} GiB"
