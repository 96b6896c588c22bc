"""Reading files of unknown quality and writing folders whole or not at all."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from .error import InputError
from .exchange import put
from .kinds import path_of

MAX_BYTES = 8 * 2**20
"""Largest text file read, bytes: a config.json or request has kilobytes, the longest known 1 MB."""


_OTHERS = {
    "version https://git-": "is a pointer of Git LFS, not the file: `git lfs pull` fetches it",
    "<!doctype": "is a web page, not the file: save the raw one",
    "<html": "is a web page, not the file: save the raw one",
}
"""How files begin that are often taken for the JSON they stand for."""


def read_text(path: str | os.PathLike[str], field: str) -> str:
    """The UTF-8 text of `path`, or one `InputError` naming `field`.

    Refuses what is missing, no plain file, larger than `MAX_BYTES`, empty, binary or not UTF-8.
    """
    name = path_of(path, field)
    try:
        if not os.path.isfile(name):
            what = "is no plain file" if os.path.exists(name) else "no such file"
            what = "is a folder" if os.path.isdir(name) else what
            raise InputError(field, name, name, what, code="no-file")
        with open(name, "rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(field, name, name, f"cannot be read: {reason}", code="no-file") from None
    if len(raw) > MAX_BYTES:
        raise InputError(field, name, name, f"is larger than {MAX_BYTES} bytes", code="too-large")
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError(field, name, name, "is UTF-16: save it as UTF-8", code="bad-file")
    if b"\0" in raw:
        raise InputError(field, name, name, "is binary, not text", code="bad-file")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(field, name, name, f"is not UTF-8 (byte {error.start})", code="bad-file") from None
    if not text.strip():
        raise InputError(field, name, name, "is empty", code="bad-file")
    return text


def parse_json(
    text: str, field: str, origin: str, not_finite: Callable[[str], object] | None = None
) -> dict[str, object]:
    """The JSON object in `text`; refuses duplicate keys, other types and deep nesting.

    NaN and Infinity are refused too, unless `not_finite` makes something of the word.
    """

    def refuse(word: str) -> object:
        raise InputError(field, word, origin, "is not a finite number", code="bad-file")

    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        seen: dict[str, object] = {}
        for key, value in pairs:
            if key in seen:
                where = f"{origin}{_second(text, key)}"
                raise InputError(key, value, where, "stands twice in one object", code="bad-file")
            seen[key] = value
        return seen

    try:
        found = json.loads(text, parse_constant=not_finite or refuse, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        where, place = f"{origin}:{error.lineno}", f"at line {error.lineno}, column {error.colno}"
        plain = f"is not JSON: {error.msg.removesuffix(' starting at')} ({place})"
        raise InputError(field, origin, where, _other(text) or plain, code="bad-file") from None
    except RecursionError:
        raise InputError(field, origin, origin, "is nested too deeply", code="bad-file") from None
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(field, origin, origin, "holds a number too long to read", code="bad-file") from None
    if not isinstance(found, dict):
        reason = f"must hold a JSON object, not {type(found).__name__}"
        raise InputError(field, origin, origin, reason, code="bad-file")
    return found


def _other(text: str) -> str | None:
    """What a text is that begins as no JSON does."""
    start = text.lstrip()[:20].lower()
    return next((what for words, what in _OTHERS.items() if start.startswith(words)), None)


def _second(text: str, key: str) -> str:
    """ ":line" of the second place where `key` stands, if it stands twice and nowhere else."""
    places = [found.start() for found in re.finditer(re.escape(json.dumps(key)) + r"\s*:", text)]
    return f":{text.count(chr(10), 0, places[1]) + 1}" if len(places) == 2 else ""


def read_json(path: str | os.PathLike[str], field: str) -> dict[str, object]:
    """The JSON object in the file `path`, or one `InputError`."""
    return parse_json(read_text(path, field), field, os.fspath(path))


def write_folder(folder: Path, files: Mapping[str, str], *, force: bool) -> list[Path]:
    """Write `files` (name to text) into `folder`, whole or not at all; returns their paths.

    The folder is made beside its place and renamed into it, so that a killed process leaves the old
    one or the new one. Without `force` an existing, non-empty `folder` is refused.
    """
    folder = Path(folder)
    try:
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            raise InputError("output", str(folder), "-o", "is not a folder", code="output-exists")
        if folder.is_dir() and any(folder.iterdir()) and not force:
            reason = "exists; nothing is overwritten without --force"
            raise InputError("output", str(folder), "-o", reason, code="output-exists")
        folder.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        try:
            for name, text in files.items():
                (fresh / name).write_text(text, encoding="utf-8")
            fresh.chmod(0o755)
            put(fresh, folder)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    except OSError as error:
        raise InputError("output", str(folder), "-o", f"cannot be written: {error.strerror}") from None
    return [folder / name for name in files]
