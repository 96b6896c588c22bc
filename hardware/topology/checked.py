"""Pydantic's first finding as the one input error, for files that describe hardware."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from ...inputs import InputError, nearest

Type = TypeVar("Type", bound=BaseModel)


def checked(kind: type[Type], fields: Mapping[str, Any], origin: str, root: str = "cluster") -> Type:
    """`fields` as a `kind`, or one `InputError` on the dotted field under `root`."""
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    inner = first.get("ctx", {}).get("error")
    if isinstance(inner, InputError):
        raise inner
    field = ".".join([root, *map(str, first["loc"])])
    if first["type"] == "extra_forbidden":
        legal = nearest(str(first["loc"][-1]), kind.model_fields)
        raise InputError(field, first["input"], origin, "is not known", legal=legal, code="unknown-field")
    if first["type"] == "literal_error":
        known = re.findall(r"'([^']*)'", str(first["ctx"]["expected"]))
        near = nearest(str(first["input"]), known, len(known))
        words = [*near, *(word for word in known if word not in near)]
        raise InputError(field, first["input"], origin, "is not a known choice", legal=words)
    value = "nothing" if first["type"] == "missing" else first["input"]
    raise InputError(field, value, origin, str(inner or first["msg"]).lower())
