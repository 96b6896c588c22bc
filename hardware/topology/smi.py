"""Reading ``nvidia-smi topo -m``: all generations, cut pastes, colours, prompts and several machines."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ...inputs import InputError
from .matrix import Matrix, links_of, worse

_ESCAPE = re.compile(
    r"\x1b\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|\x1b\[[0-9;?]*[ -/]?[@-~]|\x1b.|\[[0-9;]{1,8}m"
)
_CARD = re.compile(r"GPU(0|[1-9]\d{0,3})")
_NIC = re.compile(r"(?!GPU)[A-Za-z][\w.:-]{0,39}")
_PATH = re.compile(r"X|NV\d{1,3}|PIX|PXB|PHB|NODE|SYS|SOC|N/A|-|\?")
_LEGEND = re.compile(r"(NIC\d{1,4}): +(\S{1,60})")
_NAMED = re.compile(r"GPU [\d,]{1,80}: (?:NVIDIA )?([^(]{2,60}?)\s*(?:\(UUID.*)?")
_PROMPT = re.compile(r"[\w.-]{1,40}@([\w.-]{1,60})[: ~]")
_STOPS = ("CPU", "NUMA", "GPU", "NIC")
OLD_WORDS = {"SOC": "SYS"}
"""Words of old drivers and what they are called now: a path over the link between sockets."""

MOST_CARDS = 1024


@dataclass
class _Block:
    """One matrix as it stood: columns of the header, and the cells of each row."""

    cards: list[int]
    nics: list[str]
    headed: bool
    host: str = ""
    rows: dict[str, list[str]] = field(default_factory=dict)
    numa: dict[int, int | None] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def has_matrix(text: str) -> bool:
    """Whether some line of `text` is a header or a row of a matrix."""
    return any(
        _header(words) is not None or bool(words and _CARD.fullmatch(words[0]) and _cells(words))
        for words in _plain(text)
        if words and _CARD.fullmatch(words[0])
    )


def read_matrices(text: str, origin: str = "topology") -> list[Matrix]:
    """Every matrix in `text`, in its order. Raises `InputError` where none stands."""
    blocks, card = _blocks(_plain(text), origin)
    if not blocks:
        raise InputError(
            "cluster.file", origin, origin, "holds no matrix of nvidia-smi topo -m", code="bad-file"
        )
    return [_matrix(block, card, origin) for block in blocks]


def _plain(text: str) -> list[list[str]]:
    """Lines as words, without colours, quotes and table bars."""
    clean = _ESCAPE.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    clean = clean.replace("|", " ").replace("`", " ").replace("\u00a0", " ")
    return [line.strip().lstrip(">#").split() for line in clean.split("\n")]


def _header(words: list[str]) -> tuple[list[int], list[str]] | None:
    """Cards and network cards of a header line, None where the line is none."""
    cards: list[int] = []
    while len(cards) < len(words) and (met := _CARD.fullmatch(words[len(cards)])):
        cards.append(int(met[1]))
    if not cards or len(set(cards)) < len(cards):
        return None
    nics = []
    for word in words[len(cards) :]:
        if word in _STOPS:
            break
        if not _NIC.fullmatch(word) or not any(c.isdigit() for c in word) or _PATH.fullmatch(word):
            return None
        nics.append(word)
    return (cards, nics) if len(set(nics)) == len(nics) else None


def _cells(words: list[str]) -> list[str]:
    """The path words that follow a row's name."""
    found = []
    for word in words[1:]:
        if not _PATH.fullmatch(word.upper()):
            break
        found.append(OLD_WORDS.get(word.upper(), word.upper()))
    return found


def _blocks(lines: list[list[str]], origin: str) -> tuple[list[_Block], str]:
    """The matrices of the text, and the name it gives its cards."""
    blocks: list[_Block] = []
    card = host = ""
    for words in lines:
        line = " ".join(words)
        if met := _PROMPT.match(line):
            host = met[1]
        if (met := _NAMED.fullmatch(line)) and not card:
            card = met[1]
        if blocks and (met := _LEGEND.fullmatch(line)):
            blocks[-1].names[met[1]] = met[2]
        headed = _header(words)
        if headed:
            if max(headed[0]) >= MOST_CARDS:
                reason = f"names a card above GPU{MOST_CARDS - 1}"
                raise InputError("cluster.file", f"GPU{max(headed[0])}", origin, reason, code="too-large")
            blocks.append(_Block(*headed, headed=True, host=host))
        elif words and (cells := _cells(words)) and (_CARD.fullmatch(words[0]) or _known(blocks, words[0])):
            _row(blocks, words, cells)
    return [block for block in blocks if _tells_paths(block)], card


def _tells_paths(block: _Block) -> bool:
    """Whether a card's row shows a path, or the one card there is: the peer-to-peer view shows none."""
    own = [cells for name, cells in block.rows.items() if _CARD.fullmatch(name)]
    return bool(own) and (len(block.cards) == 1 or any(set(cells) - {"X"} for cells in own))


def _known(blocks: list[_Block], name: str) -> bool:
    return bool(blocks) and name in blocks[-1].nics


def _row(blocks: list[_Block], words: list[str], cells: list[str]) -> None:
    """Lays a row into the last matrix; without a header the rows themselves begin one."""
    met = _CARD.fullmatch(words[0])
    if not blocks or words[0] in blocks[-1].rows:
        if not met:
            return
        blocks.append(_Block([], [], headed=False))
    block = blocks[-1]
    block.rows[words[0]] = cells
    after = words[1 + len(cells) :]
    if met:
        block.numa[int(met[1])] = int(after[1]) if len(after) > 1 and after[1].isdecimal() else None


def _without_header(block: _Block, origin: str) -> None:
    """Columns of a matrix whose header is lost: as many cards as its rows name, the rest network cards."""
    cards = [int(name[3:]) for name in block.rows if _CARD.fullmatch(name)]
    if max(cards) >= MOST_CARDS:
        raise InputError("cluster.file", f"GPU{max(cards)}", origin, "is too high a number", code="too-large")
    block.cards = list(range(max(cards) + 1))
    width = max(len(block.rows[f"GPU{card}"]) for card in cards)
    block.nics = [f"NIC{index}" for index in range(max(width - len(block.cards), 0))]
    block.notes.append(f"the header line is missing: read as {len(block.cards)} cards by the rows' names")


def _matrix(block: _Block, card: str, origin: str) -> Matrix:
    if not block.headed:
        _without_header(block, origin)
    count = len(block.cards)
    place = {f"GPU{number}": index for index, number in enumerate(block.cards)}
    rows = {
        place[name]: _in_line(block, cells, place[name])
        for name, cells in block.rows.items()
        if name in place
    }
    seen = tuple(sorted(index for index, cells in rows.items() if cells))
    missing = [f"GPU{block.cards[index]}" for index in range(count) if index not in seen]
    if missing:
        block.notes.append(
            f"the header lists {count} GPUs, {len(seen)} whole rows are present: {_span(missing)} missing"
        )
    paths = _paths(rows, count, block)
    nic_paths = _nic_paths(block, rows, place)
    unknown = [f"GPU{block.cards[i]}" for i, row in enumerate(nic_paths) if row and not all(row)]
    if unknown:
        block.notes.append(
            f"NIC mapping of {_span(unknown)} unknown, so inter-node time is an upper bound: "
            "paste the rest or give nics_per_node"
        )
    return Matrix(
        host=block.host,
        card=card,
        cards=count,
        paths=paths,
        nics=tuple(block.names.get(name, name) for name in block.nics),
        nic_paths=tuple(tuple(row) for row in nic_paths),
        numa=tuple(block.numa.get(number) for number in block.cards),
        rows=seen,
        notes=tuple(block.notes),
    )


def _in_line(block: _Block, cells: list[str], index: int) -> list[str | None]:
    """The cells of a card's row up to the header's width; nothing where its own X stands elsewhere."""
    width = len(block.cards) + len(block.nics)
    own = cells.index("X") if "X" in cells else None
    if own != index or cells.count("X") > 1:
        block.notes.append(f"the row of GPU{block.cards[index]} is out of line and was left out")
        return []
    if len(cells) > width:
        block.notes.append(f"the row of GPU{block.cards[index]} has more cells than the header: cut to it")
    return [
        cell if links_of(cell) or cell in ("PIX", "PXB", "PHB", "NODE", "SYS") else None
        for cell in cells[:width]
    ]


def _paths(
    rows: dict[int, list[str | None]], count: int, block: _Block
) -> tuple[tuple[str | None, ...], ...]:
    """The block of cards, completed by its symmetry; where both rows are lost, by its one kind of path."""
    grid: list[list[str | None]] = [[None] * count for _ in range(count)]
    uneven = False
    for i in range(count):
        for j in range(i):
            one = rows.get(i, [])[j] if j < len(rows.get(i, [])) else None
            other = rows.get(j, [])[i] if i < len(rows.get(j, [])) else None
            uneven |= one is not None and other is not None and one != other
            grid[i][j] = grid[j][i] = worse(one, other)
    if uneven:
        block.notes.append("the matrix is not symmetric: the worse path of each pair is taken")
    known = {grid[i][j] for i in range(count) for j in range(i) if grid[i][j]}
    lost = [(i, j) for i in range(count) for j in range(i) if not grid[i][j]]
    if lost:
        same = next(iter(known)) if len(known) == 1 else "SYS"
        for i, j in lost:
            grid[i][j] = grid[j][i] = same
        why = f"assumed {same} as all pairs seen" if len(known) == 1 else "taken as SYS, the longest path"
        block.notes.append(f"{len(lost)} of {count * (count - 1) // 2} pairs of cards were not seen: {why}")
    return tuple(tuple(row) for row in grid)


def _nic_paths(
    block: _Block, rows: dict[int, list[str | None]], place: dict[str, int]
) -> list[list[str | None]]:
    """Paths from cards to network cards, from the rows of either."""
    count = len(block.cards)
    found: list[list[str | None]] = [[None] * len(block.nics) for _ in range(count)]
    for index, cells in rows.items():
        for n, cell in enumerate(cells[count:]):
            found[index][n] = cell
    for n, name in enumerate(block.nics):
        for index, cell in enumerate(block.rows.get(name, [])[:count]):
            if found[index][n] is None and (links_of(cell) or cell in ("PIX", "PXB", "PHB", "NODE", "SYS")):
                found[index][n] = cell
    return found


def _span(names: list[str]) -> str:
    """Names of cards in words: first to last where they follow one another.

    >>> _span(["GPU4", "GPU5", "GPU6"]), _span(["GPU1", "GPU3"])
    ('GPU4-6', 'GPU1, GPU3')
    """
    numbers = [int(name[3:]) for name in names]
    if len(numbers) > 1 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"GPU{numbers[0]}-{numbers[-1]}"
    return ", ".join(names[:8]) + (" ..." if len(names) > 8 else "")
