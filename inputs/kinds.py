"""Arguments of other types: each public function refuses them with the one error, naming the argument."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from .error import InputError


def refuse_other(value: object, kind: type, field: str = "") -> None:
    """Refuses an argument that is no `kind`; `field` names it, by default as the kind is called."""
    if not isinstance(value, kind):
        reason = f"must be a {kind.__name__}, not {type(value).__name__}"
        raise InputError(field or kind.__name__.lower(), value, "argument", reason)


def path_of(value: Any, field: str) -> str:
    """The path in `value`, text or a `Path`; refuses anything else.

    >>> path_of("a/b", "model")
    'a/b'
    """
    if not isinstance(value, str | os.PathLike) or not isinstance(os.fspath(value), str):
        reason = f"must be the path of a file, not {type(value).__name__}"
        raise InputError(field, value, "argument", reason)
    return str(os.fspath(value))


def refuse_no_mapping(value: object, field: str) -> None:
    """Refuses what maps no names to values."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        reason = f"must map field names to values, not be {type(value).__name__}"
        raise InputError(field, value, "argument", reason)


def refuse_no_list(value: object, kind: type, field: str) -> None:
    """Refuses what is no sequence of `kind`; one text alone is none."""
    no_list = isinstance(value, str | bytes) or not isinstance(value, Sequence)
    entries: Sequence[object] = (None,) if no_list else value  # type: ignore[assignment]
    if not all(isinstance(entry, kind) and not isinstance(entry, bool) for entry in entries):
        raise InputError(field, value, "argument", f"must be a list, each entry {kind.__name__}")
