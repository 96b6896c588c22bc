"""The base of every public type: frozen, strict about unknown keys, round-trips through JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError


class Frozen(BaseModel):
    """Immutable data that refuses unknown fields and non-finite numbers."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, ser_json_inf_nan="null", defer_build=True
    )

    if not TYPE_CHECKING:  # type checkers have the fields of each type from pydantic's own

        def __init__(self, /, **data: Any) -> None:
            """As pydantic, but what is wrong is told as `InputError`: the field, its value, what is legal."""
            try:
                super().__init__(**data)
            except ValidationError as error:
                from .origin import as_input_error

                called = dict.fromkeys((*type(self).model_fields, *data), f"{type(self).__name__}(...)")
                raise as_input_error(error, called, of=type(self)) from None

        __init__.__pydantic_base_init__ = True
        """Pydantic's own mark: validating what nests in another type does not call it."""

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with some fields replaced, which derives its cached properties anew."""
        found = super().model_copy(update=update, deep=deep)
        for name in [name for name in found.__dict__ if name not in type(self).model_fields]:
            del found.__dict__[name]
        return found
