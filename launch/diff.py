"""A patch as text: the file with its keys written otherwise, as a unified diff that `patch` and git apply."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from difflib import unified_diff
from typing import Any

from ..inputs import InputError
from .bundle import Client
from .documents import Document
from .documents.document import document_of
from .patch import BESIDE, GONE, NOTHING, WORD, Change, leaves

_LIST = re.compile(r"\[\s*([^\[\]{}]*?)\s*\]")
"""A list of plain values over several lines."""

_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][-+]?\d+)?")
_JOINT = {"yaml": ":", "toml": " ="}
"""What stands between a key and its value."""


def diff(text: str, file: Document, client: Client, changes: Sequence[Change]) -> str | None:
    """The unified diff that makes `text`, the content of `file`, say what `changes` say.

    None where nothing changes, for a module of ours, which is written anew instead, and where the file is
    written in a way that the edit does not reach: the edited text is read again, and must then say all of it.
    """
    if not changes or file.kind == "module":
        return None
    edited = _edited(text, file, client, changes)
    if edited == text or not _says(edited, file, client, changes):
        return None
    lines = unified_diff(text.splitlines(), edited.splitlines(), file.name, file.name, lineterm="")
    return "\n".join([*lines, ""])


def _says(text: str, file: Document, client: Client, changes: Sequence[Change]) -> bool:
    """Whether the edited text, read again, holds every value and nothing that should be gone."""
    try:
        found = leaves(document_of(text, file.name), client)
    except InputError:
        return False
    return all(
        found.get(change.path) == (None if change.better == GONE else change.better) for change in changes
    )


def _edited(text: str, file: Document, client: Client, changes: Sequence[Change]) -> str:
    if file.kind == "json":
        return _json(text, changes)
    lines = text.splitlines()
    if file.kind == "yaml":
        changes = [*changes, *_tables(file, changes)]
    for change in sorted(changes, key=lambda each: each.line, reverse=True):
        if file.kind == "script":
            _flag(lines, client, change)
        else:
            _line(lines, file, change)
    return "\n".join([*lines, ""])


def _tables(file: Document, changes: Sequence[Change]) -> Iterator[Change]:
    """Headings of tables whose keys are all new, or all gone, as changes of their own."""
    for name in dict.fromkeys(change.path.rpartition(".")[0] for change in changes):
        held: Any = file.get(name) if name else None
        inner = {change.path.rpartition(".")[2]: change.better for change in changes}
        if name and held is None:
            yield Change(file.name, END, name, NOTHING, "", name)
        elif name and all(inner.get(key) == GONE for key in held):
            yield Change(file.name, file.line(name), name, "", GONE, name)


END = 2**31
"""A line behind all others."""


def _json(text: str, changes: Sequence[Change]) -> str:
    """The tables changed and written again with the indent of the file, short lists on one line."""
    values = json.loads(text)
    for change in changes:
        _set(values, change.path.split("."), change.better)
    indent = re.search(r"\n( +)\S", text)
    told = json.dumps(values, indent=len(indent[1]) if indent else 2, ensure_ascii=False)
    return _LIST.sub(lambda found: f"[{' '.join(found[1].split())}]", told) + "\n"


def _set(table: dict[str, Any], path: list[str], word: str) -> None:
    """Sets or removes the value at a path; a table that is empty then goes too."""
    key, *inner = path
    if inner:
        _set(table.setdefault(key, {}), inner, word)
        if not table[key]:
            del table[key]
    elif word == GONE:
        table.pop(key, None)
    else:
        table[key] = json.loads(_json_word(word))


def _json_word(word: str) -> str:
    plain = word in ("true", "false", "null") or _NUMBER.fullmatch(word)
    return word if plain else json.dumps(word)


def _line(lines: list[str], file: Document, change: Change) -> None:
    """One line of a YAML file or a table: another value, none, or a new one."""
    joint, key = _JOINT[file.kind], change.path.rpartition(".")[2]
    at = change.line - 1
    if change.value == NOTHING:
        depth = change.path.count(".") if file.kind == "yaml" else 0
        heading = re.compile(rf"{re.escape(change.path.partition('.')[0])}\s*:\s*$")
        inside = next((index for index, line in enumerate(lines) if depth and heading.match(line)), None)
        word = f" {_json_word(change.better)}" if change.better else ""
        lines.insert(len(lines) if inside is None else inside + 1, f"{'  ' * depth}{key}{joint}{word}")
    elif change.better == GONE:
        del lines[at]
    else:
        value = re.compile(rf"^(\s*[\"']?{re.escape(key)}[\"']?\s*{joint.strip()}\s*)([^#]*?)(\s*(#.*)?)$")
        lines[at] = value.sub(lambda found: f"{found[1]}{_json_word(change.better)}{found[3]}", lines[at])


def _option(lines: list[str], change: Change) -> None:
    """An option of torchtitan: spelled otherwise where it stands, or one more line before the last."""
    new = _spelled(change.key, change.better)
    if change.value == NOTHING:
        _insert(lines, max(_arguments(lines), default=0), new)
        return
    old = re.compile(rf"{re.escape(_spelled(change.key, change.value))}(?=\s|$)")
    lines[:] = [old.sub("" if change.better == GONE else new, line) for line in lines]


def _spelled(key: str, value: str) -> str:
    """A key of torchtitan with its value as a command line has it."""
    if key == f"--{WORD[:-1]}":
        return f"{WORD}{value}"
    section, _, name = key.rpartition(".")
    return {"true": key, "false": f"{section}.no_{name}"}.get(value, f"{key} {value}")


def _arguments(lines: Sequence[str]) -> list[int]:
    """Lines that begin with an argument."""
    return [index for index, line in enumerate(lines) if line.lstrip().startswith("--")]


def _neighbour(lines: Sequence[str], key: str, at: int) -> int:
    """The line beside which a new flag stands: the last of its group, else the last that a plan decides."""
    group = next((flags for flags in BESIDE if key in flags), frozenset())
    found = {index: set(lines[index].split()) for index in _arguments(lines)}
    for flags in (group, frozenset().union(*BESIDE)):
        held = [index for index, words in found.items() if words & flags]
        if held:
            return held[-1]
    return max(found, default=at)


def _insert(lines: list[str], beside: int, text: str) -> None:
    """One more argument beside a line: behind it, or before it where it ends a command or an array."""
    line = lines[beside]
    indent = line[: len(line) - len(line.lstrip())]
    goes_on = line.rstrip().endswith("\\")
    before = beside > 0 and lines[beside - 1].rstrip().endswith("\\")
    behind = goes_on or not (before or line.rstrip().endswith(")"))
    tail = " \\" if goes_on or before else ""
    lines.insert(beside + behind, f"{indent}{text}{tail}")


def _flag(lines: list[str], client: Client, change: Change) -> None:
    """An argument of a script: another value, none, or one more line behind the last argument."""
    if client == "torchtitan":
        _option(lines, change)
        return
    at, value = change.line - 1, "" if change.better == "true" else f" {shlex.quote(change.better)}"
    if change.value == NOTHING:
        _insert(lines, _neighbour(lines, change.key, at), f"{change.key}{value}")
        return
    old = "" if change.value == "true" else rf"[= ]\s*['\"]?{re.escape(change.value)}['\"]?"
    flag = re.compile(rf"{re.escape(change.key)}{old}(?=\s|$)")
    new = "" if change.better == GONE else f"{change.key}{value}"
    lines[at] = re.sub(r"\s+\\$", r" \\", flag.sub(new, lines[at], count=1))
    if not lines[at].strip(" \\"):
        ends = not lines[at].rstrip().endswith("\\")
        del lines[at]
        if ends and at:
            lines[at - 1] = lines[at - 1].rstrip().removesuffix("\\").rstrip()
