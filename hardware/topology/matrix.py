"""What one machine says of itself: cards, network cards, and the path between each two."""

from __future__ import annotations

import re
from typing import Self

from pydantic import Field, model_validator

from ...inputs import Frozen

ORDER = ("PIX", "PXB", "PHB", "NODE", "SYS")
"""Paths over PCI Express, shortest first: one bridge, several, a host bridge, several, across sockets."""

CLOSE = ("PIX", "PXB")
"""Paths that stay below the processor's host bridge."""

LINKS = re.compile(r"NV(\d{1,3})")


def links_of(path: str | None) -> int:
    """NVLinks of a path, 0 where it has none.

    >>> links_of("NV12"), links_of("SYS"), links_of(None)
    (12, 0, 0)
    """
    met = LINKS.fullmatch(path or "")
    return int(met[1]) if met else 0


def worse(one: str | None, other: str | None) -> str | None:
    """The longer of two paths; what is not known gives way to what is.

    >>> worse("NV18", "NV16"), worse("PIX", "SYS"), worse(None, "PHB")
    ('NV16', 'SYS', 'PHB')
    """
    if one is None or other is None:
        return one or other

    def rank(path: str) -> tuple[int, int]:
        return (-1, -links_of(path)) if links_of(path) else (ORDER.index(path), 0)

    return max(one, other, key=rank)


class Matrix(Frozen):
    """The paths of one machine: ``NV#`` for # bonded NVLinks, or a word of `ORDER`; None: not seen.

    `paths` is cards x cards and symmetric with None on its diagonal, `nic_paths` cards x `nics`. `rows`
    are the cards whose own row stood there; `card` is the name the text gave the cards, or nothing.
    """

    host: str = ""
    card: str = ""
    cards: int = Field(ge=1, le=1024)
    paths: tuple[tuple[str | None, ...], ...]
    nics: tuple[str, ...] = ()
    nic_paths: tuple[tuple[str | None, ...], ...] = ()
    numa: tuple[int | None, ...] = ()
    rows: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _square(self) -> Self:
        square = len(self.paths) == self.cards and all(len(row) == self.cards for row in self.paths)
        wide = len(self.nic_paths) == self.cards and all(len(row) == len(self.nics) for row in self.nic_paths)
        if not square or not wide or len(self.numa) != self.cards:
            raise ValueError("paths, nic_paths and numa must have one row a card")
        if any(self.paths[i][j] != self.paths[j][i] for i in range(self.cards) for j in range(i)):
            raise ValueError("paths must be symmetric")
        known = [path for rows in (self.paths, self.nic_paths) for row in rows for path in row if path]
        if any(path not in ORDER and not links_of(path) for path in known):
            raise ValueError("paths must be NV# or a word of ORDER")
        return self

    @property
    def complete(self) -> bool:
        """Whether every card's own row stood in the text."""
        return len(self.rows) == self.cards
