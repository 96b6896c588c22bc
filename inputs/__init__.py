"""What every reader of the outside world needs: one error, near names, bounded files, frozen data.

`Frozen` is imported when first asked for: it takes pydantic, which a reader of files does without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .error import InputError, shorten
from .files import read_json, read_text, write_folder
from .names import nearest

if TYPE_CHECKING:
    from .frozen import Frozen

__all__ = ["Frozen", "InputError", "nearest", "read_json", "read_text", "shorten", "write_folder"]


def __getattr__(name: str) -> Any:
    if name != "Frozen":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .frozen import Frozen

    return Frozen
