"""A config.json as it was read: its keys, the line of each, and the error that names one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ..inputs import InputError, nearest
from ..inputs.error import shorten

_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|[{}\[\]\n]')


class NotFinite:
    """Infinity or NaN in a file: no JSON, let pass where nobody looks at it (Nemotron-H has one)."""

    def __init__(self, word: str) -> None:
        self._word = word

    def __repr__(self) -> str:
        return self._word


class ConfigFile:
    """Keys and values of one file, or of the section `path` of it; `text` gives errors the line of a key.

    `sections` are nested objects that are spelled out: their keys stand here with a dot.
    """

    def __init__(
        self, keys: Mapping[str, object], origin: str, text: str = "", path: tuple[str, ...] = ()
    ) -> None:
        self.keys: Mapping[str, object] = keys
        self.origin = origin
        self.path = path
        self._text = text

    def section(self, key: str) -> ConfigFile:
        """The nested object `key`; empty where it is missing or null."""
        inner = self.keys.get(key)
        if inner is None:
            inner = {}
        if not isinstance(inner, dict):
            raise self.error(key, "must be an object of keys")
        return ConfigFile(inner, self.origin, self._text, (*self.path, key))

    def without(self, keys: Sequence[str]) -> ConfigFile:
        """The same file without some keys."""
        kept = {key: value for key, value in self.keys.items() if key not in keys}
        return ConfigFile(kept, self.origin, self._text, self.path)

    def opened(self, sections: Sequence[str]) -> ConfigFile:
        """The same file with the keys of nested objects as ``object.key``."""
        flat: dict[str, object] = {}
        for key, value in self.keys.items():
            inner = value if key in sections and isinstance(value, dict) else None
            flat |= {key: value} if inner is None else {f"{key}.{name}": item for name, item in inner.items()}
        return ConfigFile(flat, self.origin, self._text, self.path)

    def called(self, key: str) -> str:
        """`key` with the sections it stands in."""
        return ".".join((*self.path, key))

    def origin_of(self, key: str) -> str:
        """``file:line`` of a key, or the file alone."""
        line = _line_of(self._text, (*self.path, key))
        line = line or _line_of(self._text, (*self.path, *key.split(".")))
        return f"{self.origin}:{line}" if line else self.origin

    def error(
        self, key: str, reason: str, legal: Sequence[object] = (), code: str = "bad-value"
    ) -> InputError:
        """The error for `key`, with its value and place; the caller raises it."""
        value = self.keys.get(key, "missing")
        words = [str(word).lower() if isinstance(word, bool) else str(word) for word in legal]
        name = shorten(self.called(key), 60)
        return InputError(name, value, self.origin_of(key), reason, legal=words, code=code)

    def first(self, spellings: Sequence[str]) -> str | None:
        """The spelling that the file uses; two that contradict each other are refused, a null yields."""
        found = [key for key in spellings if key in self.keys]
        told = [key for key in found if self.keys[key] is not None]
        for other in told[1:]:
            if self.keys[other] != self.keys[told[0]]:
                raise self.error(other, f"contradicts {told[0]} = {shorten(self.keys[told[0]], 40)}")
        return next(iter(told or found), None)

    def integer(self, key: str, least: int, most: int) -> int:
        """A whole number in ``least..most``."""
        return self._whole(key, self.keys[key], least, most)

    def switch(self, key: str) -> bool:
        """True or false."""
        value = self.keys[key]
        if not isinstance(value, bool):
            raise self.error(key, "must be true or false", [True, False])
        return value

    def integers(self, key: str, least: int, most: int) -> tuple[int, ...]:
        """A list of different whole numbers, each in ``least..most``."""
        numbers = self.numbers(key, least, most)
        if len(set(numbers)) != len(numbers):
            raise self.error(key, "names a number twice")
        return numbers

    def numbers(self, key: str, least: int, most: int) -> tuple[int, ...]:
        """A list of whole numbers, each in ``least..most``."""
        return tuple(self._whole(key, item, least, most) for item in self._items(key))

    def decimals(self, key: str, most: int) -> tuple[float, ...]:
        """A list of numbers in 0 to `most`."""
        found = []
        for item in self._items(key):
            if isinstance(item, bool) or not isinstance(item, int | float) or not 0 <= item <= most:
                raise self.error(key, f"must hold numbers in 0 to {most}")
            found.append(float(item))
        return tuple(found)

    def plucked(self, key: str, path: str) -> ConfigFile:
        """The same file with, for each object of the list `key`, what stands at the dotted `path` in it."""
        found: list[object] = []
        for item in self._items(key):
            value: object = item
            for step in path.split("."):
                if not isinstance(value, dict):
                    raise self.error(key, f"must be a list of objects that hold {path}")
                value = value.get(step)
            found.append(int(value or 0) if value is None or isinstance(value, bool) else value)
        return ConfigFile({**self.keys, key: found}, self.origin, self._text, self.path)

    def length(self, key: str) -> int:
        """How many items a list holds."""
        return len(self._items(key))

    def side(self, key: str, least: int, most: int) -> int:
        """A whole number, or a list of equal ones."""
        if not isinstance(self.keys[key], list):
            return self.integer(key, least, most)
        found = set(self.numbers(key, least, most))
        if len(found) != 1:
            raise self.error(key, "is read only with equal sides")
        return found.pop()

    def word(self, key: str, legal: Sequence[str]) -> str:
        """One of the words `legal`, or any word where there are none."""
        value = self.keys[key]
        if not isinstance(value, str) or (legal and value not in legal):
            near = nearest(value, legal) if isinstance(value, str) and legal else list(legal[:3])
            raise self.error(key, "is not known here" if isinstance(value, str) else "must be a word", near)
        return value

    def period(self, key: str, least: int, most: int) -> int:
        """A number of layers, or a word like LLLG: as many layers as letters, the last of another kind."""
        word = self.keys[key]
        if not isinstance(word, str):
            return self._whole(key, word, least, most)
        if len(word) < 2 or len(set(word[:-1])) != 1 or word[-1] == word[0]:
            raise self.error(key, "must be a number, or letters of which the last differs", [4, "LLLG"])
        return len(word)

    def words(self, key: str, legal: Sequence[str]) -> tuple[str, ...]:
        """A list of words, each one of `legal`."""
        return self._known(key, self._items(key), legal)

    def letters(self, key: str, legal: Sequence[str]) -> tuple[str, ...]:
        """A word of letters, each one of `legal`."""
        value = self.keys[key]
        if not isinstance(value, str):
            raise self.error(key, "must be a word of letters")
        return self._known(key, list(value), legal)

    def _known(self, key: str, items: list[object], legal: Sequence[str]) -> tuple[str, ...]:
        found = []
        for item in items:
            if not isinstance(item, str) or item not in legal:
                reason = f"holds {shorten(item, 40)}, which is not known here"
                raise self.error(key, reason, nearest(str(item), legal))
            found.append(item)
        return tuple(found)

    def _items(self, key: str) -> list[object]:
        items = self.keys[key]
        if not isinstance(items, list):
            raise self.error(key, "must be a list")
        return items

    def _whole(self, key: str, value: object, least: int, most: int) -> int:
        """`value` of `key` as a whole number (true is none), or the error with the nearest legal one."""
        if isinstance(value, NotFinite):
            raise self.error(key, "is not a finite number", code="bad-file")
        if isinstance(value, bool) or not isinstance(value, int):
            near = _number(value)
            legal = [near] if near is not None and least <= near <= most else []
            listed = isinstance(self.keys[key], list)
            raise self.error(key, "must hold whole numbers" if listed else "must be a whole number", legal)
        if value < least:
            raise self.error(key, f"must be at least {least}", [-value if least <= -value <= most else least])
        if value > most:
            raise self.error(key, f"must be at most {most}", [most])
        return value


def _line_of(text: str, path: tuple[str, ...]) -> int | None:
    """The line of the key at `path` in a JSON text."""
    open_: list[str] = []
    last, line = "", 1
    for token in _TOKEN.finditer(text):
        word = token.group()
        if word == "\n":
            line += 1
        elif word in "{[":
            open_.append(last)
            last = ""
        elif word in "}]":
            del open_[-1:]
        elif text[token.end() : token.end() + 80].lstrip()[:1] == ":":
            last = word[1:-1]
            if len(open_) == len(path) and last == path[-1] and (*open_[1:], last) == path:
                return line
    return None


def _number(value: object) -> int | None:
    """The whole number that was likely meant by ``4096.0`` or ``"4096"``."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and re.fullmatch(r"\s*[0-9]{1,18}\s*", value, re.ASCII):
        return int(value)
    return None
