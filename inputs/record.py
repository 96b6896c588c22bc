"""`dataclass` as of the standard library, whose methods are not compiled whenever a process starts.

Python 3.11 writes the source of up to seven methods for each data class and compiles them as the class is
made: 0.6 ms of CPU a class, of which a plan loads eighty. Here the standard library only gathers the fields
(0.04 ms), so that its `fields` and `replace` work; the methods are the same few functions for all classes.

>>> @dataclass(frozen=True)
... class Card:
...     name: str
...     count: int = 1
>>> Card("H100"), Card("H100") == Card("H100", 1)
(Card(name='H100', count=1), True)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

__all__ = ["dataclass"]

Kind = TypeVar("Kind", bound=type[Any])


def _light(kind: Kind | None = None, /, *, frozen: bool = False, kw_only: bool = False) -> Any:
    """The class decorator: `frozen` objects refuse new values, and have a hash."""
    if kind is None:
        return lambda kind: _light(kind, frozen=frozen, kw_only=kw_only)
    kind.__doc__ = kind.__doc__ or kind.__name__  # else the standard library writes a signature there
    made = dataclasses.dataclass(init=False, repr=False, eq=False, match_args=False, kw_only=kw_only)(kind)
    for name, method in (_METHODS | (_FROZEN if frozen else _MUTABLE)).items():
        if name not in vars(made):
            setattr(made, name, method)
    return made


class Form(NamedTuple):
    """Fields of a class: those given by place, those given at all, and what the others start with.

    `needed` is how many an object has once it is made.
    """

    placed: tuple[str, ...]
    given: frozenset[str]
    defaults: dict[str, Any]
    made: dict[str, Callable[[], Any]]
    needed: int
    finishes: bool
    """Whether the class has something to do when an object is made."""


@cache
def form(kind: Any) -> Form:
    """The fields of a data class, looked at once."""
    placed, given, defaults, made = [], [], {}, {}
    for own in dataclasses.fields(kind):
        if own.init:
            given.append(own.name)
            if not own.kw_only:
                placed.append(own.name)
        if own.default is not dataclasses.MISSING:
            defaults[own.name] = own.default
        elif own.default_factory is not dataclasses.MISSING:
            made[own.name] = own.default_factory
    needed = len({*given, *defaults, *made})
    finishes = hasattr(kind, "__post_init__")
    return Form(tuple(placed), frozenset(given), defaults, made, needed, finishes)


def _init(self: Any, /, *given: Any, **named: Any) -> None:
    """Fields by place and by name, and of the others what they start with."""
    own, held = form(cast("Any", type(self))), self.__dict__
    if given:
        held.update(zip(own.placed, given))  # noqa: B905 - too many are told below
    if named:
        held.update(named)
    told = len(given) + len(named)
    wrong = len(held) < told or (named and not own.given.issuperset(named))
    if told < own.needed:
        for name, value in own.defaults.items():
            held.setdefault(name, value)
        for name, make in own.made.items():
            if name not in held:
                held[name] = make()
    if wrong or len(held) != own.needed:
        values = f"{given} {sorted(named)}"
        raise TypeError(f"{type(self).__name__}: other values than it has fields, or too few: {values}")
    if own.finishes:
        self.__post_init__()


def _values(self: Any) -> tuple[Any, ...]:
    """Those that make objects equal."""
    return tuple([getattr(self, f.name) for f in dataclasses.fields(self) if f.compare])


def _eq(self: Any, other: object) -> bool:
    return _values(self) == _values(other) if type(self) is type(other) else NotImplemented


def _hash(self: Any) -> int:
    return hash(_values(self))


def _repr(self: Any) -> str:
    told = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self) if f.repr)
    return f"{type(self).__qualname__}({told})"


def _refuse(self: Any, name: str, *value: Any) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot change field {name!r}")


_METHODS: dict[str, Any] = {"__init__": _init, "__eq__": _eq, "__repr__": _repr}
_FROZEN: dict[str, Any] = {"__hash__": _hash, "__setattr__": _refuse, "__delattr__": _refuse}
_MUTABLE: dict[str, Any] = {"__hash__": None}

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    dataclass = _light
