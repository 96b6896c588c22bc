"""The moments at which a card's memory may peak, and which terms are alive when."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from .terms import Note, Term

Moment = Literal["forward", "backward", "gradients", "step"]

MOMENTS: tuple[Moment, ...] = ("forward", "backward", "gradients", "step")
"""Peak moments: end of forward at the loss, inside the backward, end of backward, optimizer step."""

PASSES: tuple[Moment, ...] = ("forward", "backward")
AFTER: tuple[Moment, ...] = ("gradients", "step")


class Alive(NamedTuple):
    """A term, and the moments at which it is on the card."""

    moments: tuple[Moment, ...]
    term: Term


def absent(name: str, note: Note) -> Alive:
    """A term that no row has: its note alone."""
    return Alive(MOMENTS, Term(name, "stage", note, {}))


def at_moments(found: Iterable[Alive]) -> dict[str, list[Term]]:
    """The terms of each moment, in their order."""
    terms: dict[str, list[Term]] = {moment: [] for moment in MOMENTS}
    for alive in found:
        for moment in alive.moments:
            terms[moment].append(alive.term)
    return terms
