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
        form, made = _form(cast("Any", cls)), object.__new__(cls)
        held = made.__dict__
        held.update(form.defaults)
        held.update(entry)
        for name, value in entry.items():
            number = name in form.numbers
            if number or (isinstance(value, list | dict) and name not in form.whole):
                held[name] = told(value, number)
        if len(held) < len(form.names) or not form.names.issuperset(entry):
            raise TypeError(f"{cls.__name__}: other fields than it has, or too few: {sorted(entry)}")
        return made


class _Form(NamedTuple):
    """Fields of a class: all, those that are real numbers, those that stay as they are, and the defaults."""

    names: frozenset[str]
    numbers: frozenset[str]
    whole: frozenset[str]
    defaults: dict[str, Any]


@cache
def _form(kind: Any) -> _Form:
    fields = dataclasses.fields(kind)
    made = {f.name: f.default_factory() for f in fields if f.default_factory is not dataclasses.MISSING}
    return _Form(
        names=frozenset([f.name for f in fields]),
        numbers=frozenset([f.name for f in fields if str(f.type).startswith(("float", "Annotated[float"))]),
        whole=frozenset([f.name for f in fields if "Any" in str(f.type)]),
        defaults=made | {f.name: f.default for f in fields if f.default is not dataclasses.MISSING},
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
