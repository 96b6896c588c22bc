"""Pydantic's first finding as the one input error, for files that describe hardware."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from ...inputs.origin import as_input_error

Type = TypeVar("Type", bound=BaseModel)


def checked(kind: type[Type], fields: Mapping[str, Any], origin: str, root: str = "cluster") -> Type:
    """`fields` as a `kind`, or one `InputError` on the dotted field under `root`."""
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        raise as_input_error(error, {root: origin}, root, kind) from None
