"""What a cell says, however it is spelled: words by ``catalogue/words.json``, numbers with marks and units.

A word that the list lacks stays as it is, for the column's own rule to refuse. A number may have commas
between thousands, a sign of about (~), a k, a percent sign, or a unit of seconds or GiB; anything else is no
number.
"""

from __future__ import annotations

import re
from functools import cache

from .facts import facts

_NUMBER = re.compile(
    r"(?:about|approx\.?|[~≈<>≤≥+])?\s*(\d[\d_]*(?:,\d{3})*(?:\.\d*)?|\.\d+)(e[+-]?\d{1,3})?\s*([a-z%/]*)\.?"
)
_UNITS = {
    **dict.fromkeys(("", "%", "s", "sec", "secs", "second", "seconds", "s/it", "s/iter", "s/step"), 1.0),
    **dict.fromkeys(("gib", "gb", "g", "b", "tflops", "tflop/s", "tok/s", "tokens/s", "gpus", "x"), 1.0),
    "k": 1e3,
    "ms": 1e-3,
    "min": 60.0,
    "mib": 1 / 1024,
    "mb": 1 / 1024,
}


def squeezed(text: str) -> str:
    """`text` in lower case without spaces, dashes, underscores and dots.

    >>> squeezed("Full-Shard "), squeezed("torch.bfloat16")
    ('fullshard', 'torchbfloat16')
    """
    return re.sub(r"[\s\-_.]+", "", text.lower())


def is_blank(text: str) -> bool:
    """Whether a cell says nothing, in one of the ways in which people write that.

    >>> is_blank(" N/A "), is_blank("none"), is_blank("-")
    (True, False, True)
    """
    return text.strip().lower().replace(" ", "") in _blanks()


def word_in(column: str, text: str) -> str:
    """The word of `column` that `text` is a spelling of, else `text` in lower case.

    >>> word_in("precision", "bf16-mixed"), word_in("recompute", "Full"), word_in("offload", "moon")
    ('bf16', 'full', 'moon')
    """
    return _spellings(column).get(squeezed(text), text.lower())


def number_in(text: str) -> float | None:
    """The number that `text` writes, None where it writes none.

    >>> number_in("1,024"), number_in("~24k tok/s"), number_in("512 MiB"), number_in("41 %")
    (1024.0, None, 0.5, 41.0)
    >>> number_in("two") is None, number_in("-1") is None, number_in("24k")
    (True, True, 24000.0)
    """
    found = _NUMBER.fullmatch(text.strip().lower())
    if found is None or found[3] not in _UNITS:
        return None
    return float(re.sub("[_,]", "", found[1]) + (found[2] or "")) * _UNITS[found[3]]


@cache
def _blanks() -> frozenset[str]:
    return frozenset(facts("words")["blank"])


@cache
def _spellings(column: str) -> dict[str, str]:
    known = facts("words")["columns"].get(column, {})
    return {squeezed(text): word for word, others in known.items() for text in (word, *others)}
