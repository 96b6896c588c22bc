"""What every reader of the outside world needs: one error, near names, bounded files, frozen data."""

from .error import InputError
from .files import read_json, read_text, write_folder
from .frozen import Frozen
from .names import nearest

__all__ = ["Frozen", "InputError", "nearest", "read_json", "read_text", "write_folder"]
