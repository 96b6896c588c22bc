"""One file of another tool: its values, and on which line each stands."""

from __future__ import annotations

import os
from dataclasses import field
from typing import Any, Literal

from ...inputs import InputError, read_text
from ...inputs.record import dataclass
from ...inputs.tables import json_tables, toml_tables

Kind = Literal["json", "yaml", "toml", "script", "module", "hostfile"]

LARGEST = 2**18
"""Characters of a configuration or script; the longest known have tens of thousands."""

ENDINGS: dict[str, Kind] = {
    ".json": "json",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".toml": "toml",
    ".py": "module",
    ".sh": "script",
    ".bash": "script",
    ".sbatch": "script",
    ".slurm": "script",
    ".txt": "script",
    ".args": "script",
}


@dataclass(frozen=True)
class Document:
    """`values` are the tables of the file; a script has the tables of `script.Script`.

    `lines` maps dotted paths to lines, from 1.
    """

    name: str
    kind: Kind
    values: dict[str, Any] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)

    def get(self, path: str) -> Any:
        """The value at a dotted path, None where there is none."""
        found: Any = self.values
        for part in path.split("."):
            if not isinstance(found, dict) or part not in found:
                return None
            found = found[part]
        return found

    def line(self, path: str) -> int:
        """The line of `path`, or of the nearest table around it; 1 where nothing is known."""
        parts = path.split(".")
        while parts:
            found = self.lines.get(".".join(parts))
            if found is not None:
                return found
            parts.pop()
        return 1

    def where(self, path: str) -> str:
        """`name:line` of a path."""
        return f"{self.name}:{self.line(path)}"

    def wrong(self, path: str, reason: str, legal: tuple[str, ...] = ()) -> InputError:
        """The error of a value that cannot be used."""
        value = self.get(path)
        return InputError(path, "nothing" if value is None else value, self.where(path), reason, legal=legal)


def document(path: str | os.PathLike[str]) -> Document:
    """The file `path`, read by its ending (a file without a known one: by how it begins).

    Raises `InputError` for what is missing, too large, binary, not UTF-8, nested too deeply, or of
    another grammar than its ending says.
    """
    name = os.fspath(path)
    return document_of(read_text(name, "file"), name)


def document_of(text: str, name: str) -> Document:
    """The document in `text`, as of a file `name`."""
    if len(text) > LARGEST:
        reason = f"is longer than {LARGEST} characters"
        raise InputError("file", name, name, reason, code="too-large")
    kind = _kind(name, text)
    values, lines = _tables(kind, text, name)
    return Document(name, kind, values, lines)


def _kind(name: str, text: str) -> Kind:
    base = os.path.basename(name)
    if base.startswith("hostfile"):
        return "hostfile"
    known = ENDINGS.get(os.path.splitext(base)[1].lower())
    return known or ("json" if text.lstrip().startswith("{") else "script")


def _tables(kind: Kind, text: str, name: str) -> tuple[dict[str, Any], dict[str, int]]:
    if kind == "json":
        return json_tables(text, name, "file")
    if kind == "toml":
        return toml_tables(text, name, "file")
    if kind == "yaml":
        from .yaml_text import yaml_tables

        return yaml_tables(text, name)
    if kind == "module":
        from .module import constants

        return constants(text, name)
    if kind == "hostfile":
        from .hostfile import hosts

        return hosts(text, name)
    from .script import script_tables

    return script_tables(text, name)
