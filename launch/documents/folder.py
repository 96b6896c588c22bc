"""Several files at once, or the files of a folder that can be read."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ...inputs import InputError
from .document import ENDINGS, Document, document

MOST_FILES = 64
"""Files of a folder, or on one command line."""


def documents(paths: Sequence[str]) -> list[Document]:
    """All of `paths` in order, folders replaced by their files of known kinds, sorted by name.

    The plan and the notes of a folder of ours are left out. Raises `InputError`.
    """
    files = [file for path in paths for file in _files(path)]
    if len(files) > MOST_FILES:
        raise InputError("file", len(files), "argument", f"at most {MOST_FILES} files are read at once")
    return [document(file) for file in files]


def _files(path: str) -> list[str]:
    try:
        if not os.path.isdir(path):
            return [path]
        names = sorted(os.listdir(path))
    except (OSError, ValueError) as error:
        reason = f"cannot be read: {getattr(error, 'strerror', None) or error}"
        raise InputError("file", path, path, reason, code="no-file") from None
    known = [name for name in names if _known(name) and name != "plan.json"]
    if not known:
        raise InputError("file", path, path, "is a folder without any file that is read", code="no-file")
    return [os.path.join(path, name) for name in known]


def _known(name: str) -> bool:
    return name.startswith("hostfile") or os.path.splitext(name)[1].lower() in ENDINGS
