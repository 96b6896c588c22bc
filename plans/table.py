"""Values of a request's tables: keys that are known, whole numbers, finite numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..inputs import InputError, nearest


def known(table: Mapping[str, Any], keys: tuple[str, ...], root: str) -> None:
    for key, value in table.items():
        if key not in keys:
            legal = nearest(str(key), keys)
            raise InputError(f"{root}.{key}", value, root, "is not known", legal=legal, code="unknown-field")


def whole(table: Mapping[str, Any], key: str, root: str) -> int | None:
    value = table.get(key)
    if value is None:
        return None
    field = f"{root}.{key}"
    if isinstance(value, bool) or not isinstance(value, int):
        from ..inputs.meant import numbers

        raise InputError(field, value, root, "must be a whole number", legal=numbers(value, True) or ["1"])
    if value < 1:
        raise InputError(field, value, root, "must be at least 1", legal=["1"])
    if value > 2**40:
        raise InputError(field, value, root, "is too large")
    return value


def number(table: Mapping[str, Any], key: str, root: str, default: float) -> float:
    """The number of a key; by default the least it can be."""
    value = table.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e9:
        from ..inputs.meant import numbers

        legal = [each for each in numbers(value, False) if float(each) >= default] or [f"{default:g}"]
        raise InputError(f"{root}.{key}", value, root, "must be a finite number", legal=legal)
    return float(value)
