"""`dataclass` as of the standard library, whose methods are not compiled whenever a process starts.

Python 3.11 writes the source of up to seven methods for each data class and compiles them as the class is
made: 0.6 ms of CPU a class, of which a plan loads eighty. Here the standard library only gathers the fields
(0.04 ms), so that its `fields` and `replace` work; ``__init__`` is compiled when the first object is made,
and the other methods are the same few functions for all classes.

>>> @dataclass(frozen=True)
... class Card:
...     name: str
...     count: int = 1
>>> Card("H100"), Card("H100") == Card("H100", 1)
(Card(name='H100', count=1), True)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
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


def _first(self: Any, *given: Any, **named: Any) -> None:
    """Makes the first object of a class, and the ``__init__`` of all later ones."""
    kind = type(self)
    kind.__init__ = _compiled(kind)
    kind.__init__(self, *given, **named)


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
