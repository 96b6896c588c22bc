"""Event simulation of pipeline schedules: who works on what in which order, and when all are done.

It shares nothing with the ledger. A pass is (kind, link, micro-batch): "F" forward, "I" backward for inputs,
"W" backward for weights, "B" both backwards at once; a link is a place in a chain of chunks, and DualPipe has
two chains. "FB" is a forward and a whole backward that run as one, both results at its end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

Link = tuple[int, int]
"""(chain, place in it)."""


class Pass(NamedTuple):
    """One pass, or two of which the second is `beside` the first."""

    kind: str
    link: Link
    batch: int
    beside: tuple[str, Link, int] | None = None

    @property
    def parts(self) -> list[tuple[str, Link, int]]:
        """The passes in it."""
        own = (self.kind, self.link, self.batch)
        return [own] if self.beside is None else [own, self.beside]


Order = list[Pass]
Seconds = Callable[[int, Link, str], float]
"""Time of a pass of a kind on a stage."""


class Writer:
    """Writes an order down; every kind of pass takes the micro-batches of a link in turn."""

    def __init__(self) -> None:
        self.order: Order = []
        self.turn: dict[tuple[str, Link], int] = {}
        self.owed: deque[tuple[Link, int]] = deque()

    def _next(self, kind: str, link: Link) -> tuple[str, Link, int]:
        key = ("F" if kind == "F" else "B", link)
        batch = self.turn.get(key, 0)
        self.turn[key] = batch + 1
        return kind, link, batch

    def forward(self, link: Link) -> None:
        """The next forward of a link."""
        self.order.append(Pass(*self._next("F", link)))

    def backward(self, link: Link, split: bool = False) -> None:
        """The next backward of a link; split, its weights are owed."""
        made = self._next("I" if split else "B", link)
        self.order.append(Pass(*made))
        if split:
            self.owed.append((link, made[2]))

    def both(self, forward: Link, backward: Link) -> None:
        """A forward and a whole backward as one."""
        self.order.append(Pass(*self._next("F", forward), self._next("B", backward)))

    def weights(self) -> None:
        """The oldest owed backward for weights, if any."""
        if self.owed:
            link, batch = self.owed.popleft()
            self.order.append(Pass("W", link, batch))


def one_chunk(stage: int, stages: int, batches: int, ahead: int, lag: int | None = None) -> Order:
    """`ahead` forwards, then a backward after each forward; weights lag so many backwards behind."""
    w, link = Writer(), (0, stage)
    warm = min(ahead, batches)
    for _ in range(warm):
        w.forward(link)
    for number in range(batches):
        if number < batches - warm:
            w.forward(link)
        w.backward(link, split=lag is not None)
        if lag is not None and number >= lag:
            w.weights()
    while w.owed:
        w.weights()
    return w.order


def all_forwards_first(stage: int, stages: int, batches: int, chunks: int) -> Order:
    """GPipe: every micro-batch through each chunk, then back."""
    w = Writer()
    links = [(0, chunk * stages + stage) for chunk in range(chunks)]
    for link in links:
        for _ in range(batches):
            w.forward(link)
    for link in reversed(links):
        for _ in range(batches):
            w.backward(link)
    return w.order


def many_chunks(stage: int, stages: int, batches: int, chunks: int, split: bool = False) -> Order:
    """Rounds of `stages` micro-batches through each chunk in turn; split, weights lag `stage` behind."""
    w, total = Writer(), batches * chunks
    warm = min((chunks - 1) * stages + (1 if split else 2) * (stages - 1 - stage), total)

    def chunk(number: int) -> int:
        return number // stages % chunks

    for number in range(total + warm):
        if number < total:
            w.forward((0, chunk(number) * stages + stage))
        if number >= warm:
            w.backward((0, (chunks - 1 - chunk(number - warm)) * stages + stage), split)
            if split and number - warm >= stage:
                w.weights()
    while w.owed:
        w.weights()
    return w.order


def zero_bubble_vee(stage: int, stages: int, batches: int) -> Order:
    """ZB-V as torch orders it: weights at once in the middle, owed while the pipe drains."""
    w, near, far = Writer(), (0, stage), (0, 2 * stages - 1 - stage)
    for _ in range(2 * (stages - stage) - 1):
        w.forward(near)
    for _ in range(stage):
        w.forward(far)
        w.forward(near)
    for _ in range(stages - stage):
        w.forward(far)
        w.backward(far, True)
        w.weights()
    while w.turn["F", far] < batches:
        if w.turn["F", near] < batches:
            w.forward(near)
        w.backward(near, True)
        w.weights()
        w.forward(far)
        w.backward(far, True)
        w.weights()
    for _ in range(stage):
        w.backward(near, True)
        w.backward(far, True)
    for _ in range(stages - stage):
        w.backward(near, True)
        w.weights()
    while w.owed:
        w.weights()
    return w.order


def two_chunks_at_once(place: int, half: int, batches: int, near: Link, far: Link) -> Order:
    """DualPipe's eight phases on the rank at `place` from its end, `half` ranks to the middle.

    `near` is the link whose micro-batches come in at this end, `far` that of those on their way back or from
    the other end; `batches` go through each.
    """
    w, inner = Writer(), half - place - 1
    for _ in range(2 * inner):
        w.forward(near)
    for _ in range(place + 1):
        w.forward(near)
        w.forward(far)
    for _ in range(inner):
        w.backward(far, True)
        w.weights()
        w.forward(far)
    for number in range(batches - 2 * half + place + 1):
        if number == 0 and inner == 0:
            w.forward(near)
            w.backward(far)
        else:
            w.both(near, far)
        w.both(far, near)
    for _ in range(inner):
        w.backward(far)
        w.both(far, near)
    split = False
    for number in range(place + 1):
        split = split or (number == (place + 1) // 2 and place % 2 == 1)
        w.backward(far, split)
        split = split or (number == (place + 1) // 2 and place % 2 == 0)
        w.backward(near, split)
    for _ in range(inner):
        w.weights()
        w.backward(near, split)
    while w.owed:
        w.weights()
    return w.order


def from_both_ends(stage: int, stages: int, batches: int) -> Order:
    """DualPipe: half of the micro-batches enter at either end, each in a chain of its own."""
    links: tuple[Link, Link] = ((0, stage), (1, stages - 1 - stage))
    near, far = links if stage < stages // 2 else links[::-1]
    place = min(stage, stages - 1 - stage)
    return two_chunks_at_once(place, stages // 2, batches // 2, near, far)


def order_of(name: str, stage: int, stages: int, batches: int, chunks: int) -> Order:
    """What a stage does under a schedule, by its name in the ledger."""
    behind = stages - 1 - stage
    if name in ("interleaved", "interleaved-zb"):
        return many_chunks(stage, stages, batches, chunks, split=name == "interleaved-zb")
    return {
        "1f1b": lambda: one_chunk(stage, stages, batches, behind),
        "zb-h1": lambda: one_chunk(stage, stages, batches, behind, lag=stage),
        "zb-h2": lambda: one_chunk(stage, stages, batches, 2 * behind, lag=2 * stage),
        "gpipe": lambda: all_forwards_first(stage, stages, batches, 1),
        "looped-bfs": lambda: all_forwards_first(stage, stages, batches, chunks),
        "zb-v": lambda: zero_bubble_vee(stage, stages, batches),
        "dualpipe": lambda: from_both_ends(stage, stages, batches),
        "dualpipe-v": lambda: two_chunks_at_once(
            stage, stages, batches, (0, stage), (0, 2 * stages - 1 - stage)
        ),
    }[name]()


def repeated(order: Order, batches: int, times: int) -> Order:
    """The same step several times, its micro-batches numbered on."""

    def later(part: tuple[str, Link, int], step: int) -> tuple[str, Link, int]:
        return part[0], part[1], part[2] + step * batches

    return [
        Pass(*later((one.kind, one.link, one.batch), step), one.beside and later(one.beside, step))
        for step in range(times)
        for one in order
    ]


class Run(NamedTuple):
    """When all stages are done, and of each stage the most chunks it held and the most that waited."""

    seconds: float
    held: list[int]
    waiting: list[int]


def run(orders: Sequence[Order], seconds: Seconds) -> Run:
    """Each stage works its list in order, as its inputs arrive.

    A forward waits for the link before, a backward for the link behind (at the end of the chain for its own
    forward), weights for their own backward for inputs, which stands before them in the same list.
    """
    last = max(link[1] for order in orders for one in order for _, link, _ in one.parts)
    ended: dict[tuple[str, Link, int], float] = {}
    place, clock, stages = [0] * len(orders), [0.0] * len(orders), range(len(orders))
    counts = [[0, 0, 0, 0] for _ in stages]
    while any(place[i] < len(orders[i]) for i in stages):
        moved = False
        for i in stages:
            while place[i] < len(orders[i]):
                parts = orders[i][place[i]].parts
                needed = [need for need in (_needed(part, last) for part in parts) if need is not None]
                if any(need not in ended for need in needed):
                    break
                start = max([clock[i], *(ended[need] for need in needed)])
                clock[i] = start + sum(seconds(i, link, kind) for kind, link, _ in parts)
                for kind, link, batch in parts:
                    ended["F" if kind == "F" else "W" if kind == "W" else "B", link, batch] = clock[i]
                    _count(counts[i], kind)
                place[i] += 1
                moved = True
        assert moved, "the orders wait for each other"
    assert not any(count[0] or count[1] for count in counts), "a backward is missing"
    return Run(max(clock), [count[2] for count in counts], [count[3] for count in counts])


def _needed(part: tuple[str, Link, int], last: int) -> tuple[str, Link, int] | None:
    kind, (chain, link), batch = part
    if kind == "F":
        return ("F", (chain, link - 1), batch) if link else None
    if kind == "W":
        return "B", (chain, link), batch
    return ("B", (chain, link + 1), batch) if link < last else ("F", (chain, link), batch)


def _count(count: list[int], kind: str) -> None:
    """Chunks held now, waiting now, and the most of each."""
    count[0] += {"F": 1, "B": -1, "W": -1}.get(kind, 0)
    count[1] += {"I": 1, "W": -1}.get(kind, 0)
    count[2], count[3] = max(count[2], count[0]), max(count[3], count[1])
