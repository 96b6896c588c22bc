"""The keys a client reads, and what is wrong with those it is given: unknown, misplaced, of another kind."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from ...inputs import nearest
from ...inputs.data import data
from ..documents import Document
from .finding import Finding, at

Table = Mapping[str, Any]
"""Kinds by key: a word of `KINDS` or words split by `|` (with `?` where null may stand), or a table."""


@cache
def facts(client: str) -> dict[str, Any]:
    """The file of a client under `keys/`."""
    return dict(data(__package__, "keys", f"{client}.json"))


def wrong_keys(document: Document, table: Table, auto: frozenset[str] = frozenset()) -> Iterator[Finding]:
    """Findings on the keys of `document`; "auto" may stand at the paths `auto`, where they are given."""
    places = _places(table, "")
    yield from _table(document, document.values, table, "", places, auto)


def _places(table: Table, path: str) -> dict[str, list[str]]:
    """Every path at which a key may stand, by key."""
    found: dict[str, list[str]] = {}
    for key, kind in table.items():
        inner = f"{path}.{key}" if path else key
        found.setdefault(key, []).append(inner)
        if isinstance(kind, Mapping):
            for name, paths in _places(kind, inner).items():
                found.setdefault(name, []).extend(paths)
    return found


def _table(
    document: Document,
    values: Mapping[str, Any],
    table: Table,
    path: str,
    places: Mapping[str, list[str]],
    auto: frozenset[str],
) -> Iterator[Finding]:
    if table.get("_open"):
        return
    for key, value in values.items():
        inner = f"{path}.{key}" if path else key
        kind = table.get(key)
        if key.startswith("_") or (isinstance(value, str) and value == "auto"):
            continue
        if kind is None:
            yield _unknown(document, key, inner, table, places)
        elif isinstance(kind, Mapping):
            if isinstance(value, Mapping):
                yield from _table(document, value, kind, inner, places, auto)
            elif value is not None:
                yield at(document, inner, "wrong-type", f"{inner} must be a table", f"{key}: a table of keys")
        else:
            reason = unlike(value, kind)
            if reason:
                shown = json.dumps(value)[:60]
                message = f"{inner} is {shown}: {reason}"
                yield at(document, inner, "wrong-type", message, f"{key}: {_example(value, kind)}")


def _unknown(
    document: Document, key: str, path: str, table: Table, places: Mapping[str, list[str]]
) -> Finding:
    elsewhere = [place for place in places.get(key, []) if place != path]
    if elsewhere:
        message = f"{path} is read nowhere: {key} stands at {elsewhere[0]}"
        return at(document, path, "misplaced-key", message, f"move it to {elsewhere[0]}")
    known = [name for name in table if not name.startswith("_")]
    close = nearest(key, [*known, *places])
    moved = places.get(close[0], [close[0]])[0]
    return at(document, path, "unknown-key", f"{path} is no key that is read", f"did you mean {moved}?")


def unlike(value: object, kind: str) -> str:
    """Why `value` is not of `kind`; empty where it is.

    >>> unlike("true", "bool"), unlike(3, "0|1|2|3")
    ('must be true or false', '')
    """
    bare = kind.rstrip("?")
    if bare == "any" or (value is None and kind.endswith("?")):
        return ""
    if "|" in bare:
        words = bare.split("|")
        digits = all(word.isdecimal() for word in words)
        fits = (isinstance(value, int) and not isinstance(value, bool)) if digits else isinstance(value, str)
        return "" if fits and str(value) in words else f"must be one of {', '.join(words)}"
    number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
    whole = number is not None and (isinstance(value, int) or number.is_integer())
    checks = {
        "bool": (isinstance(value, bool), "must be true or false"),
        "text": (isinstance(value, str), "must be text"),
        "count": (whole and (number or 0) >= 1, "must be a whole number of at least 1"),
        "int0": (whole and (number or 0) >= 0, "must be a whole number, 0 or more"),
        "number0": (number is not None and number >= 0, "must be a number, 0 or more"),
        "share": (number is not None and 0 <= number <= 1, "must be from 0 to 1"),
    }
    good, reason = checks[bare]
    return "" if good else reason


def _example(value: object, kind: str) -> str:
    """A value of `kind` near to `value`."""
    bare = kind.rstrip("?")
    if bare == "bool":
        return "true" if str(value).lower() in ("true", "1", "yes", "on") else "false"
    if isinstance(value, str) and not unlike(_number(value), kind):
        return value
    if "|" in bare:
        close = nearest(str(value), bare.split("|"), 1)[0]
        return close if close.isdecimal() else json.dumps(close)
    return {"text": '"..."', "count": "1", "int0": "0", "number0": "1.0", "share": "1.0"}[bare]


def _number(text: str) -> object:
    try:
        return int(text) if text.lstrip("+-").isdecimal() else float(text)
    except ValueError:
        return text
