"""One matrix as it stood in a text, cut or whole, and what is made of it."""

from __future__ import annotations

from dataclasses import field

from ...inputs.record import dataclass
from .matrix import ORDER, Matrix, links_of, worse
from .pasted import CARD


@dataclass
class Block:
    """Columns of the header, and the cells of each row; `notes` say what is missing or does not fit."""

    cards: list[int]
    nics: list[str]
    headed: bool
    host: str = ""
    rows: dict[str, list[str]] = field(default_factory=dict)
    numa: dict[int, int | None] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def lay(self, name: str, cells: list[str], after: list[str]) -> None:
        """The row called `name`: its cells, and the columns after them."""
        self.rows[name] = cells
        met = CARD.fullmatch(name)
        if met:
            if not self.headed and int(met[1]) not in self.cards:
                self.cards.append(int(met[1]))
            self.numa[int(met[1])] = _numa(after)

    def lacks(self, name: str) -> bool:
        """Whether a row has fewer cells than the header has columns."""
        return self.headed and len(self.rows[name]) < len(self.cards) + len(self.nics)

    def tells_paths(self) -> bool:
        """Whether a card's row shows a path, or the one card there is: the peer-to-peer view shows none."""
        own = [cells for name, cells in self.rows.items() if CARD.fullmatch(name)]
        return bool(own) and (len(self.cards) == 1 or any(set(cells) - {"X"} for cells in own))

    def settle(self) -> None:
        """Columns where the header is lost: as many cards as the rows name, the rest network cards."""
        if self.headed:
            return
        self.cards = list(range(max(self.cards) + 1))
        width = max(len(cells) for name, cells in self.rows.items() if CARD.fullmatch(name))
        self.nics = [f"NIC{index}" for index in range(max(width - len(self.cards), 0))]
        self.notes.append(f"the header line is missing: read as {len(self.cards)} cards by the rows' names")

    def matrix(self, card: str) -> Matrix:
        """The matrix, completed as far as symmetry allows; `card` is what the text calls its cards."""
        count = len(self.cards)
        place = {f"GPU{number}": index for index, number in enumerate(self.cards)}
        rows = {
            place[name]: self._in_line(cells, place[name])
            for name, cells in self.rows.items()
            if name in place
        }
        seen = tuple(sorted(index for index, cells in rows.items() if len(cells) >= count))
        self._say_missing(rows, seen)
        paths = self._paths(rows)
        nic_paths = self._nic_paths(rows)
        unknown = [self.cards[i] for i, row in enumerate(nic_paths) if row and not all(row)]
        if unknown:
            self.notes.append(
                f"NIC mapping of {span(unknown)} unknown, so inter-node time is an upper bound: "
                "paste the rest or give nics_per_node"
            )
        return Matrix(
            host=self.host,
            card=card,
            cards=count,
            paths=paths,
            nics=tuple(self.names.get(name, name) for name in self.nics),
            nic_paths=tuple(tuple(row) for row in nic_paths),
            numa=tuple(self.numa.get(number) for number in self.cards),
            rows=seen,
            notes=tuple(self.notes),
        )

    def _in_line(self, cells: list[str], index: int) -> list[str | None]:
        """The cells of a card's row up to the header's width; nothing where its own X stands elsewhere."""
        width = len(self.cards) + len(self.nics)
        own = cells.index("X") if "X" in cells else None
        cut = own is None and len(cells) <= index
        if not cut and (own != index or cells.count("X") > 1):
            self.notes.append(f"the row of GPU{self.cards[index]} is out of line and was left out")
            return []
        if len(cells) > width:
            self.notes.append(f"the row of GPU{self.cards[index]} has more cells than the header: cut to it")
        return [known(cell) for cell in cells[:width]]

    def _say_missing(self, rows: dict[int, list[str | None]], seen: tuple[int, ...]) -> None:
        missing = [index for index in range(len(self.cards)) if index not in seen]
        if not missing:
            return
        cut = [self.cards[index] for index in missing if rows.get(index)]
        self.notes.append(
            f"the header lists {len(self.cards)} GPUs, {len(seen)} whole rows are present: "
            f"{span([self.cards[index] for index in missing])} missing"
            + (f", {span(cut)} in part" if cut else "")
        )

    def _paths(self, rows: dict[int, list[str | None]]) -> tuple[tuple[str | None, ...], ...]:
        """The block of cards, completed by its symmetry; where both rows are lost, by its one kind."""
        count = len(self.cards)
        grid: list[list[str | None]] = [[None] * count for _ in range(count)]
        uneven = False
        for i in range(count):
            for j in range(i):
                one = rows.get(i, [])[j] if j < len(rows.get(i, [])) else None
                other = rows.get(j, [])[i] if i < len(rows.get(j, [])) else None
                uneven |= one is not None and other is not None and one != other
                grid[i][j] = grid[j][i] = worse(one, other)
        if uneven:
            self.notes.append("the matrix is not symmetric: the worse path of each pair is taken")
        lost = [(i, j) for i in range(count) for j in range(i) if not grid[i][j]]
        if lost:
            kinds = {grid[i][j] for i in range(count) for j in range(i) if grid[i][j]}
            same = next(iter(kinds)) if len(kinds) == 1 else "SYS"
            for i, j in lost:
                grid[i][j] = grid[j][i] = same
            why = f"assumed {same} as all pairs seen" if len(kinds) == 1 else "taken as SYS, the longest path"
            self.notes.append(
                f"{len(lost)} of {count * (count - 1) // 2} pairs of cards were not seen: {why}"
            )
        return tuple(tuple(row) for row in grid)

    def _nic_paths(self, rows: dict[int, list[str | None]]) -> list[list[str | None]]:
        """Paths from cards to network cards, from the rows of either."""
        count = len(self.cards)
        found: list[list[str | None]] = [[None] * len(self.nics) for _ in range(count)]
        for index, cells in rows.items():
            for n, cell in enumerate(cells[count:]):
                found[index][n] = cell
        for n, name in enumerate(self.nics):
            for index, cell in enumerate(self.rows.get(name, [])[:count]):
                found[index][n] = found[index][n] or known(cell)
        return found


def known(cell: str) -> str | None:
    """A cell's path, None where it tells none."""
    return cell if links_of(cell) or cell in ORDER else None


def _numa(after: list[str]) -> int | None:
    """The card's NUMA node: after the processors, which may be blank, and before the card's own node."""
    tail = after[:-1] if len(after) > 1 and after[-1] == "N/A" else after[1:2]
    return int(tail[-1]) if tail and tail[-1].isdecimal() else None


def span(numbers: list[int]) -> str:
    """Cards in words: first to last where they follow one another.

    >>> span([4, 5, 6]), span([1, 3])
    ('GPU4-6', 'GPU1, GPU3')
    """
    if len(numbers) > 1 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"GPU{numbers[0]}-{numbers[-1]}"
    return ", ".join(f"GPU{number}" for number in numbers[:8]) + (" ..." if len(numbers) > 8 else "")
