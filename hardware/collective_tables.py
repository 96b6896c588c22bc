"""Choice of the table that serves a collective of a card.

A card without measurements is served by a sister card with the same links, or by a measured form at its own
link's rate; the answer then has grade A and says so in its `source`. Answers are cached.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from math import log
from typing import Any, Literal

from ..inputs import InputError, nearest
from .collective import KINDS, CollectiveCurve, bus_share, knots_of
from .facts import facts
from .gpu import Gpu
from .host import host
from .measured import card_of
from .named import gpu


@cache
def collective_curve(
    card: str | Gpu, ranks: int, kind: str, link: Literal["island", "pcie"] | None = None
) -> CollectiveCurve:
    """`kind` among `ranks` cards over their own interconnect (`island`) or PCI Express (`pcie`).

    Without `link` it is the island where the card has one that joins so many. A count without a
    measured row takes the nearest measured one of that card (by ratio, the larger when tied).
    """
    own = card_of(card)
    if kind not in KINDS:
        raise InputError("kind", kind, "kind", "is not a collective", legal=nearest(str(kind), KINDS))
    if ranks < 1:
        raise InputError("ranks", ranks, "ranks", "must be at least 1", legal=["1"])
    over = link or ("island" if own.joins(ranks) else "pcie")
    if over == "island" and not own.joins(ranks):
        raise InputError("link", over, "link", f"{own.name} cannot join {ranks} cards so", legal=["pcie"])
    served = _collective_curves(own, kind, over)
    if not served:
        return _from_link(own, ranks, kind, over)
    found = _nearest(served, ranks)
    exact = found.gpu == own.name and found.ranks == ranks
    source = found.source if exact else f"as {found.gpu} x{found.ranks}: {found.source}"
    return replace(found, gpu=own.name, ranks=ranks, grade=found.grade if exact else "A", source=source)


def _nearest(curves: Iterable[CollectiveCurve], ranks: int) -> CollectiveCurve:
    """The curve of the nearest count, by ratio, the larger when tied."""
    return min(curves, key=lambda curve: (round(abs(log(curve.ranks / ranks)), 9), -curve.ranks))


def _collective_curves(own: Gpu, kind: str, link: str) -> list[CollectiveCurve]:
    """Curves of `own`, else of a stand-in with the same link."""
    mine = [curve for curve in curves_of(own.name, kind) if curve.link == link]
    stand_in = facts("stand_ins")["collectives"].get(own.name)
    if mine or stand_in is None:
        return mine
    other = gpu(stand_in)
    same = (own.pcie_generation, own.peer_to_peer) == (other.pcie_generation, other.peer_to_peer)
    if link == "island":
        same = own.nvlink_bytes_per_s == other.nvlink_bytes_per_s
    return [curve for curve in curves_of(stand_in, kind) if curve.link == link] if same else []


@cache
def curves_of(name: str, kind: str) -> tuple[CollectiveCurve, ...]:
    """Measured tables of the card `name`, and those of cards of which large messages alone are known."""
    rated = [row for row in facts("collectives")["rated"] if row["gpu"] == name]
    return (*_tables(name, kind), *(_rated(row, kind) for row in rated))


@cache
def _tables(name: str, kind: str) -> tuple[CollectiveCurve, ...]:
    """Measured tables of the card `name`."""
    data = facts("collectives")
    rows = [row for row in data["rows"] if (row["gpu"], row["kind"]) == (name, kind)]
    return tuple(_table(row, data["message_bytes"]["value"]) for row in rows)


def _table(row: dict[str, Any], message_bytes: list[float]) -> CollectiveCurve:
    """A measured row as a curve."""
    share = bus_share(row["kind"], row["ranks"])
    moved = [size * share for size in message_bytes]
    knots = knots_of(moved, [microseconds * 1e-6 for microseconds in row["microseconds"]])
    words = {word: row[word] for word in ("gpu", "ranks", "kind", "link", "source")}
    return CollectiveCurve.listed(**words, **knots, grade="M")


def _rated(row: dict[str, Any], kind: str) -> CollectiveCurve:
    """The table of another card at the rate measured of this one."""
    like = next(curve for curve in _tables(row["as"]["gpu"], kind) if curve.ranks == row["as"]["ranks"])
    rate = float(row["rates_bytes_per_s"].get(kind, row["rates_bytes_per_s"]["all_reduce"]))
    words = {word: row[word] for word in ("gpu", "ranks", "link")}
    return replace(like.at_rate(rate, row["source"]), **words)


def _from_link(own: Gpu, ranks: int, kind: str, link: Literal["island", "pcie"]) -> CollectiveCurve:
    """A curve from link rates alone: a share of the island's link, or the PCI Express rule.

    Its form is that of the card named for such links, at the nearest count.
    """
    data = facts("collectives")
    if link == "pcie":
        rate = host().collective_bytes_per_s(own.pcie_generation)
        source = f"rule for PCI Express generation {own.pcie_generation} through the processor"
    else:
        peers = (own.peer_bytes_per_s or own.nvlink_bytes_per_s) * max(ranks - 1, 1)
        rate = data["link_share"] * min(own.nvlink_bytes_per_s, peers)
        source = f"{data['link_share']} of the link ({data['link_share_source']})"
    form = data["forms"][link]
    found = _nearest(curves_of(form["gpu"], kind), ranks).at_rate(
        rate, f"{source}; form as {form['gpu']} ({form['source']})"
    )
    return replace(found, gpu=own.name, ranks=ranks, link=link)
