"""Models by name: the catalogue, its aliases, and the nearest names for one it does not hold."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from functools import cache
from typing import Any

from ..inputs import InputError
from ..inputs.data import data
from ..inputs.listed import Listed
from ..inputs.record import dataclass
from .reader import ReadReport, explain_keys
from .transformer import Transformer

_WORD = re.compile(r"\d[\d.x]*[bm]?|[a-z]+")
"""Words, and numbers with the letter that says how many: llama, 3.1, 70b."""


@dataclass(frozen=True, kw_only=True)
class Entry(Listed):
    """One model: keys of its config.json, or the Transformer itself where no family table spells it."""

    aliases: tuple[str, ...] = ()
    source: str
    config: dict[str, Any] | None = None
    transformer: dict[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Catalogue(Listed):
    """All of catalogue/models.json."""

    about: str
    organisations: tuple[str, ...]
    endings: tuple[str, ...]
    models: dict[str, Entry]

    def plain(self, name: str) -> str:
        """`name` without case, separators, a known organisation before it or known endings.

        >>> catalogue().plain("meta-llama/Llama-3.1-8B-Instruct")
        'llama3.18b'
        """
        word = name.strip().lower()
        owner, slash, rest = word.partition("/")
        words = re.split(r"[-_ ]+", rest if slash and owner in self.organisations else word)
        while len(words) > 1 and words[-1] in self.endings:
            words.pop()
        return "".join(words)


@cache
def catalogue() -> Catalogue:
    """The catalogue, read once."""
    found = data(__package__, "catalogue", "models.json")
    models = {name: Entry.listed(**entry) for name, entry in found["models"].items()}
    return Catalogue.listed(**{**found, "models": models})


@cache
def _names() -> dict[str, str]:
    """Plain spelling of each name and alias, to the name."""
    book = catalogue()
    spelled = {book.plain(word): name for name, entry in book.models.items() for word in entry.aliases}
    return spelled | {book.plain(name): name for name in book.models}


def model_names() -> list[str]:
    """Names of the catalogue, sorted."""
    return sorted(catalogue().models)


def model_entry(name: str, origin: str = "preset") -> tuple[str, Entry]:
    """The catalogue's own spelling of `name`, and its entry; InputError (field "model") if there is none."""
    known = model_names()
    if not isinstance(name, str):
        raise InputError("model", name, origin, "must be a name", legal=known[:3], code="unknown-model")
    found = _names().get(catalogue().plain(name))
    if found is None:
        reason = "is no model of the catalogue"
        legal = _near(name.rpartition("/")[2][:100].lower(), known)
        raise InputError("model", name, origin, reason, legal=legal, code="unknown-model")
    return found, catalogue().models[found]


def _near(name: str, known: list[str]) -> list[str]:
    """Three names: those that share most words and sizes with `name`, then those spelled most alike."""
    said = set(_WORD.findall(name))

    def rank(other: str) -> tuple[int, float, str]:
        alike = SequenceMatcher(None, name, other).ratio()
        return -len(said & set(_WORD.findall(other))), -alike, other

    return sorted(known, key=rank)[:3]


@cache
def _explained(name: str) -> ReadReport:
    entry = catalogue().models[name]
    if entry.config is not None:
        report = explain_keys(entry.config, f"catalogue:{name}", name)
        model = report.transformer.model_copy(update={"source": entry.source})
        return report.model_copy(update={"transformer": model})
    spelled = {**(entry.transformer or {}), "name": name, "source": entry.source}
    return ReadReport(transformer=Transformer.model_validate(spelled))


def preset(name: str, origin: str = "preset") -> Transformer:
    """The model called `name`, any case, separators and organisation as on the hub.

    >>> preset("meta-llama/Llama-3.1-8B-Instruct").name
    'llama-3.1-8b'
    """
    return explain_preset(name, origin).transformer


def explain_preset(name: str, origin: str = "preset") -> ReadReport:
    """As `preset`, with the key of the entry behind each dimension."""
    return _explained(model_entry(name, origin)[0])
