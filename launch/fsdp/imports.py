"""Import statements of the parts of `fsdp_plan.py`, each once at its head."""

from __future__ import annotations

import re


def split(text: str) -> tuple[str, str]:
    """(imports, rest) of a part, without its docstring."""
    start = text.index('"""', 3) + 3
    body = re.search(r"^(?:def|class|[A-Z_]+ =)", text, flags=re.MULTILINE)
    assert body is not None
    return text[start : body.start()], text[body.start() :]


def merged(heads: list[str]) -> str:
    """Import statements of all parts, each once, `from __future__` first, sorted by module."""
    plain: set[str] = set()
    named: dict[str, set[str]] = {}
    for head in heads:
        joined = re.sub(r"\(\s*([^)]*?),?\s*\)", lambda m: " ".join(m[1].split()), head)
        for line in filter(None, (line.strip() for line in joined.splitlines())):
            if line.startswith("import "):
                plain.add(line)
            else:
                source, _, what = line.removeprefix("from ").partition(" import ")
                named.setdefault(source, set()).update(name.strip() for name in what.split(","))
    named.pop("__future__")
    ours = {source for source in named if source.startswith("torch")}
    blocks = [
        ["from __future__ import annotations"],
        [*sorted(line for line in plain if "torch" not in line), *_froms(named, set(named) - ours)],
        [*sorted(line for line in plain if "torch" in line), *_froms(named, ours)],
    ]
    return "\n\n".join("\n".join(block) for block in blocks)


def _froms(named: dict[str, set[str]], sources: set[str]) -> list[str]:
    return [_import(source, named[source]) for source in sorted(sources)]


def _import(source: str, names: set[str]) -> str:
    line = f"from {source} import {', '.join(sorted(names))}"
    if len(line) <= 100:
        return line
    return f"from {source} import (\n" + "".join(f"    {name},\n" for name in sorted(names)) + ")"
