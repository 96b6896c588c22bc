"""Reading ``nvidia-smi topo -m``: all generations, cut and wrapped pastes, prompts, several machines."""

from __future__ import annotations

import re

from ...inputs import InputError
from .block import Block
from .matrix import Matrix
from .pasted import CARD, Line, cells, ended, header, lines_of, nic_names

_LEGEND = re.compile(r"(NIC\d{1,4}): +(\S{1,60})")
_LISTED = re.compile(r"GPU [\d,]{1,80}: (?:NVIDIA )?([^(]{2,60}?)\s*(?:\(UUID.*)?")
_TABLED = re.compile(r"\d{1,3} (?:NVIDIA )?([A-Za-z][\w -]{1,60}?) (?:On|Off|N/A) [0-9A-Fa-f]{4,8}:.*")
_QUERIED = re.compile(r"\d{1,3}, NVIDIA ([\w -]{2,60}), .*")
_PROMPT = re.compile(r"(?:\(\w{1,40}\) )?\[?[\w.-]{1,40}@([\w.-]{1,60})[\]: ~]")
_REMOTE = re.compile(
    r"[^#$%>]{0,120}[#$%>] ssh (?:-\w+ ){0,4}(?:[\w.-]{1,40}@)?([\w.-]{1,60}) .*nvidia-smi.*"
)
_HIDDEN = re.compile(r"(\d{1,5}) NICs found in the topology, only displaying (\d{1,5}) .*")

MOST_CARDS = 256
"""Cards of one machine: the largest known have 16, composed ones 32."""
MOST_NICS = 1024
LONGEST_NAME = 300
"""Characters at the beginning of a line in which a machine or a card is named."""
MOST_CELLS = 2**20
"""Cells of all matrices of a text: 8,192 machines of eight cards and eight network cards."""


def has_matrix(text: str) -> bool:
    """Whether some line of `text` is a header or a row of a matrix."""
    return any(
        header(words) is not None or bool(cells(words[1:]))
        for words, _ in lines_of(text)
        if words and CARD.fullmatch(words[0])
    )


def read_matrices(text: str, origin: str = "topology") -> list[Matrix]:
    """Every matrix in `text`, in its order. Raises `InputError` where none stands, or more than fits."""
    reading = _Reading(origin)
    for line in lines_of(text):
        reading.take(line)
    blocks = [block for block in reading.blocks if block.tells_paths()]
    if not blocks:
        raise InputError(
            "cluster.file", origin, origin, "holds no matrix of nvidia-smi topo -m", code="bad-file"
        )
    found, size = [], 0
    for block in blocks:
        block.settle()
        size += len(block.cards) * (len(block.cards) + len(block.nics))
        if size > MOST_CELLS:
            reason = f"holds matrices of more than {MOST_CELLS} cells"
            raise InputError("cluster.file", origin, origin, reason, code="too-large")
        found.append(block.matrix(reading.card))
    return found


class _Reading:
    """The matrices of a text as its lines come by, and the name it gives its cards."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.blocks: list[Block] = []
        self.card = self._host = ""
        self._open = False
        self._row = ""
        self._columns: set[str] = set()

    def take(self, line: Line) -> None:
        """One more line."""
        words = line.words
        self._names(" ".join(words)[:LONGEST_NAME], line.host)
        headed = header(words)
        if self._open and words and (more := self._rest_of_header(words, headed)):
            cards, nics = more
            self.blocks[-1].cards += cards
            self.blocks[-1].nics += nics
            self._columns |= set(nics)
            self._open = not ended(words)
        elif headed:
            self.blocks.append(Block(*headed, headed=True, host=line.host or self._host))
            self._open, self._row, self._columns = not ended(words), "", set(headed[1])
        else:
            self._open = self._open and not words
            self._rows(words)
        self._bounded()

    def _rest_of_header(
        self, words: list[str], headed: tuple[list[int], list[str]] | None
    ) -> tuple[list[int], list[str]] | None:
        """What a line adds to a header that its terminal wrapped."""
        block = self.blocks[-1]
        if headed:
            follows = not block.nics and headed[0][0] == block.cards[-1] + 1
            return headed if follows else None
        nics = nic_names(words)
        if not nics or set(nics) & self._columns:
            return None
        kin = bool(block.nics) and nics[0].rstrip("0123456789") == block.nics[-1].rstrip("0123456789")
        return ([], nics) if kin or ended(words) else None

    def _names(self, text: str, host: str) -> None:
        if met := _REMOTE.match(text) or _PROMPT.match(text):
            self._host = met[1]
        for pattern in (_LISTED, _TABLED, _QUERIED):
            if not self.card and (met := pattern.fullmatch(text)):
                self.card = met[1]
        if self.blocks and (met := _LEGEND.fullmatch(text)):
            self.blocks[-1].names[met[1]] = met[2]
        if self.blocks and (met := _HIDDEN.fullmatch(text)):
            note = f"{met[1]} network cards found, {met[2]} shown: paths to the others unknown"
            self.blocks[-1].notes.append(note)

    def _rows(self, words: list[str]) -> None:
        """A row of the last matrix, the rest of a wrapped one, or the first of a matrix without header."""
        block = self.blocks[-1] if self.blocks else None
        met = CARD.fullmatch(words[0]) if words else None
        found = cells(words[1:])
        if found and (met or words[0] in self._columns):
            if block is None or words[0] in block.rows:
                if not met:
                    return
                block = Block([], [], headed=False, host=self._host)
                self.blocks.append(block)
                self._columns = set()
            block.lay(words[0], found, words[1 + len(found) :])
            self._row = words[0]
        elif block is not None and self._row and block.lacks(self._row) and (found := _continued(words)):
            block.lay(self._row, [*block.rows[self._row], *found], words[len(found) :])
        else:
            self._row = ""

    def _bounded(self) -> None:
        if not self.blocks:
            return
        block = self.blocks[-1]
        most = max(block.cards, default=0)
        if most >= MOST_CARDS or len(block.nics) > MOST_NICS:
            what = f"GPU{most}" if most >= MOST_CARDS else f"{len(block.nics)} network cards"
            reason = f"must be a machine of at most {MOST_CARDS} cards and {MOST_NICS} network cards"
            raise InputError("cluster.file", what, self.origin, reason, code="too-large")


def _continued(words: list[str]) -> list[str]:
    """The cells that a wrapped row goes on with; a line of the legend (``SYS = ...``) has none."""
    return [] if "=" in words else cells(words)
