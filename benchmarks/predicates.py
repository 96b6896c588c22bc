"""What must hold of an answer, as data: a subject, one verb of a closed table, a value.

A predicate is a JSON object: where to look, how to scale, and one verb.

| key | meaning |
|---|---|
| `run` | which run of the case; may be left out where there is one |
| `at` | dotted path into the JSON that the run printed; `*` is every item of a list or object, and one of them must do; or `exit_code`, or `text` (all that was printed) |
| `file` | instead: a file that the run left in the folder; `at` goes into it where it is JSON |
| `of` | folds all values found at `at` into one first: sum, count, least, most |
| `over` | another subject (`run`, `at`, `file`): the quotient is judged |
| `unit` | divides the number: GiB, MiB, TiB, GB, TB, billion, million, ms |
| verb | one of `VERBS` with its value |

    {"at": "memory.total_bytes", "unit": "GiB", "within_percent": [82.4, 10]}
    {"at": "verdict", "one_of": ["risky", "does_not_fit"]}
    {"at": "error.field", "equals": "num_attention_heads"}
    {"at": "warnings.*.message", "contains": ["padded", "32256"]}
    {"at": "strategy.stages.*.layers", "of": "sum", "equals": 61}
    {"run": "compiled", "at": "memory.total_bytes", "over": {"run": "eager"}, "between": [0.9, 0.97]}
"""  # noqa: E501

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shardwise.inputs import InputError

from .scores import percent

Predicate = Mapping[str, Any]

UNITS = {
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
    "GB": 10**9,
    "TB": 10**12,
    "million": 10**6,
    "billion": 10**9,
    "ms": 0.001,
}
"""What a number is divided by before it is judged."""


FOLDS: dict[str, Callable[[list[Any]], Any]] = {"sum": sum, "count": len, "least": min, "most": max}
"""What makes one value of all that a path leads to."""


def _number(found: object) -> bool:
    return isinstance(found, int | float) and not isinstance(found, bool)


def _said(found: object, words: object) -> Iterator[bool]:
    """Whether each of `words` (one or a list) stands in a text, letter case aside, or in a list."""
    for word in words if isinstance(words, list) else [words]:
        if isinstance(found, str):
            yield str(word).lower() in found.lower()
        else:
            yield word in found if isinstance(found, list) else word == found


def _between(found: Any, ends: list[float]) -> bool:
    return _number(found) and bool(ends[0] <= found <= ends[1])


def _within(found: Any, wanted: list[float]) -> bool:
    return _number(found) and abs(percent(found, wanted[0])) <= wanted[1]


VERBS: dict[str, Callable[[Any, Any], bool]] = {
    "equals": lambda found, value: bool(found == value),
    "differs": lambda found, value: bool(found != value),
    "one_of": lambda found, values: found in values,
    "at_least": lambda found, value: _number(found) and bool(found >= value),
    "at_most": lambda found, value: _number(found) and bool(found <= value),
    "between": _between,
    "within_percent": _within,
    "contains": lambda found, words: all(_said(found, words)),
    "contains_any": lambda found, words: any(_said(found, words)),
    "lacks": lambda found, words: not any(_said(found, words)),
}
"""What may be asked of a value that was found; nothing found holds for no verb but `absent`."""

SUBJECT = ("run", "at", "file")
KEYS = (*SUBJECT, "of", "over", "unit", "says", "absent")


@dataclass(frozen=True)
class Outcome:
    """What one run printed and left behind: exit code, text, its JSON or None, the folder it wrote in."""

    exit_code: int
    text: str
    answer: Any
    folder: Path


def judge(predicate: Predicate, runs: Mapping[str, Outcome]) -> tuple[bool, list[Any]]:
    """Whether a predicate holds, and the values it was asked of (three at most).

    Raises InputError for a predicate that has no verb or asks of a run that is not there.
    """
    verb = verb_of(predicate)
    found = list(_values(predicate, runs))
    if "of" in predicate:
        found = [FOLDS[predicate["of"]](found)] if found else []
    if "over" in predicate:
        below = next(_values({**predicate, **predicate["over"]}, runs), None)
        found = [value / below for value in found if _number(value) and _number(below) and below]
    unit = UNITS[predicate["unit"]] if "unit" in predicate else 1
    found = [value / unit if _number(value) and unit != 1 else value for value in found]
    if verb == "absent":
        return (not found) == predicate["absent"], found[:3]
    return any(VERBS[verb](value, predicate[verb]) for value in found), found[:3]


def verb_of(predicate: Predicate) -> str:
    """The one verb of a predicate; InputError where there is none, or a word that is none of the table's."""
    verbs = [key for key in predicate if key in VERBS or key == "absent"]
    strange = [key for key in predicate if key not in KEYS and key not in VERBS]
    known = predicate.get("unit", "GiB") in UNITS and predicate.get("of", "sum") in FOLDS
    if len(verbs) != 1 or strange or not known:
        reason = "must have one verb, and a subject, fold and unit of the table"
        raise InputError("predicate", json.dumps(predicate), "predicates", reason, legal=[*VERBS, "absent"])
    return verbs[0]


def sentence(predicate: Predicate) -> str:
    """A predicate in words.

    >>> sentence({"at": "memory.total_bytes", "unit": "GiB", "within_percent": [82.4, 10]})
    'memory.total_bytes [GiB] within_percent [82.4, 10]'
    """
    verb = verb_of(predicate)
    parts = [predicate.get("run", ""), predicate.get("file", ""), predicate.get("at", "")]
    unit = f" [{predicate['unit']}]" if "unit" in predicate else ""
    fold = f"{predicate['of']} of " if "of" in predicate else ""
    over = " over " + " ".join(predicate["over"].values()) if "over" in predicate else ""
    return f"{fold}{' '.join(filter(None, parts))}{over}{unit} {verb} {json.dumps(predicate[verb])}"


def _values(subject: Predicate, runs: Mapping[str, Outcome]) -> Iterator[Any]:
    """The values that a subject names; none where the path leads nowhere."""
    name = subject.get("run") or (next(iter(runs)) if len(runs) == 1 else "")
    if name not in runs:
        raise InputError("run", name, "predicates", "is no run of the case", legal=list(runs))
    run, path = runs[name], subject.get("at", "")
    if "file" in subject:
        yield from _in_file(run.folder / subject["file"], path)
    elif path in ("exit_code", "text"):
        yield getattr(run, path)
    else:
        yield from _at(run.answer, path.split("."))


def _in_file(file: Path, path: str) -> Iterator[Any]:
    """The text of a file, or what stands at `path` of its JSON."""
    if not file.is_file():
        return
    text = file.read_text(encoding="utf-8")
    yield from _at(json.loads(text), path.split(".")) if path else [text]


def _at(tree: Any, steps: list[str]) -> Iterator[Any]:
    if not steps:
        yield tree
        return
    step, *rest = steps
    if isinstance(tree, dict):
        inner = list(tree.values()) if step == "*" else [tree[step]] if step in tree else []
    elif isinstance(tree, list):
        inner = tree if step == "*" else tree[int(step) :][:1] if step.isdecimal() else []
    else:
        inner = []
    for item in inner:
        yield from _at(item, rest)
