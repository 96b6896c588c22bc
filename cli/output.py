"""Writing what `-o` names: a file or a folder, whole or not at all, never over another without --force."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ..inputs import InputError, write_folder


def refuse_taken(path: str, *, force: bool) -> None:
    """Refuses `path` before any work is done when something stands there and `force` is not given."""
    if not path.strip():
        raise InputError("output", path, "-o", "is empty", code="no-file")
    if path == "-":
        return
    _refuse_closed(path)
    if force:
        return
    try:
        taken = os.path.lexists(path) and not (os.path.isdir(path) and not os.listdir(path))
    except (OSError, ValueError) as error:
        raise InputError("output", path, "-o", f"cannot be written: {error}", code="output-exists") from None
    if taken:
        reason = "exists; nothing is overwritten without --force"
        raise InputError("output", path, "-o", reason, code="output-exists")


def _refuse_closed(path: str) -> None:
    """Refuses `path` where the nearest folder above it that exists is none, or takes no files."""
    try:
        above = Path(path).absolute().parent
        while not os.path.lexists(above):
            above = above.parent
        reason = "may not be written in" if above.is_dir() else "is not a folder"
        closed = not (above.is_dir() and os.access(above, os.W_OK | os.X_OK))
    except (OSError, ValueError) as error:
        raise InputError("output", path, "-o", f"cannot be written: {error}", code="output-exists") from None
    if closed:
        reason = f"cannot be written: {above} {reason}"
        raise InputError("output", path, "-o", reason, code="output-exists")


def write_file(path: str, text: str, *, force: bool) -> None:
    """Writes `text` to the file `path`: a killed process leaves the old file or the new one."""
    refuse_taken(path, force=force)
    target = Path(path)
    try:
        if target.is_dir():
            raise InputError("output", path, "-o", "is a folder", code="output-exists")
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, fresh = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(fresh, 0o644)
            os.replace(fresh, target)
        finally:
            Path(fresh).unlink(missing_ok=True)
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        reason = f"cannot be written: {getattr(error, 'strerror', None) or error}"
        raise InputError("output", path, "-o", reason, code="output-exists") from None


def write_all(path: str, files: Mapping[str, str], *, force: bool) -> list[Path]:
    """Writes `files` into the folder `path`; returns their paths."""
    try:
        return write_folder(Path(path), files, force=force)
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError("output", path, "-o", f"cannot be written: {error}", code="output-exists") from None


def as_text(files: Mapping[str, str]) -> str:
    """`files` for the screen: one as it is, several each under its name.

    >>> as_text({"a": "1\\n"})
    '1\\n'
    """
    if len(files) == 1:
        return next(iter(files.values()))
    return "\n".join(f"==> {name} <==\n{text}" for name, text in files.items())
