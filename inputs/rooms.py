"""The names of a package whose modules are loaded when one of their names is first asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def rooms(package: str, names: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """The module function ``__getattr__`` of `package`; `names` are by the module that holds them.

    None may be called as a module of the package: Python binds those itself.

    >>> ask = rooms("json", {"decoder": ("JSONDecoder",)})
    >>> ask("JSONDecoder").__name__
    'JSONDecoder'
    """
    room_of = {name: room for room, held in names.items() for name in held}

    def ask(name: str) -> Any:
        room = room_of.get(name)
        if room is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{room}"), name)

    return ask
