"""A pasted text as lines of words: without colours, prompts' quotes and table bars, grouped by machine."""

from __future__ import annotations

import re
from typing import NamedTuple

_ESCAPE = re.compile(
    r"\x1b\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|\x1b\[[0-9;?]*[ -/]?[@-~]|\x1b.|\[[0-9;]{1,8}m"
)
_RUN_TOGETHER = re.compile(r"(?<=\d)(?=(?:GPU|NIC)\d|CPU ?Affinity)")
_SPEAKER = re.compile(r"([\w.-]{1,60}):")
CARD = re.compile(r"GPU(0|[1-9]\d{0,3})")
NIC = re.compile(r"(?!GPU)[A-Za-z][\w.:-]{0,39}")
PATH = re.compile(r"X|NV\d{1,3}|PIX|PXB|PSB|PHB|NODE|SYS|SOC|N/A|-|\?")
_PATHS = re.compile(r"NV\d{1,2}|PIX|PXB|PSB|PHB|NODE|SYS|SOC|X")
_STOPS = ("CPU", "CPUAffinity", "NUMA", "GPU", "NIC")
OLD_WORDS = {"SOC": "SYS", "PSB": "PIX"}
"""Words of other drivers and what they are called now: a path over the link between sockets, and one over
a switch on the board of the cards themselves (DCGM's legend)."""


class Line(NamedTuple):
    """The words of a line, and the machine that said it where the line begins with its name (pdsh)."""

    words: list[str]
    host: str = ""


def lines_of(text: str) -> list[Line]:
    """The lines of `text`; those of machines that speak in turns are put together, in their order."""
    clean = _ESCAPE.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    clean = clean.replace("|", " ").replace("`", " ").replace("\u00a0", " ")
    found = [_line(_RUN_TOGETHER.sub(" ", line).strip().lstrip(">#").split()) for line in clean.split("\n")]
    turns = {host: place for place, host in enumerate(dict.fromkeys(line.host for line in found))}
    return sorted(found, key=lambda line: turns[line.host])


def _line(words: list[str]) -> Line:
    """Words without a name before them: ``node7: GPU0 X``, but not ``NIC0: mlx5_0``."""
    met = _SPEAKER.fullmatch(words[0]) if len(words) > 1 else None
    if met and (CARD.fullmatch(words[1]) or (len(words) > 2 and PATH.fullmatch(words[2]))):
        return Line(words[1:], met[1])
    return Line(words)


def header(words: list[str]) -> tuple[list[int], list[str]] | None:
    """Cards and network cards of a header line, None where the line is none."""
    cards: list[int] = []
    while len(cards) < len(words) and (met := CARD.fullmatch(words[len(cards)])):
        cards.append(int(met[1]))
    if not cards or len(set(cards)) < len(cards):
        return None
    nics = nic_names(words[len(cards) :])
    return None if nics is None else (cards, nics)


def nic_names(words: list[str]) -> list[str] | None:
    """Network cards of a header up to its column of processors, None where a word is no such name."""
    found = []
    for word in words:
        if word in _STOPS:
            break
        if not NIC.fullmatch(word) or not any(c.isdigit() for c in word) or PATH.fullmatch(word):
            return None
        found.append(word)
    return found if len(set(found)) == len(found) else None


def ended(words: list[str]) -> bool:
    """Whether a header line reached the columns after its cards: nothing of it stands on the next line."""
    return any(word in _STOPS for word in words)


def cells(words: list[str]) -> list[str]:
    """The path words at the beginning of `words`; two that run together are told apart (``NODEPIX``)."""
    found: list[str] = []
    for word in words:
        upper = word.upper()
        parts = [upper] if PATH.fullmatch(upper) else _PATHS.findall(upper)
        if not parts or "".join(parts) != upper:
            break
        found += [OLD_WORDS.get(part, part) for part in parts]
    return found
