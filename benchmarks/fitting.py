"""The frame of calibration: constants chosen on the rows of published sources, and held to sources left out.

A part (memory, time) says which constants it has, how they are chosen from the rows of given sources, and how
far off a source's rows then are. Constants fitted here belong to an allocator, a card or a stack, never to a
run; each rests on at least `LEAST_SOURCES` sources.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Any, Protocol

from .face import Result, table

LEAST_SOURCES = 2

Constants = Mapping[str, float]


class Part(Protocol):
    """What a calibration must know of its constants."""

    @property
    def name(self) -> str:
        """What is fitted, in a word."""

    def sources(self) -> Sequence[str]:
        """Sources with rows that the constants bear on."""

    def now(self) -> Constants:
        """The constants of the catalogue."""

    def fit(self, sources: Sequence[str]) -> Constants:
        """The constants chosen on the rows of `sources` alone."""

    def errors(self, source: str, constants: Constants) -> list[float]:
        """Percent errors of the rows of a source."""

    def entry(self, constants: Constants, sources: Sequence[str], date: str) -> dict[str, Any]:
        """The catalogue's entry: values with unit, grade, source and date."""


def studied(part: Part) -> Result:
    """Errors by source before, after, and with the source left out of the fit."""
    sources = list(part.sources())
    fitted = part.fit(sources)
    lines: list[dict[str, Any]] = []
    for source in sources:
        others = [name for name in sources if name != source]
        without = part.fit(others) if len(others) >= LEAST_SOURCES else part.now()
        before, after, left = (part.errors(source, c) for c in (part.now(), fitted, without))
        lines.append(
            {
                "source": source,
                "rows": len(after),
                "before": _size(before),
                "fitted": _size(after),
                "left_out": _size(left),
                "bias_left_out": fmean(left),
                "constants_left_out": dict(without),
            }
        )
    return {
        "part": part.name,
        "constants": {"now": dict(part.now()), "fitted": dict(fitted)},
        "lines": lines,
        **{
            f"mean_{key}": fmean(line[key] for line in lines) if lines else None
            for key in ("before", "fitted", "left_out")
        },
        "median_left_out": median(line["left_out"] for line in lines) if lines else None,
    }


def _size(errors: Sequence[float]) -> float:
    return fmean(abs(error) for error in errors)


KEYS = ("source", "rows", "before", "fitted", "left_out", "bias_left_out")


def text(found: Result) -> str:
    """A table: a line a source, means below."""
    body = [[line[key] for key in KEYS] for line in found["lines"]]
    body.append(
        ["mean of sources", None, *(found[f"mean_{key}"] for key in ("before", "fitted", "left_out")), None]
    )
    head = (found["part"], "rows", "before %", "fitted %", "left out %", "bias left out %")
    words = [f"{name}: {value:g}" for name, value in found["constants"]["fitted"].items()]
    middle = found["median_left_out"]
    return f"{table(head, body)}\nmedian source left out {middle:.2f} %; fitted {', '.join(words)}"
