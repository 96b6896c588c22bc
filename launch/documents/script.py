"""A launch script, or a bare list of arguments: flags, variables and batch directives with lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import field
from itertools import takewhile
from typing import Any

from ...inputs import InputError
from ...inputs.record import dataclass
from .words import Word, words

ASIDE = {
    "set",
    "echo",
    "printf",
    "cd",
    "mkdir",
    "source",
    ".",
    ":",
    "module",
    "ulimit",
    "rm",
    "cp",
    "ls",
    "conda",
}
"""Commands whose words are no arguments of a run."""

MOST_WORDS = 20_000
"""Words after all variables are put in; a long script has hundreds."""

HEAD = 5
"""Lines in which a script says what it is."""

_REDIRECTED = re.compile(r"\d*[<>].*|&>.*")
"""Where the words of a command end and a file takes its output."""

DEEPEST = 8
"""Variables inside variables."""

_ASSIGNED = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.DOTALL)
_WHOLE = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)(?:\[[@*]\])?\})")
_PART = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)(?:\[[@*]\])?\}|\{([A-Za-z_]\w*):?[-=]([^{}]*)\})")
_FLAG = re.compile(r"--?[A-Za-z][\w.:-]*")
_SBATCH = re.compile(r"^#SBATCH\s+(?:--([a-z][\w-]*)|-([A-Za-z]))(?:[=\s]\s*(\S+))?")
_ASSUMES = re.compile(r"^# assumes: (.*)$")


@dataclass
class Script:
    """`arguments`: values by flag, dashes as underscores; `programs`: words before the first flag.

    `about` is what the comments at its head say.
    """

    arguments: dict[str, list[str]] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    sbatch: dict[str, str] = field(default_factory=dict)
    assumes: dict[str, str] = field(default_factory=dict)
    programs: list[str] = field(default_factory=list)
    about: str = ""


def script_tables(text: str, name: str) -> tuple[dict[str, Any], dict[str, int]]:
    """The tables of a `Script` and the line of each entry, as ``arguments.num_layers``.

    Variables of the script itself are put in; what it takes from outside stays as it is written. A
    later flag wins over an earlier one. A file that only sets arrays gives the words of all of them.
    """
    script = Script()
    lines: dict[str, int] = {}
    rows = [row.strip() for row in text.split("\n")]
    script.about = " ".join(row for row in rows[:HEAD] if row.startswith("# "))
    for number, row in enumerate(rows, 1):
        _comment(script, lines, row, number)
    commands, variables = _split(text)
    runs = [_expanded(command, variables, name) for command in commands if command[0].text not in ASIDE]
    arrays = [word for held in variables.values() for word in held]
    if any(map(_is_flag, arrays)) and not any(_is_flag(word) for run in runs for word in run):
        runs = [arrays]
    for run in runs:
        _flags(script, lines, run)
    for key, held in variables.items():
        if len(held) == 1:
            script.environment[key] = held[0].text
            lines[f"environment.{key}"] = held[0].line
    return vars(script).copy(), lines


def _comment(script: Script, lines: dict[str, int], row: str, number: int) -> None:
    """Directives of Slurm and the line in which a folder of ours states what it assumes."""
    batch, assumed = _SBATCH.match(row), _ASSUMES.match(row)
    if batch:
        key = (batch[1] or batch[2]).replace("-", "_")
        script.sbatch[key], lines[f"sbatch.{key}"] = batch[3] or "", number
    if assumed:
        for pair in assumed[1].split():
            key, equals, value = pair.partition("=")
            if equals:
                script.assumes[key], lines[f"assumes.{key}"] = value, number


def _split(text: str) -> tuple[list[list[Word]], dict[str, list[Word]]]:
    """(words of each command, words of each variable)."""
    commands: list[list[Word]] = [[]]
    variables: dict[str, list[Word]] = {}
    stream = words(text)
    for word in stream:
        bound = None if word.ends else _ASSIGNED.fullmatch(word.text)
        if word.ends:
            commands.append([])
        elif bound and all(each.text in ("export", "declare", "local") for each in commands[-1]):
            held = _bound(word, bound[3], stream)
            variables[bound[1]] = [*variables.get(bound[1], []), *held] if bound[2] else held
        elif word.text not in "()":
            commands[-1].append(word)
    return [command for command in commands if command], variables


def _bound(word: Word, value: str, stream: Iterator[Word]) -> list[Word]:
    """The words a variable is set to: those of an array, or the value (`NAME=(` is read on)."""
    if value or word.quoted:
        return [Word(value, word.line, word.quoted)]
    after = next(stream, Word("\n", word.line, ends=True))
    if after.text != "(":
        return [Word("", word.line)]
    held = []
    for inner in stream:
        if inner.text == ")" and not inner.quoted:
            break
        if not inner.ends:
            held.append(inner)
    return held


def _expanded(command: list[Word], variables: dict[str, list[Word]], name: str) -> list[Word]:
    """`command` with the variables put in."""
    found = command
    for _ in range(DEEPEST):
        if not any("$" in word.text for word in found):
            return found
        fresh = [inner for word in found for inner in _put_in(word, variables)]
        size = sum(len(word.text) for word in fresh)
        if len(fresh) > MOST_WORDS or size > MOST_WORDS * 64:
            raise InputError("file", name, name, "its variables grow without end", code="bad-file")
        if fresh == found:
            return found
        found = fresh
    return found


def _put_in(word: Word, variables: dict[str, list[Word]]) -> list[Word]:
    whole = _WHOLE.fullmatch(word.text)
    held = variables.get(whole[1] or whole[2]) if whole else None
    if held is not None:
        array = "[" in word.text or len(held) != 1
        if array or word.quoted:
            return held
        inner = words(held[0].text, held[0].line)
        return [each for each in inner if not each.ends and each.text not in "()"]

    def value(match: re.Match[str]) -> str:
        key = match[1] or match[2] or match[3]
        bound = variables.get(key)
        if bound is not None and len(bound) == 1 and len(bound[0].text) < 1000:
            return bound[0].text if f"${key}" not in bound[0].text else match[0]
        return match[4] if match[4] is not None else match[0]

    return [word._replace(text=_PART.sub(value, word.text))]


def _is_flag(word: Word) -> bool:
    return _FLAG.fullmatch(word.text.partition("=")[0]) is not None


def _flags(script: Script, lines: dict[str, int], given: list[Word]) -> None:
    """Flags with the values that follow them."""
    current: list[str] | None = None
    for word in given:
        flag, equals, value = word.text.partition("=")
        if _is_flag(word):
            key = flag.lstrip("-").replace("-", "_")
            current = [value] if equals else []
            script.arguments[key], lines[f"arguments.{key}"] = current, word.line
        elif current is None:
            script.programs.append(word.text)
        else:
            current.append(word.text)


def spoken(values: Sequence[str]) -> list[str]:
    """The words behind a flag that the script itself holds: up to a redirection, without outside variables.

    >>> spoken(["4", "$MORE", "2>", "log"])
    ['4']
    """
    held = takewhile(lambda word: not _REDIRECTED.fullmatch(word), values)
    return [word for word in held if not word.startswith(("$", "`"))]
