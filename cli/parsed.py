"""Flags that are no part of a request: whole numbers and seconds."""

from __future__ import annotations

import math

from ..inputs import InputError


def whole_of(text: str, flag: str, *, least: int = 1, most: int = 2**31) -> int:
    """The whole number in `text`, from `least` to `most`.

    >>> whole_of("3", "--top")
    3
    """
    field = flag.lstrip("-").replace("-", "_")
    try:
        number = int(text) if len(text) < 20 else most + 1
    except ValueError:
        raise InputError(field, text, flag, "must be a whole number", legal=[str(least)]) from None
    if not least <= number <= most:
        legal = [str(least if number < least else most)]
        raise InputError(field, text, flag, f"must lie in {least}..{most}", legal=legal)
    return number


def seconds_of(text: str | None, flag: str) -> float | None:
    """Seconds in `text` ("10", "2.5s", "5m"), positive; None for None.

    >>> seconds_of("5m", "--time-limit")
    300.0
    """
    if text is None:
        return None
    factor = {"s": 1.0, "m": 60.0, "h": 3600.0}.get(text[-1:].lower())
    try:
        number = float(text[:-1] if factor else text) * (factor or 1.0)
    except ValueError:
        number = math.nan
    if not 0 < number <= 1e9:
        reason = "must be a positive number of seconds"
        raise InputError(flag.lstrip("-").replace("-", "_"), text, flag, reason, legal=["10", "30s", "5m"])
    return number
