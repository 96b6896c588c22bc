"""On which line of a TOML or JSON text each key stands."""

from __future__ import annotations

import json
import re

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]#]+?)\s*\]\]?\s*(?:#.*)?")
_WORD = r"""(?:[A-Za-z0-9_-]+|"[^"\\]*"|'[^']*')"""
_KEY = re.compile(rf"\s*({_WORD}(?:\s*\.\s*{_WORD})*)\s*=")
_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|[{}\[\],:]|\n')


LONGEST_LINE = 1000
"""Lines longer than this are passed over: no key begins on them that a person could look up."""


def toml_lines(text: str) -> dict[str, int]:
    """Line (from 1) of each key of a TOML text by its dotted path; keys of inline tables share a line.

    Tables of a list, ``[[cluster.pool]]``, stand under their number from 0.

    >>> toml_lines('a = 1\\n[cluster]\\nnodes = 4')
    {'a': 1, 'cluster': 2, 'cluster.nodes': 3}
    """
    found: dict[str, int] = {}
    table, entries = "", dict[str, int]()
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > LONGEST_LINE:
            continue
        header = _HEADER.fullmatch(line)
        key = None if header else _KEY.match(line)
        if header:
            table = _plain(header[2])
            found.setdefault(table, number)
            if header[1] == "[[":
                entries[table] = entries.get(table, -1) + 1
                table = f"{table}.{entries[table]}"
                found[table] = number
        elif key:
            name = _plain(key[1])
            found.setdefault(f"{table}.{name}" if table else name, number)
    return found


def _plain(dotted: str) -> str:
    return ".".join(part.strip().strip("\"'") for part in dotted.split("."))


def json_lines(text: str) -> dict[str, int]:
    """Line (from 1) of each key of a JSON text by its dotted path, objects inside lists left out.

    >>> json_lines('{"cluster": {\\n"nodes": 4}}')
    {'cluster': 1, 'cluster.nodes': 2}
    """
    found: dict[str, int] = {}
    stack: list[str | None] = []
    key: str | None = None
    line, text_line, text_token = 1, 1, ""
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token == "\n":
            line += 1
        elif token[0] == '"':
            text_token, text_line = token, line
        elif token == ":" and stack and stack[-1] is not None:
            key = _decoded(text_token)
            path = ".".join([part for part in stack if part] + [key])
            found.setdefault(path, text_line)
        elif token == "{":
            inside_list = bool(stack) and stack[-1] is None
            stack.append(None if inside_list else (key or ""))
            key = None
        elif token == "[":
            stack.append(None)
        elif token in "}]" and stack:
            stack.pop()
    return found


def _decoded(token: str) -> str:
    try:
        return str(json.loads(token))
    except ValueError:
        return token


def json_places(text: str, name: str, root: str) -> dict[str, str]:
    """Place (``name:line``) of each key of a JSON text by its dotted path under `root`.

    >>> json_places('{"a":\\n1}', "s.json", "strategy")
    {'strategy': 's.json', 'strategy.a': 's.json:1'}
    """
    return {root: name} | {f"{root}.{path}": f"{name}:{line}" for path, line in json_lines(text).items()}
