"""Kinds of Megatron-LM's arguments, as its argparse takes them: switches without a value, whole numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...inputs import nearest
from ..bundle import Bundle
from ..documents import Document
from ..documents.script import spoken
from .finding import Finding, at
from .keys import facts, unlike

OFF = ("false", "0", "no", "off", "none")
"""Words by which people mean that a switch is off."""


def wrong_values(bundle: Bundle, document: Document) -> Iterator[Finding]:
    """Findings on the arguments of a script whose words are not of the kind that the parser takes."""
    known = facts("megatron")
    for name, said in document.values["arguments"].items():
        values = spoken(said)
        if name in known["switches"]:
            yield from _switch(document, name, values)
        elif name in known["counts"] or name in known["integers"]:
            yield from _number(document, name, said, values, "count" if name in known["counts"] else "whole")
        elif name in known["valued"] and not said:
            message = f"{_flag(name)} needs a value: argparse stops there"
            yield at(document, f"arguments.{name}", "wrong-type", message, f"{_flag(name)} with its value")
        if name in known["words"]:
            yield from _words(bundle, document, name, values)


def _words(bundle: Bundle, document: Document, name: str, values: Sequence[str]) -> Iterator[Finding]:
    """Words of an argument that has its own: one that is none, and one that lacks what it runs on."""
    known, flag = facts("megatron"), _flag(name)
    words, needs = known["words"][name], known["words_need"].get(name, {})
    for word in values:
        path = f"arguments.{name}"
        if word not in words:
            mend = f"{flag} {' | '.join(nearest(word, words))}"
            yield at(document, path, "unknown-word", f"{flag} knows no {word[:40]}", mend)
        elif word in needs and bundle.argument(needs[word]) is None:
            other = _flag(needs[word])
            message = f"{flag} {word} needs {other}"
            yield at(document, path, "word-without-module", message, f"{other}, or without {word}")


def _switch(document: Document, name: str, values: Sequence[str]) -> Iterator[Finding]:
    if values:
        flag = _flag(name)
        message = f"{flag} is a switch and takes no value: argparse stops at {values[0][:40]!r}"
        mend = f"leave {flag} out" if values[0].lower() in OFF else flag
        yield at(document, f"arguments.{name}", "wrong-type", message, mend)


def _number(
    document: Document, name: str, said: Sequence[str], values: Sequence[str], kind: str
) -> Iterator[Finding]:
    if not values and said:
        return  # a variable from outside
    flag, reason = _flag(name), "" if values else "needs a whole number"
    if len(values) > 1:
        reason = f"takes one number: argparse stops at {values[1][:40]!r}"
    elif values:
        reason = _unlike(values[0], kind)
    if reason:
        shown = f"{flag} {values[0][:40]}" if values else flag
        mend = f"{flag} with a whole number{' of at least 1' if kind == 'count' else ''}"
        yield at(document, f"arguments.{name}", "wrong-type", f"{shown}: {reason}", mend)


def _unlike(word: str, kind: str) -> str:
    """Why argparse, or the check behind it, refuses a word; empty where it does not."""
    if not word.lstrip("+-").isdecimal() or len(word) > 20:
        return "must be a whole number"
    return unlike(int(word), kind) if kind == "count" else ""


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
