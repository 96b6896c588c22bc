"""Entries of this package's own catalogues: light records of what a JSON file holds.

Their values are not looked at when they are read: tests do it (`tests/test_listed.py`), by the types and
bounds that the fields are annotated with.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple, Self, TypeVar, cast

Entry = TypeVar("Entry")


class Listed:
    """What a data class of an entry is derived from; its fields are given by name.

    Lists become tuples, whole numbers floats where the field is one; fields of any type stay as they are.
    """

    @classmethod
    def listed(cls, **entry: Any) -> Self:
        """An entry as a catalogue spells it; fields that have a default may be left out."""
        kinds = _kinds(cast("Any", cls))
        for name, value in entry.items():
            if type(value) in _PLAIN or (name in kinds.whole and name not in kinds.numbers):
                continue
            entry[name] = told(value, name in kinds.numbers)
        return cls(**entry)


class Entries(Mapping[str, Entry]):
    """The entries of a catalogue by name, each made of what its file holds when it is first asked for.

    A question needs few of them. An entry may be set to another for a trial.

    >>> squares = Entries({"two": 2, "three": 3}, lambda name, told: told * told)
    >>> squares["three"], list(squares), "four" in squares
    (9, ['two', 'three'], False)
    """

    def __init__(self, told: Mapping[str, Any], make: Callable[[str, Any], Entry]) -> None:
        self._told, self._make = told, make
        self._made: dict[str, Entry] = {}

    def __getitem__(self, name: str) -> Entry:
        if name not in self._made:
            self._made[name] = self._make(name, self._told[name])
        return self._made[name]

    def __setitem__(self, name: str, entry: Entry) -> None:
        self._made[name] = entry

    def __contains__(self, name: object) -> bool:
        return name in self._told

    def __iter__(self) -> Iterator[str]:
        return iter(self._told)

    def __len__(self) -> int:
        return len(self._told)


_PLAIN = (str, bool, float, type(None))
"""Types whose values stay as they are."""


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
        return tuple([item if type(item) in _PLAIN else told(item, number) for item in value])
    if isinstance(value, dict):
        return {name: told(item, number) for name, item in value.items()}
    return float(value) if number else value
