"""Even plans of stacks of one kind of layer: four stages stand for all, so many rows are priced at once."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ..costs.columns import Bools, Ints
from ..costs.schedule import Rounds
from ..costs.sums import Sum
from ..inputs.record import dataclass
from ..models.backend import backend
from ..models.strategy import BACKENDS
from .capacity import capacity_kib, host_capacity_kib
from .cases import allowed_recompute, knows
from .coefficients import Coefficients
from .lower import NEVER
from .stage_limits import SHARES


def recompute_all(coefficients: Coefficients, word: str) -> Bools:
    """Rows that must recompute every layer under `word`: by their backend, or as "none" is not allowed."""
    must = "none" not in allowed_recompute(coefficients.request)
    free = {"full": ("free", "same"), "selective": ("free",)}[word]
    whole = np.array([backend(name).recompute_freedom not in free for name in BACKENDS])
    found: Bools = whole[coefficients.strategies.backend] | must
    return found


@dataclass(frozen=True)
class Even:
    """Layers as even as can be, what is left over on inner stages first, on the last one last.

    Columns of the arrays, (rows, 4): the first stage, the second, the first inner one with fewer layers
    than it, the last. The second has most layers and most chunks in flight of all inner stages.
    """

    coefficients: Coefficients

    @cached_property
    def layers(self) -> Ints:
        """Chunk-layers of the four stages."""
        s = self.coefficients.strategies
        p = s.pipeline_parallel
        base, extra = np.divmod(self.coefficients.depth, p)
        first = base + ((p > 1) & (extra >= p - 1) & (extra > 0))
        found: Ints = np.stack([first, base + (extra > 0), base, base], axis=1)
        return found

    @cached_property
    def times(self) -> Ints:
        """How many stages each of the four stands for."""
        s = self.coefficients.strategies
        p = s.pipeline_parallel
        extra = self.coefficients.depth % p
        inner = np.maximum(p - 2, 0)
        more = np.where(extra > 0, np.minimum(extra, inner), inner)
        found: Ints = np.stack([np.ones_like(p), more, inner - more, (p > 1).astype(np.int64)], axis=1)
        return found

    @cached_property
    def held(self) -> Bools:
        """Which of the four exist."""
        return self.times > 0

    @cached_property
    def flight(self) -> Ints:
        """Chunks in flight on the four stages."""
        p = self.coefficients.strategies.pipeline_parallel
        index = np.stack([np.zeros_like(p), np.ones_like(p), 1 + self.times[:, 1], p - 1], axis=1)
        every = np.arange(len(p))
        return self.coefficients.layout.flight_on(every, np.minimum(index, p[:, None] - 1))

    def ends(self, part: dict[str, Ints]) -> Ints:
        """Fixed, first and last coefficients on the four stages."""
        found = np.repeat(part["fixed"][:, None], 4, axis=1)
        found[:, 0] += part["first"]
        single = self.coefficients.strategies.pipeline_parallel == 1
        found[:, 0] += np.where(single, part["last"], 0)
        found[:, 3] += part["last"]
        return found

    def value(self, part: dict[str, Ints], layers: Ints) -> Ints:
        """Values of a sum, nothing recomputed, all offloaded that may be; `layers` counts a stage."""
        each = part["layer"][:, :1] + part["offloaded"][:, :1]
        found: Ints = self.ends(part) + each * layers
        return found

    def over(self, total: Sum) -> Ints:
        """KiB above the card at one moment, nothing recomputed."""
        stage = self.layers * self.coefficients.strategies.virtual_pipeline[:, None]
        used = self.value(total.stage, stage) + self.flight * self.value(total.flight, self.layers)
        return used - capacity_kib(self.coefficients.request)

    @cached_property
    def excess(self) -> dict[str, Ints]:
        """`over` at each moment."""
        return {moment: self.over(total) for moment, total in self.coefficients.memory.items()}

    @cached_property
    def fits_host(self) -> Bools:
        """Rows whose nodes hold what is offloaded; a block of stages is taken at its heaviest."""
        c = self.coefficients
        stages, cards, aligned = c.node_stages
        part, v = c.host.stage, c.strategies.virtual_pipeline
        each = (part["layer"] + part["offloaded"])[:, 0] * self.layers.max(axis=1) * v + part["fixed"]
        block = each * stages + np.where(
            stages >= c.strategies.pipeline_parallel,
            part["first"] + part["last"],
            np.maximum(part["first"], part["last"]),
        )
        holds = aligned & (block * cards <= host_capacity_kib(c.request))
        found: Bools = holds | ~c.on_host
        return found

    def again(self, word: str) -> Ints:
        """Layers of a chunk of each stage recomputed under `word`: as few as fit, the same everywhere."""
        c = self.coefficients
        needed = np.zeros_like(self.layers)
        for moment, over in self.excess.items():
            relief = -c.memory[moment].flight[word][:, :1] * self.flight
            needed = np.maximum(needed, -(-np.maximum(over, 0) // np.maximum(relief, 1)))
        most = np.where(self.held, needed, 0).max(axis=1)[:, None]
        found: Ints = np.where(recompute_all(c, word)[:, None], self.layers, np.minimum(most, self.layers))
        return found

    def rounds(self, busy: Ints) -> Rounds:
        """What the rounds of chunks of `busy` ns wait for."""
        c = self.coefficients
        spread, fixed = self.ends(c.chunk.stage), c.chunk.stage["fixed"][:, None]
        longest = np.where(self.held, busy - spread + fixed, 0)
        return c.rounds(np.arange(len(busy)), longest, longest[:, 0], longest[:, 3])

    def shown(self, word: str, busy: Ints, tails: Ints) -> Ints:
        """Nanoseconds of communication that show: on the slowest stage, and on that of the longest tail."""
        c, every = self.coefficients, np.arange(len(busy))
        each, once = (part.stage for part in c.communication)
        stage = self.layers * c.strategies.virtual_pipeline[:, None]
        chunk = self.ends(each) + each["layer"][:, :1] * self.layers + each["offloaded"][:, :1] * stage
        if word != "none":
            chunk = chunk + self.again(word) * each[word][:, :1]
        slowest = np.where(self.held, busy, -1).argmax(axis=1)
        longest = np.where(self.held, tails, -1).argmax(axis=1)
        found: Ints = c.passes * chunk[every, slowest] + self.value(once, stage)[every, longest]
        return found

    def step(self, word: str, share: int | None = None) -> Ints:
        """Step of each row with one word of recompute, `NEVER` where it does not fit.

        With a `share` also where more of it than so many `SHARES` shows as communication.
        """
        c = self.coefficients
        again = np.zeros_like(self.layers) if word == "none" else self.again(word)
        fits = self.fits_host & knows(word)[c.strategies.backend]
        for moment, over in self.excess.items():
            if word != "none":
                over = over + self.flight * again * c.memory[moment].flight[word][:, :1]
            fits = fits & ((over <= 0) | ~self.held).all(axis=1)
        stage = self.layers * c.strategies.virtual_pipeline[:, None]
        busy = self.ends(c.chunk.stage) + c.chunk.stage["layer"][:, :1] * self.layers
        busy = busy + c.chunk.stage["offloaded"][:, :1] * stage
        if word != "none":
            busy = busy + again * c.chunk.stage[word][:, :1]
        rounds = self.rounds(busy)
        busy[:, 3] += c.room
        pace = rounds.pace(np.where(self.held, busy, 0).max(axis=1))
        tails = self.value(c.tail.stage, stage)
        after = np.where(self.held, tails, 0).max(axis=1)
        total = (c.passes - 1) * pace + (busy * self.times).sum(axis=1) + after
        if share is not None:
            fits = fits & (SHARES * self.shown(word, busy, tails) <= share * total)
        return np.where(fits, total, NEVER)


def even_step(coefficients: Coefficients, share: int | None = None) -> Ints:
    """Step of the best even plan of each row of a stack of one kind, `NEVER` where none fits, ns.

    With a `share`: of those whose communication shows for so many `SHARES` of the step at most.
    """
    even = Even(coefficients)
    best = np.full(len(coefficients.strategies), NEVER, dtype=np.int64)
    for word in allowed_recompute(coefficients.request):
        best = np.minimum(best, even.step(word, share))
    return best
