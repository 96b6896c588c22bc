"""A config.json as it was read: its keys, the line of each, and the error that names one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ..inputs import InputError, nearest
from ..inputs.error import shorten

_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|[{}\[\]\n]')


class ConfigFile:
    """Keys and values of one file; `text`, where known, gives errors the line of a key."""

    def __init__(self, keys: Mapping[str, object], origin: str, text: str = "") -> None:
        self.keys = keys
        self.origin = origin
        self._text = text

    def origin_of(self, key: str) -> str:
        """``file:line`` of a top-level key, or the file alone."""
        depth, line = 0, 1
        for token in _TOKEN.finditer(self._text):
            word = token.group()
            if word == "\n":
                line += 1
            elif word in "{[":
                depth += 1
            elif word in "}]":
                depth -= 1
            elif depth == 1 and word == f'"{key}"' and self._text[token.end() :].lstrip()[:1] == ":":
                return f"{self.origin}:{line}"
        return self.origin

    def error(
        self, key: str, reason: str, legal: Sequence[object] = (), code: str = "bad-value"
    ) -> InputError:
        """The error for `key`, with its value and place; the caller raises it."""
        value = self.keys.get(key, "missing")
        words = [str(word).lower() if isinstance(word, bool) else str(word) for word in legal]
        return InputError(shorten(key, 60), value, self.origin_of(key), reason, legal=words, code=code)

    def first(self, spellings: Sequence[str]) -> str | None:
        """The spelling that the file uses; two that contradict each other are refused."""
        found = [key for key in spellings if key in self.keys]
        for other in found[1:]:
            if self.keys[other] != self.keys[found[0]]:
                raise self.error(other, f"contradicts {found[0]} = {shorten(self.keys[found[0]], 40)}")
        return found[0] if found else None

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
        items = self._items(key)
        numbers = tuple(self._whole(key, item, least, most) for item in items)
        if len(set(numbers)) != len(numbers):
            raise self.error(key, "names a number twice")
        return numbers

    def words(self, key: str, legal: Sequence[str]) -> tuple[str, ...]:
        """A list of words, each one of `legal`."""
        found = []
        for item in self._items(key):
            if not isinstance(item, str) or item not in legal:
                raise self.error(
                    key, f"holds {shorten(item, 40)}, which is not known here", nearest(str(item), legal)
                )
            found.append(item)
        return tuple(found)

    def _items(self, key: str) -> list[object]:
        items = self.keys[key]
        if not isinstance(items, list):
            raise self.error(key, "must be a list")
        return items

    def _whole(self, key: str, value: object, least: int, most: int) -> int:
        """`value` of `key` as a whole number (true is none), or the error with the nearest legal one."""
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


def _number(value: object) -> int | None:
    """The whole number that was likely meant by ``4096.0`` or ``"4096"``."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and re.fullmatch(r"\s*[0-9]{1,18}\s*", value, re.ASCII):
        return int(value)
    return None
