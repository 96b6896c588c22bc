"""The base of every public type: frozen, strict about unknown keys, round-trips through JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """Immutable data that refuses unknown fields and non-finite numbers."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, ser_json_inf_nan="null", defer_build=True
    )

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with some fields replaced, which derives its cached properties anew."""
        found = super().model_copy(update=update, deep=deep)
        for name in [name for name in found.__dict__ if name not in type(self).model_fields]:
            del found.__dict__[name]
        return found
