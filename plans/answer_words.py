"""What the words of an answer mean: those that are computed, and that no request sets."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from ..inputs.data import data
from ..models.schedule import Schedule, schedules
from .fields import FieldText

COMPUTED = "computed, never set"
"""What stands for the default of a word that no request sets."""


SCHEMAS = "the JSON schemas of answers, docs/schemas"


@cache
def _texts() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = data(__package__, "answer_words.json")["words"]
    return found


def answer_words() -> tuple[str, ...]:
    """Every word of an answer that has a text."""
    return tuple(_texts())


def spellings() -> tuple[tuple[str, str], ...]:
    """(word, how a screen prints it) of every word that is printed otherwise than it is called."""
    return tuple((name, shown) for name, entry in _texts().items() for shown in entry.get("printed", ()))


def answer_word(key: str) -> FieldText | None:
    """The text of a word of an answer, by its last word or as a screen prints it, in any case.

    None for another.

    >>> answer_word("MFU").unit, answer_word("time.hfu").field, answer_word("loss %").field
    ('share', 'hfu', 'loss_percent')
    """
    shown = key.strip().lower()
    plain = shown.rpartition(".")[2].replace(" ", "_")
    name = plain if plain in _texts() else next((n for n in _texts() if _prints(n, shown)), None)
    if name is None:
        return None
    entry = {field: value for field, value in _texts()[name].items() if field != "printed"}
    if name == "pipeline_schedule":
        entry["values"] = tuple(_told(known) for known in schedules().values())
    return FieldText(**{"field": name, "default": COMPUTED, **entry})


@cache
def answer_keys() -> dict[str, dict[str, str]]:
    """Unit and meaning of keys of an answer's JSON that no screen prints."""
    found: dict[str, dict[str, str]] = data(__package__, "answer_keys.json")["keys"]
    return found


def answer_key(key: str) -> FieldText | None:
    """The text of a key of an answer's JSON, by its last word; None for another.

    >>> answer_key("stages.chunk_layers").unit
    'layers'
    """
    name = key.strip().rpartition(".")[2]
    if name not in answer_keys():
        return None
    return FieldText(field=name, default=COMPUTED, source=SCHEMAS, **answer_keys()[name])


def _prints(name: str, shown: str) -> bool:
    """Whether screens print a word so; ``*`` stands for a part that varies, and alone for itself."""
    printed = _texts()[name].get("printed", ())
    return shown in printed or any(fnmatchcase(shown, each) for each in printed if each != "*")


def _told(known: Schedule) -> str:
    """A schedule with its bubble and its memory."""
    return f"{known.name}: {known.title}; bubble {known.bubble}; holds {known.memory} ({known.source})"
