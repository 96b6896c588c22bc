"""The model that a request names: an entry of the catalogue, or the path of a config.json."""

from __future__ import annotations

from pathlib import Path

from ..inputs import InputError
from ..inputs.kinds import path_of
from ..models import ReadReport, Transformer, explain_config, explain_preset


def is_path(text: str) -> bool:
    """Whether `text` means a file or folder, not a catalogue name (which may be ``owner/name``)."""
    outright = text.startswith((".", "/", "~")) or "\\" in text or text.count("/") > 1
    ends = (".json", ".toml", ".txt", ".conf")
    return outright or text.lower().endswith(ends) or exists(Path(text))


def transformer_of(value: str | Path, beside: Path | None = None) -> Transformer:
    """The model behind a catalogue name or the path of a config.json (or its folder).

    A relative path is looked for in the folder `beside` first. Raises `InputError` on field "model".
    """
    return report_of(value, beside).transformer


def report_of(value: str | Path, beside: Path | None = None) -> ReadReport:
    """As `transformer_of`, with the key behind each dimension."""
    text = path_of(value, "model")
    if not text.strip():
        raise InputError("model", text, "model", "is empty", legal=["llama-3.1-8b"])
    near = beside / text if beside and exists(beside / text) else None
    if near is None and isinstance(value, str) and not is_path(text):
        return explain_preset(text)
    return explain_config(near or Path(text))


def exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False
