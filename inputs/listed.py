"""Entries of this package's own catalogues: light records of what a JSON file holds.

Their values are not looked at when they are read: tests do it (`tests/test_listed.py`), by the types and
bounds that the fields are annotated with.
"""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any, NamedTuple, Self, cast


class Listed:
    """What a data class of an entry is derived from; its fields are given by name.

    Lists become tuples, whole numbers floats where the field is one; fields of any type stay as they are.
    """

    @classmethod
    def listed(cls, **entry: Any) -> Self:
        """An entry as a catalogue spells it; fields that have a default may be left out."""
        kinds = _kinds(cast("Any", cls))
        held = dict(entry)
        for name, value in entry.items():
            number = name in kinds.numbers
            if number or (isinstance(value, list | dict) and name not in kinds.whole):
                held[name] = told(value, number)
        return cls(**held)


class _Kinds(NamedTuple):
    """Fields of a class that are real numbers, and those that stay as they are."""

    numbers: frozenset[str]
    whole: frozenset[str]


@cache
def _kinds(kind: Any) -> _Kinds:
    fields = dataclasses.fields(kind)
    return _Kinds(
        numbers=frozenset([f.name for f in fields if str(f.type).startswith(("float", "Annotated[float"))]),
        whole=frozenset([f.name for f in fields if "Any" in str(f.type)]),
    )


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
