"""What every reader of the outside world needs: one error, near names, bounded files, frozen data.

Names are imported when first asked for: `Frozen` takes pydantic, and the command line's help needs none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .rooms import rooms

if TYPE_CHECKING:
    from .error import InputError, shorten
    from .files import read_json, read_text, write_folder
    from .frozen import Frozen
    from .names import nearest

__all__ = ["Frozen", "InputError", "nearest", "read_json", "read_text", "shorten", "write_folder"]

__getattr__ = rooms(
    __name__,
    {
        "error": ("InputError", "shorten"),
        "files": ("read_json", "read_text", "write_folder"),
        "frozen": ("Frozen",),
        "names": ("nearest",),
    },
)
