"""On which line of a TOML or JSON text each key stands."""

from __future__ import annotations

import json
import re

from .record import dataclass

_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|[{}\[\],:]|\n')

_TOML = re.compile(
    r'''"""(?:\\.|[^\\])*?"""|'{3}.*?'{3}|"(?:\\.|[^"\\\n])*"|'[^'\n]*'|#[^\n]*|[\[\]{},=\n]|[^\s\[\]{},=#"']+''',
    re.DOTALL,
)
"""Strings, comments, marks and bare words of a TOML text."""


def toml_lines(text: str) -> dict[str, int]:
    """Line (from 1) of each key of a valid TOML text by its dotted path.

    What stands in a list, a table ``[[cluster.pool]]`` too, has its number from 0.

    >>> toml_lines('a = 1\\n[cluster]\\nnodes = [4,\\n8]')
    {'a': 1, 'cluster': 2, 'cluster.nodes': 3, 'cluster.nodes.0': 3, 'cluster.nodes.1': 4}
    """
    reader = _TomlLines()
    line = 1
    for match in _TOML.finditer(text):
        token = match[0]
        if token[0] != "#":
            reader.take(token, line)
        line += token.count("\n")
    return reader.found


class _TomlLines:
    """Reads the tokens of a TOML text: `key` is what may become a key, `open` what is not closed yet."""

    def __init__(self) -> None:
        self.found: dict[str, int] = {}
        self.table = ""
        self.key: list[str] = []
        self.key_line = 1
        self.open: list[_Open] = []
        self.entries: dict[str, int] = {}
        self.valued = False
        self.open_at = ""

    def take(self, token: str, line: int) -> None:
        """The next token, on `line`."""
        inside = self.open[-1] if self.open else None
        if token == "\n":
            if inside is None:
                self.key, self.valued = [], False
        elif token == "=" and not (inside and inside.is_list):
            self._named(inside)
        elif token in ("[", "{") and (self.valued or inside):
            path = self._begun(inside, line)
            self.open.append(_Open(path, token == "[", "0" if token == "[" else ""))
        elif token in ("]", "}") and inside:
            self.open.pop()
        elif token == "]":
            self._header()
        elif token == "," and inside:
            inside.last = str(int(inside.last) + 1) if inside.is_list else ""
            self.key = []
        elif inside and inside.is_list:
            self._begun(inside, line)
        elif not self.valued or (inside and not inside.last):
            self.key_line = self.key_line if self.key else line
            self.key.append(token)

    def _named(self, inside: _Open | None) -> None:
        """The key before an equals sign."""
        name = _plain("".join(self.key))
        self.key = []
        if inside:
            inside.last = name
            self.found.setdefault(inside.path, self.key_line)
        else:
            self.valued, self.open_at = True, f"{self.table}.{name}" if self.table else name
            self.found.setdefault(self.open_at, self.key_line)

    def _begun(self, inside: _Open | None, line: int) -> str:
        """The path of a value that begins here; those of lists are noted."""
        if inside is None:
            return self.open_at
        if inside.is_list:
            self.found.setdefault(inside.path, line)
        return inside.path

    def _header(self) -> None:
        """A table, or the next one of a list of tables, at the first of its closing brackets."""
        words = "".join(self.key)
        self.key = []
        if not words.strip("["):
            return
        self.table = _plain(words.lstrip("["))
        self.found.setdefault(self.table, self.key_line)
        if words.startswith("[["):
            self.entries[self.table] = self.entries.get(self.table, -1) + 1
            self.table = f"{self.table}.{self.entries[self.table]}"
            self.found[self.table] = self.key_line


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
