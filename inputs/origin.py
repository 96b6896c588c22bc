"""Where each value of a request came from, and errors that say so."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pydantic import BaseModel, ValidationError

from .error import InputError
from .names import nearest

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

DEFAULT = "default"

_LINE = re.compile(r":\d+$")
"""The end of an origin that names a line, which no table around the field knows better."""

_REASONS = {
    "missing": "is required",
    "extra_forbidden": "is not known",
    "finite_number": "must be a finite number",
    "int_parsing_size": "is too large",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "string_type": "must be text",
    "literal_error": "is not a known choice",
    "tuple_type": "must be a list",
    "model_type": "must be a table of fields",
    "model_attributes_type": "must be a table of fields",
    "dict_type": "must be a table of fields",
}  # fmt: skip
_PLAIN = ("bool_type", "int_type", "float_type")
"""Findings on values of one type alone, where text that looks like a value is none."""
_BOUNDS = {
    "greater_than_equal": ("ge", "must be at least {}"),
    "greater_than": ("gt", "must be greater than {}"),
    "less_than_equal": ("le", "must be at most {}"),
    "less_than": ("lt", "must be less than {}"),
    "too_short": ("min_length", "must hold at least {} entries"),
    "too_long": ("max_length", "must hold at most {} entries"),
    "string_too_long": ("max_length", "must be at most {} characters long"),
}


def origin_of(origins: Mapping[str, str], field: str) -> str:
    """Origin of the dotted `field`: its own, else that of the nearest table around it, else "default".

    >>> origin_of({"cluster": "job.toml:2"}, "cluster.nodes"), origin_of({}, "cluster.nodes")
    ('job.toml:2', 'default')
    """
    while field:
        if field in origins:
            return origins[field]
        field = field.rpartition(".")[0]
    return DEFAULT


def placed(error: InputError, origins: Mapping[str, str], root: str = "") -> InputError:
    """`error` with its field under `root` and the origin that `origins` knows for it."""
    field = error.field
    if root and field != root and not field.startswith(f"{root}."):
        field = f"{root}.{field}"
    known = origins.get(field) or (error.origin if _LINE.search(error.origin) else origin_of(origins, field))
    origin = known if known != DEFAULT else error.origin
    return InputError(field, error.value, origin, error.reason, legal=error.legal, code=error.code)


def as_input_error(
    error: ValidationError, origins: Mapping[str, str], root: str = "", of: type[BaseModel] | None = None
) -> InputError:
    """The first finding of pydantic as our one error, in our words.

    `root` is the dotted path of what was validated; `of` is its type, which knows the legal names
    where a field is unknown.
    """
    first = error.errors(include_url=False)[0]
    path = _path(first["loc"])
    field = ".".join([root, *path] if root else path) or "request"
    kind, value, context = first["type"], first["input"], first.get("ctx", {})
    inner = context.get("error")
    if isinstance(inner, InputError):
        return placed(inner, origins, root)
    origin = origin_of(origins, field)
    if kind in _BOUNDS:
        key, words = _BOUNDS[kind]
        bound = f"{context[key]:g}" if isinstance(context[key], float) else str(context[key])
        legal = [bound] if key in ("ge", "le") else []
        return InputError(field, value, origin, words.format(bound), legal=legal)
    if kind == "missing":
        return InputError(field, "nothing", origin, _REASONS[kind], code="missing")
    if kind == "extra_forbidden":
        legal = _names_beside(of, path)
        return InputError(field, value, origin, _REASONS[kind], legal=legal, code="unknown-field")
    if kind == "literal_error":
        known = re.findall(r"'([^']*)'", str(context.get("expected", "")))
        ranked = nearest(str(value), known, len(known))
        legal = [*ranked, *(word for word in known if word not in ranked)]
        return InputError(field, value, origin, _REASONS[kind], legal=legal)
    reason = _REASONS.get(kind) or str(inner or first["msg"])
    if kind in _PLAIN and isinstance(value, str):
        reason += ", not text"
    return InputError(field, value, origin, reason, legal=_meant(kind, value, _told(of, path)))


def _meant(kind: str, value: object, field: FieldInfo | None) -> list[str]:
    """What may be given in place of a value of the wrong type."""
    from .meant import example, numbers, truths, words

    if kind.startswith("bool_"):
        return truths(value)
    if kind.startswith(("int_", "float_", "finite_")):
        return numbers(value, kind.startswith("int_")) or example(field)
    return words(field) if kind == "tuple_type" else []


def _path(loc: tuple[int | str, ...]) -> list[str]:
    """Words of a place; of the places in lists those of tables, which have keys of their own.

    >>> _path(("stages", 1, "layers")), _path(("frozen", 0))
    (['stages', '1', 'layers'], ['frozen'])
    """
    named = [*(isinstance(part, str) for part in loc[1:]), False]
    return [str(part) for part, before in zip(loc, named, strict=False) if isinstance(part, str) or before]


def _holder(of: type[BaseModel] | None, path: list[str]) -> type[BaseModel] | None:
    """The type of the table that holds the last word of `path`."""
    for word in path[:-1]:
        field = of.model_fields.get(word) if of else None
        found = field.annotation if field else None
        of = found if isinstance(found, type) and issubclass(found, BaseModel) else None
    return of if path else None


def _names_beside(of: type[BaseModel] | None, path: list[str]) -> list[str]:
    """Fields that stand beside the last word of `path`, nearest first."""
    holder = _holder(of, path)
    return nearest(path[-1], holder.model_fields) if holder else []


def _told(of: type[BaseModel] | None, path: list[str]) -> FieldInfo | None:
    """What the type says of the field at `path`."""
    holder = _holder(of, path)
    return holder.model_fields.get(path[-1]) if holder else None
