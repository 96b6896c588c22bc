"""DeepSpeed's hostfile: a machine and its cards a line."""

from __future__ import annotations

import re
from typing import Any

from ...inputs import InputError

_HOST = re.compile(r"(\S+)\s+slots=(\d{1,6})")


def hosts(text: str, name: str) -> tuple[dict[str, Any], dict[str, int]]:
    """Cards by machine, and the line of each.

    >>> hosts("a slots=8\\nb slots=8\\n", "hostfile")[0]
    {'hosts': {'a': 8, 'b': 8}}
    """
    slots: dict[str, int] = {}
    lines: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.partition("#")[0].strip()
        if not bare:
            continue
        found = _HOST.fullmatch(bare)
        if found is None:
            reason = "a line names a machine and its cards"
            raise InputError("hostfile", bare, f"{name}:{number}", reason, legal=["node-0 slots=8"])
        if found[1] in slots:
            raise InputError("hostfile", found[1], f"{name}:{number}", "stands twice", code="bad-file")
        slots[found[1]] = int(found[2])
        lines[f"hosts.{found[1]}"] = number
    return {"hosts": slots}, lines
