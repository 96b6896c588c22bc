"""On which line of a TOML or JSON text each key stands."""

from __future__ import annotations

import json
import re

from .record import dataclass

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
    """Line (from 1) of each key of a JSON text by its dotted path, objects of lists by number.

    >>> json_lines('{"pool": [\\n{"nodes": 4},\\n{"nodes": 2}]}')
    {'pool': 1, 'pool.0': 2, 'pool.0.nodes': 2, 'pool.1': 3, 'pool.1.nodes': 3}
    """
    found: dict[str, int] = {}
    stack: list[_Open] = []
    line, text_line, text_token = 1, 1, ""
    for match in _TOKEN.finditer(text):
        token = match[0]
        inside = stack[-1] if stack else None
        if token == "\n":
            line += 1
        elif token[0] == '"':
            text_token, text_line = token, line
        elif token == ":" and inside and not inside.is_list:
            inside.last = _decoded(text_token)
            found.setdefault(inside.path, text_line)
        elif token == "," and inside and inside.is_list:
            inside.last = str(int(inside.last) + 1)
        elif token in "{[":
            stack.append(_Open(inside.path if inside else "", token == "[", "0" if token == "[" else ""))
            if token == "{" and inside and inside.is_list:
                found.setdefault(inside.path, line)
        elif token in "}]" and stack:
            stack.pop()
    return found


@dataclass
class _Open:
    """An object or list that is being read: where it stands, and the key or number of the value met last."""

    above: str
    is_list: bool
    last: str

    @property
    def path(self) -> str:
        """Of the value met last."""
        return f"{self.above}.{self.last}" if self.above else self.last


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
