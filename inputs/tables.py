"""JSON and TOML texts as plain tables, each key with the line it stands on."""

from __future__ import annotations

from typing import Any

from .error import InputError
from .files import parse_json
from .lines import json_lines, toml_lines
from .toml import parse_toml, unreadable


def json_tables(text: str, name: str, field: str) -> tuple[dict[str, Any], dict[str, int]]:
    """The JSON object in `text`, and the line of each key by its dotted path."""
    tree = parse_json(text, field, name)
    wrong = unreadable(tree)
    if wrong:
        raise InputError(field, name, name, wrong, code="bad-file")
    return tree, json_lines(text)


def toml_tables(text: str, name: str, field: str) -> tuple[dict[str, Any], dict[str, int]]:
    """The TOML tables in `text`, and the line of each key by its dotted path."""
    return parse_toml(text, field, name), toml_lines(text)
