"""Entries of this package's own catalogues: light records of what a JSON file holds.

Their values are not looked at when they are read: tests do it (`tests/test_listed.py`), by the types and
bounds that the fields are annotated with.
"""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any, Self, cast


class Listed:
    """What a data class of an entry is derived from; its fields are given by name.

    Lists become tuples, whole numbers floats where the field is one; fields of any type stay as they are.
    """

    @classmethod
    def listed(cls, **entry: Any) -> Self:
        """An entry as a catalogue spells it; fields that have a default may be left out."""
        fields, made = _fields(cast("Any", cls)), object.__new__(cls)
        held = made.__dict__
        for name, (number, whole, default) in fields.items():
            value = entry.pop(name, default)
            held[name] = value if whole or value is default else told(value, number)
        if entry or any(value is dataclasses.MISSING for value in held.values()):
            raise TypeError(f"{cls.__name__}: other fields than it has, or too few: {sorted(entry)}")
        return made


@cache
def _fields(kind: Any) -> dict[str, tuple[bool, bool, Any]]:
    """Of each field of a data class: whether it is a real number, whether it stays as it is, its default."""
    found = {}
    for field in dataclasses.fields(kind):
        number = str(field.type).startswith(("float", "Annotated[float"))
        made = field.default_factory
        default = field.default if made is dataclasses.MISSING else made()
        found[field.name] = number, "Any" in str(field.type), default
    return found


def told(value: Any, number: bool) -> Any:
    """A value of a JSON file as objects hold it.

    >>> told([1, [2]], True)
    (1.0, (2.0,))
    """
    if isinstance(value, list):
        return tuple([told(item, number) for item in value])
    if isinstance(value, dict):
        return {name: told(item, number) for name, item in value.items()}
    return float(value) if number and value is not None else value
