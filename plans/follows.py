"""Words of a strategy that follow from its choices: told in answers, held against the choices when read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..inputs import InputError, nearest
from ..models import Strategy
from ..models.backend import derived_words
from ..models.overlap import SWITCHES, knob

OF_PLANS = ("writable_by", "placement")
"""Words that follow from the whole plan: read over in a strategy alone."""
WORDS = ("overlap", "recompute")
"""Words that follow from the strategy itself."""


def choices(data: Mapping[str, Any], field: str, origin: str) -> dict[str, Any]:
    """The choices in `data`, without words that follow; the table `overlap` stands for knobs not given.

    Raises `InputError` for a table of other switches, or of other values than true and false.
    """
    given = {key: value for key, value in data.items() if key not in (*OF_PLANS, *WORDS)}
    return {**_switches(data.get("overlap", {}), f"{field}.overlap", origin), **given}


def refuse_contradiction(data: Mapping[str, Any], strategy: Strategy, field: str, origin: str) -> None:
    """Refuses words of `data` that say otherwise than the choices of `strategy`, from which they follow."""
    follow = dict(_leaves(derived_words(strategy)))
    for word, said in _leaves({word: data[word] for word in WORDS if data.get(word) is not None}):
        if word in follow and said != follow[word]:
            reason = f"contradicts {_source(word)}, by which it is {_spelled(follow[word])}"
            raise InputError(f"{field}.{word}", _spelled(said), origin, reason, code="contradiction")


def _switches(told: object, field: str, origin: str) -> dict[str, bool]:
    """Knobs of the table `overlap`; its zero3_gather follows from one of them."""
    if not isinstance(told, Mapping):
        raise InputError(field, told, origin, "must be a table of switches", legal=SWITCHES)
    for switch, value in told.items():
        if switch not in (*SWITCHES, "zero3_gather"):
            known = nearest(str(switch), SWITCHES)
            raise InputError(f"{field}.{switch}", value, origin, "is no switch", legal=known)
        if not isinstance(value, bool):
            reason, legal = "must be true or false", ["true", "false"]
            raise InputError(f"{field}.{switch}", value, origin, reason, legal=legal)
    return {knob(switch): told[switch] for switch in SWITCHES if switch in told}


def _leaves(words: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for word, value in words.items():
        if isinstance(value, Mapping):
            yield from ((f"{word}.{inner}", each) for inner, each in value.items())
        else:
            yield word, value


def _source(word: str) -> str:
    """The choices a word follows from."""
    switch = word.removeprefix("overlap.")
    if switch in SWITCHES:
        return knob(switch)
    return "the stages" if word == "recompute" else "the switches of overlap and zero_stage"


def _spelled(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
