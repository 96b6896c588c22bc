"""What the links of a machine make of its cards: islands, cliques, rails, weakest link."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from math import gcd
from typing import Any, Literal

from ...inputs import Frozen
from .block import span
from .matrix import CLOSE, ORDER, Matrix, links_of

Shape = Literal["nvswitch", "nvlink-mesh", "pairs", "pcie"]
Group = tuple[int, ...]

MOST_LINKS = 18
"""NVLinks of the card that has most (V100 6, A100 12, H100 and B200 18): where the links to all peers add
up to more, a switch joins them; four GH200 with six to each are wired to one another."""


class Islands(Frozen):
    """The islands of one machine, computed from its matrix."""

    matrix: Matrix

    def _links(self, i: int, j: int) -> int:
        return links_of(self.matrix.paths[i][j])

    @cached_property
    def connected(self) -> tuple[Group, ...]:
        """Cards that reach each other over NVLink alone, directly or through one another."""
        import networkx

        graph: Any = networkx.Graph()
        graph.add_nodes_from(range(self.matrix.cards))
        graph.add_edges_from((i, j) for i in range(self.matrix.cards) for j in range(i) if self._links(i, j))
        return tuple(sorted(tuple(sorted(part)) for part in networkx.connected_components(graph)))

    @cached_property
    def cliques(self) -> tuple[Group, ...]:
        """Equal groups of cards that are joined pairwise, as large as can be: tensor groups live in them."""
        found: list[Group] = []
        for part in self.connected:
            found += max(
                _splits(part, self._links), key=lambda split: sum(self._within(group) for group in split)
            )
        return tuple(sorted(found))

    def _within(self, group: Group) -> int:
        return sum(self._links(i, j) for i in group for j in group if j < i)

    @property
    def size(self) -> int:
        """Cards of an island: the largest number that every connected part is a multiple of."""
        return gcd(*(len(part) for part in self.connected))

    @property
    def shape(self) -> Shape:
        """How the cards of an island are joined."""
        if self.size == 1:
            return "pcie"
        if self.size == 2:
            return "pairs"
        whole = self.cliques == self.connected
        switched = self.weakest * (self.size - 1) > MOST_LINKS
        return "nvswitch" if whole and switched else "nvlink-mesh"

    @cached_property
    def degrees(self) -> tuple[int, int]:
        """Fewest and most NVLinks a card has to all of its peers; equal where not every pair was seen."""
        cards = range(self.matrix.cards)
        found = [sum(self._links(i, j) for j in cards if j != i) for i in cards]
        seen = len(self.matrix.rows) >= self.matrix.cards - 1
        return (min(found) if seen else max(found)), max(found)

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """NVLinks of every pair that has any, rising."""
        cards = range(self.matrix.cards)
        return tuple(sorted(n for i in cards for j in range(i) if (n := self._links(i, j))))

    @property
    def weakest(self) -> int:
        """NVLinks of the pair that has the fewest, of those that have any."""
        return self.counts[0] if self.counts else 0

    @property
    def order(self) -> Group:
        """Cards with those of a clique beside one another: the order ranks should visit them."""
        return tuple(card for group in self.cliques for card in group)

    @cached_property
    def path(self) -> str:
        """The longest path over PCI Express between islands, nothing where all cards are in one."""
        cards = range(self.matrix.cards)
        met = {self.matrix.paths[i][j] for i in cards for j in range(i)} & set(ORDER)
        apart = len(self.connected) > 1
        return max((str(p) for p in met), key=ORDER.index) if met and apart else ""

    @cached_property
    def rails(self) -> tuple[Group, ...]:
        """For each card the network cards nearest to it, none where it was not seen.

        Where some card has one close by (`CLOSE`), only close ones count; else the nearest there are.
        """
        near = [self._nearest(row) for row in self.matrix.nic_paths]
        close = any(path in CLOSE for path, _ in near)
        return tuple(nics if not close or path in CLOSE else () for path, nics in near)

    def _nearest(self, row: tuple[str | None, ...]) -> tuple[str, Group]:
        seen = [path for path in row if path in ORDER]
        if not seen:
            return "", ()
        best = min(seen, key=lambda path: ORDER.index(str(path)))
        return str(best), tuple(n for n, path in enumerate(row) if path == best)

    @property
    def rail_nics(self) -> Group:
        """Network cards that serve some card."""
        return tuple(sorted({nic for rail in self.rails for nic in rail}))

    def notes(self) -> list[str]:
        """What the links show that a plan should know, and what they do not show."""
        found = list(self.matrix.notes)
        if self.shape == "nvswitch" and self.weakest < self.counts[-1]:
            found.append(
                f"links are degraded: NV{self.weakest} where others have NV{self.counts[-1]}; "
                "every ring runs at its weakest link"
            )
        fewest, most = self.degrees
        if self.shape == "nvlink-mesh" and fewest < most:
            found.append(
                f"links are degraded: a card has {fewest} NVLinks where others have {most}; "
                "every ring runs at its weakest card"
            )
        if len({len(part) for part in self.connected}) > 1:
            found.append(f"islands differ in size: counted as islands of {self.size}")
        if self.shape == "nvlink-mesh" and self.cliques != self.connected:
            found.append(
                "not every pair of cards has an NVLink: best groups are "
                + " ".join("{" + ",".join(map(str, group)) + "}" for group in self.cliques)
            )
        far = [card for card, row in enumerate(self.matrix.nic_paths) if row and all(row)]
        far = [card for card in far if not self.rails[card]]
        if far:
            found.append(f"no network card is close to {span(far)}: they use those of the others")
        if not self.matrix.nics:
            found.append("no network card is listed: give nics_per_node and nic_gbit_per_s for several nodes")
        return found


MOST_CUT = 8
"""Cards of an island without a switch up to which every cut into cliques is tried; known meshes have 8."""


def _splits(part: Group, links: Any) -> list[tuple[Group, ...]]:
    """All ways to cut `part` into equal cliques of the largest size there is."""
    if all(links(i, j) for i in part for j in part if j < i):
        return [(part,)]
    sizes = [size for size in range(len(part) - 1, 0, -1) if len(part) % size == 0]
    if len(part) > MOST_CUT:
        sizes = [1]
    return next(found for size in sizes if (found := list(_cover(part, size, links))))


def _cover(part: Group, size: int, links: Any) -> Iterator[tuple[Group, ...]]:
    if not part:
        yield ()
        return
    for clique in _grown((part[0],), part[1:], size, links):
        rest = tuple(card for card in part if card not in clique)
        for others in _cover(rest, size, links):
            yield (clique, *others)


def _grown(clique: Group, others: Group, size: int, links: Any) -> Iterator[Group]:
    """Cliques of `size` that hold `clique` and some of `others`."""
    if len(clique) == size:
        yield clique
        return
    for index, card in enumerate(others):
        if all(links(card, member) for member in clique):
            yield from _grown((*clique, card), others[index + 1 :], size, links)
