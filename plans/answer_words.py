"""What the words of an answer mean: those that are computed, and that no request sets."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files

from .fields import FieldText


@cache
def _texts() -> dict[str, dict[str, str]]:
    text = (files(__package__) / "answer_words.json").read_text(encoding="utf-8")
    found: dict[str, dict[str, str]] = json.loads(text)["words"]
    return found


def answer_words() -> tuple[str, ...]:
    """Every word of an answer that has a text."""
    return tuple(_texts())


def answer_word(key: str) -> FieldText | None:
    """The text of a word of an answer, by its last word in any case; None for another.

    >>> answer_word("MFU").unit, answer_word("time.hfu").field
    ('share', 'hfu')
    """
    name = key.rpartition(".")[2].lower()
    entry = _texts().get(name)
    return None if entry is None else FieldText(field=name, default="computed, never set", **entry)
