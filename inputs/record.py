"""`dataclass` as of the standard library, whose methods are not compiled whenever a process starts.

Python 3.11 writes the source of up to seven methods for each data class and compiles them as the class is
made: 0.6 ms of CPU a class, of which a plan loads eighty. Here the standard library only gathers the fields
(0.04 ms), so that its `fields` and `replace` work; ``__init__`` is compiled when a few objects are made, and
the other methods are the same few functions for all classes.

>>> @dataclass(frozen=True)
... class Card:
...     name: str
...     count: int = 1
>>> Card("H100"), Card("H100") == Card("H100", 1)
(Card(name='H100', count=1), True)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

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


FEW = 6
"""Objects of a class that cost less than to compile an ``__init__``."""


def _first(self: Any, /, *given: Any, **named: Any) -> None:
    """Makes the first objects of a class, and after `FEW` of them the ``__init__`` of all later ones."""
    kind = type(self)
    before = vars(kind).get("__made__", 0)
    if before == FEW:
        kind.__init__ = _compiled(kind)
        kind.__init__(self, *given, **named)
        return
    kind.__made__ = before + 1
    self.__dict__.update(_bound(dataclasses.fields(kind), given, named))
    if hasattr(kind, "__post_init__"):
        self.__post_init__()


def _bound(
    own: Iterable[dataclasses.Field[Any]], given: Iterable[Any], named: dict[str, Any]
) -> dict[str, Any]:
    """The values of fields that are given by place and by name, and of the others what they start with."""
    told = [*given]
    left, found = dict(named), {}
    for field in own:
        if field.init and not field.kw_only and told:
            found[field.name] = told.pop(0)
        elif field.init and field.name in left:
            found[field.name] = left.pop(field.name)
        elif field.default_factory is not dataclasses.MISSING:
            found[field.name] = field.default_factory()
        elif field.init and field.default is dataclasses.MISSING:
            raise TypeError(f"{field.name} is missing")
        elif field.init:
            found[field.name] = field.default
    if told or left:
        raise TypeError(f"{told or sorted(left)} is one value too many")
    return found


_MADE = object()
"""Stands for a value that is made for each object."""


def _compiled(kind: type[Any]) -> Callable[..., None]:
    """The ``__init__`` of the fields of `kind`, as the standard library would write it."""
    own = dataclasses.fields(kind)
    placed = [_parameter(f) for f in own if f.init and not f.kw_only]
    named = [_parameter(f) for f in own if f.init and f.kw_only]
    lines = [f"self.__dict__.update({', '.join([told for f in own for told in _told(f)])})"]
    if hasattr(kind, "__post_init__"):
        lines.append("self.__post_init__()")
    parameters = ", ".join(["self", *placed, *(["*", *named] if named else [])])
    scope: dict[str, Any] = {"MADE": _MADE}
    scope |= {f"of_{f.name}": f.default for f in own if f.default is not dataclasses.MISSING}
    scope |= {f"make_{f.name}": f.default_factory for f in own}
    exec(f"def __init__({parameters}):\n  " + "\n  ".join(lines), scope)
    made: Callable[..., None] = scope["__init__"]
    made.__qualname__ = f"{kind.__qualname__}.__init__"
    return made


def _parameter(field: dataclasses.Field[Any]) -> str:
    if field.default is not dataclasses.MISSING:
        return f"{field.name}=of_{field.name}"
    return field.name if field.default_factory is dataclasses.MISSING else f"{field.name}=MADE"


def _told(field: dataclasses.Field[Any]) -> Iterator[str]:
    """The value of a field, by its name; nothing where it is neither given nor made."""
    name, made = field.name, field.default_factory is not dataclasses.MISSING
    if made and field.init:
        yield f"{name}=make_{name}() if {name} is MADE else {name}"
    elif made:
        yield f"{name}=make_{name}()"
    elif field.init:
        yield f"{name}={name}"


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


_METHODS: dict[str, Any] = {"__init__": _first, "__eq__": _eq, "__repr__": _repr}
_FROZEN: dict[str, Any] = {"__hash__": _hash, "__setattr__": _refuse, "__delattr__": _refuse}
_MUTABLE: dict[str, Any] = {"__hash__": None}

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    dataclass = _light
