"""The table of tiers: what a cluster's graph is reduced to."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from ..inputs import Frozen, InputError

TierName = Literal["island", "node", "leaf", "spine"]
ORDER: tuple[TierName, ...] = ("island", "node", "leaf", "spine")
"""Tiers, innermost first."""


class Tier(Frozen):
    """One level of the cluster: `cards` cards joined, and what one of them can count on.

    `bandwidth_bytes_per_s` is the bus rate of one card for traffic that crosses this tier while ALL
    cards send; `sharers` is how many cards share one uplink of it, and `alone_bytes_per_s` the rate of
    a card whose sharers are silent. `latency_seconds` is one step of a ring.
    """

    name: TierName
    cards: int = Field(ge=1)
    bandwidth_bytes_per_s: float = Field(gt=0)
    alone_bytes_per_s: float = Field(gt=0)
    latency_seconds: float = Field(ge=0)
    sharers: int = Field(ge=1)


class TierTable(Frozen):
    """Tiers of a cluster, innermost first, strictly rising in `cards`; the last holds all cards.

    The array properties are indexed by what `level` returns.
    """

    tiers: tuple[Tier, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _rising(self) -> Self:
        if any(a.cards >= b.cards for a, b in zip(self.tiers, self.tiers[1:], strict=False)):
            raise ValueError("cards must rise strictly from tier to tier")
        return self

    def level(self, span: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Index of the smallest tier whose `cards` are at least `span`, for each entry.

        `span` is stride times size of a group of consecutive ranks; groups are taken to start at its
        multiples. Raises `InputError` where a span is below 1 or beyond the cluster.
        """
        return self._level(np.asarray(span), self.cards)

    def _level(self, wanted: npt.NDArray[Any], cards: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        if wanted.size and (wanted.min() < 1 or wanted.max() > self.tiers[-1].cards):
            worst = wanted.min() if wanted.min() < 1 else wanted.max()
            legal = ["1" if worst < 1 else str(self.tiers[-1].cards)]
            raise InputError("span", int(worst), "placement", "is not in the cluster", legal=legal)
        return np.asarray(np.searchsorted(cards, wanted), dtype=np.int64)

    def holding(self, span: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Index of the smallest tier within which all groups of `span` consecutive cards lie, for each entry.

        Groups start at multiples of their span: where that does not divide a tier, some group reaches into
        the next one (16 cards in an NVL72: the fifth lies in two racks), and all count as crossing it.
        Raises `InputError` as `level`.
        """
        wanted, cards = np.asarray(span), self.cards
        level = self._level(wanted, cards)
        for _ in self.tiers[1:]:
            astride = (level < len(self.tiers) - 1) & (cards[level] % wanted != 0)
            level = level + astride
        return level

    def named(self, name: str) -> Tier | None:
        """The tier called `name`, None where the cluster has none of its own."""
        return next((tier for tier in self.tiers if tier.name == name), None)

    @property
    def cards(self) -> npt.NDArray[np.float64]:
        """Cards joined by each tier."""
        return _columns(self).cards

    @property
    def bandwidth_bytes_per_s(self) -> npt.NDArray[np.float64]:
        """Bus rate of a card across each tier while all cards send."""
        return _columns(self).bandwidth_bytes_per_s

    @property
    def alone_bytes_per_s(self) -> npt.NDArray[np.float64]:
        """Rate of a card across each tier while its sharers are silent."""
        return _columns(self).alone_bytes_per_s

    @property
    def latency_seconds(self) -> npt.NDArray[np.float64]:
        """Seconds of one ring step across each tier."""
        return _columns(self).latency_seconds

    @property
    def sharers(self) -> npt.NDArray[np.float64]:
        """Cards that share one uplink of each tier."""
        return _columns(self).sharers


class _Columns(NamedTuple):
    """The tiers as read-only arrays; kept beside the table, whose equality must not meet arrays."""

    cards: npt.NDArray[np.float64]
    bandwidth_bytes_per_s: npt.NDArray[np.float64]
    alone_bytes_per_s: npt.NDArray[np.float64]
    latency_seconds: npt.NDArray[np.float64]
    sharers: npt.NDArray[np.float64]


@lru_cache(maxsize=1024)
def _columns(table: TierTable) -> _Columns:
    arrays = []
    for field in _Columns._fields:
        array = np.array([getattr(tier, field) for tier in table.tiers], dtype=np.float64)
        array.flags.writeable = False
        arrays.append(array)
    return _Columns(*arrays)


def reduced(
    vertices: Iterable[tuple[str, dict[str, Any]]], edges: Iterable[tuple[str, str, dict[str, Any]]]
) -> TierTable:
    """The table of a cluster, from the attributes of the vertices and edges of its graph.

    A tier is as large as its largest vertex and as fast as its slowest edge: an edge that `cards` cards
    share carries ``bandwidth * share / cards`` for each, and ``bandwidth * share / min(links, cards)``
    for one alone. Traffic that crosses the spine also crosses the leaf. A tier that joins no more cards
    than the one below is left out.
    """
    cards: dict[str, int] = {}
    held: dict[str, int] = {}
    met: dict[str, set[tuple[float, float, float, int]]] = {name: set() for name in ORDER}
    for name, vertex in vertices:
        held[name], tier = vertex["cards"], vertex["tier"]
        if tier is not None:
            cards[tier] = max(cards.get(tier, 0), vertex["cards"])
        rate = vertex.get("bandwidth_bytes_per_s")
        if rate is not None:
            met[tier].add((rate, rate, vertex["latency_seconds"], 1))
    for low, high, edge in edges:
        sending = min(held[low], held[high])
        total = edge["bandwidth_bytes_per_s"] * edge["share"]
        alone = total / min(edge["links"], sending)
        sharers = -(-sending // edge["links"])
        met[edge["tier"]].add((total / sending, alone, edge["latency_seconds"], sharers))
    every: list[Tier] = []
    for name in ORDER:
        if name in cards:
            tier = _slowest(name, cards[name], met[name])
            every.append(_through(tier, every[-1]) if name == "spine" else tier)
    rising = [t for i, t in enumerate(every) if all(t.cards > below.cards for below in every[:i])]
    return TierTable(tiers=tuple(t for t in rising if t.cards > 1) or (rising[0],))


def _slowest(name: TierName, cards: int, links: set[tuple[float, float, float, int]]) -> Tier:
    """The tier that every one of `links` (rate, rate alone, latency, sharers) bears."""
    return Tier(
        name=name,
        cards=cards,
        bandwidth_bytes_per_s=min(link[0] for link in links),
        alone_bytes_per_s=min(link[1] for link in links),
        latency_seconds=max(link[2] for link in links),
        sharers=max(link[3] for link in links),
    )


def _through(tier: Tier, below: Tier) -> Tier:
    """`tier`, no faster than the tier `below` that its traffic crosses too."""
    slower = {
        "bandwidth_bytes_per_s": min(tier.bandwidth_bytes_per_s, below.bandwidth_bytes_per_s),
        "alone_bytes_per_s": min(tier.alone_bytes_per_s, below.alone_bytes_per_s),
    }
    return tier.model_copy(update=slower)
