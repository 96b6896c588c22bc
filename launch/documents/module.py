"""Constants at the head of a Python file, read from its syntax tree: the file is never imported."""

from __future__ import annotations

import ast
from typing import Any

from ...inputs import InputError

LARGEST = 2**17
"""Characters of a module; one of ours has 12,000."""


def constants(text: str, name: str) -> tuple[dict[str, Any], dict[str, int]]:
    """Upper-case names bound to plain values (`torch.bfloat16` reads as "bfloat16"), and their lines.

    >>> constants("WORLD_SIZE = 8\\nREDUCE_DTYPE = torch.float32\\n", "m.py")[0]
    {'WORLD_SIZE': 8, 'REDUCE_DTYPE': 'float32'}
    """
    if len(text) > LARGEST:
        raise InputError("file", name, name, f"is longer than {LARGEST} characters", code="too-large")
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        where = f"{name}:{error.lineno or 1}"
        raise InputError("file", name, where, "is not Python", code="bad-file") from None
    except (RecursionError, MemoryError, ValueError):
        raise InputError("file", name, name, "is nested too deeply", code="bad-file") from None
    values: dict[str, Any] = {}
    lines: dict[str, int] = {}
    for node in tree.body:
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            continue
        key = node.targets[0].id
        if key.isupper():
            values[key], lines[key] = _plain(node.value), node.lineno
    return values, lines


def _plain(node: ast.expr) -> Any:
    if isinstance(node, ast.Attribute):
        return node.attr
    try:
        return ast.literal_eval(node)
    except (ValueError, RecursionError, MemoryError, TypeError):
        return None
