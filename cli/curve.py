"""`curve`: the best plan at each number of cards."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from . import options
from .errors import NO, OK
from .progress import working
from .voice import Voice

MOST_COUNTS = 256

_RANGE = re.compile(r"(\d{1,9})\.\.(\d{1,9})(?::(\d{1,9}))?")


def curve(
    source: options.Source,
    counts: Annotated[
        str,
        typer.Option("--gpus", metavar="COUNTS", help="8,16,32; 8..512 (doubling) or 8..64:8 (by eight)."),
    ],
    envelope: Annotated[
        bool, typer.Option("--envelope", help="Also the best of at most so many cards: never falls.")
    ] = False,
    *,
    job: options.Job,
    voice: Voice,
) -> int:
    """Plan for several numbers of cards.

    Speed, memory and cost of each, whether the batch divides, and where a checkpoint must be converted.
    """
    from ..plans import as_json as json_text
    from ..plans import read_asked
    from .answers_text import curve_text

    numbers = counts_of(counts)
    asked = read_asked(source, job.flags(), job.settings)
    request = asked.request()
    for number in numbers:
        request.changed({"cluster.gpus": number}, origin="--gpus")
        asked.request(f"cluster.gpus={number}")
    from ..solver import curve as drawn  # after the input: bad input is told without loading the solver

    with working(f"searching {len(numbers)} counts", not (voice.quiet or voice.as_json)):
        found = drawn(request, numbers, envelope)
    voice.data(json_text(found) if voice.as_json else curve_text(found))
    return OK if any(row.strategy for row in found.rows) else NO


def is_span(text: str) -> bool:
    """Whether `text` is a range of counts."""
    return _RANGE.fullmatch(text.strip()) is not None


def counts_of(text: str, flag: str = "--gpus") -> list[int]:
    """The numbers in `text`, of `flag`: a list, a range by doubling, or a range by steps.

    >>> counts_of("8..50"), counts_of("8..32:8"), counts_of("16,8")
    ([8, 16, 32], [8, 16, 24, 32], [16, 8])
    """
    from ..inputs import InputError

    found = _RANGE.fullmatch(text.strip())
    if found:
        low, high, step = int(found[1]), int(found[2]), int(found[3] or 0)
        numbers = list(range(low, high + 1, step)[: MOST_COUNTS + 1]) if step else []
        while found[3] is None and 0 < low <= high:
            numbers.append(low)
            low *= 2
    else:
        parts = text.split(",")
        numbers = [int(part) for part in parts if part.strip().isdecimal() and len(part.strip()) < 10]
        numbers = numbers if len(numbers) == len(parts) else []
    if not numbers or min(numbers) < 1 or len(numbers) > MOST_COUNTS:
        reason = f"must be counts, at most {MOST_COUNTS}: a list or a range"
        raise InputError(flag.removeprefix("--"), text, flag, reason, legal=["8,16,32", "8..512", "8..64:8"])
    return numbers
