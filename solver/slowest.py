"""Which options of a row may be its slowest stage, where communication may show for a share of the step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..costs.columns import Bools, Ints
from ..inputs.record import dataclass
from .stage_limits import SHARES, comm_share
from .table import SHOWN_CHUNK, SHOWN_TAIL, RowTable

Floor = tuple[int, int]


@dataclass(frozen=True)
class Slowest:
    """Options that may be the slowest stage of a plan within the limits: their chunks, and the least steps.

    `step_ns` is the step of which what such a chunk and the tail show is the largest share allowed.
    """

    chunk_ns: Ints
    step_ns: Ints

    @property
    def floor(self) -> Floor:
        """(slowest chunk, step) that no plan beats."""
        return int(self.chunk_ns.min()), int(self.step_ns.min())


def slowest_stages(table: RowTable, stages: Sequence[Ints], limit_ns: int) -> Slowest:
    """`Slowest` of the options of one mode; empty where no plan keeps the limits.

    The slowest chunk is at least as slow as the fullest stage's. If one of U ns is the slowest, the others
    take U at most: so much at most is the step that it shows a share of, and so much they must hold.
    """
    c, row = table.coefficients, table.row
    passes, share = int(c.passes[row]), comm_share(c.request) or 0
    every = np.concatenate(stages)
    fullest = every[every[:, 1] >= -(-table.places // table.stages), 5]
    chunk = every[:, 5]
    shown = passes * every[:, SHOWN_CHUNK] + _shown_tail(every, -(-table.places // table.stages))
    own = np.repeat(np.arange(len(stages)), [len(options) for options in stages])
    others, held, able = _beside(stages, own, chunk)
    step = passes * chunk + (passes - 1) * int(c.longest_wait[row]) + others + int(every[:, 6].max())
    least = -(-SHARES * np.maximum(shown, 0) // share) if share else np.where(shown > 0, limit_ns + 1, 0)
    kept = able & (held + every[:, 1] >= table.places) & (least <= np.minimum(step, limit_ns))
    kept &= chunk >= int(fullest.min(initial=limit_ns))
    return Slowest(chunk[kept], least[kept])


def _shown_tail(every: Ints, fullest: int) -> Ints:
    """What the longest tail shows at least beside each option: it is no shorter, nor than the fullest's."""
    tail = every[:, 6]
    least = int(tail[every[:, 1] >= fullest].min(initial=int(tail.max())))
    order = np.argsort(tail, kind="stable")
    rest = np.minimum.accumulate(every[order[::-1], SHOWN_TAIL])[::-1]
    found: Ints = rest[np.searchsorted(tail[order], np.maximum(tail, least), side="left")]
    return found


def _beside(stages: Sequence[Ints], own: Ints, chunk: Ints) -> tuple[Ints, Ints, Bools]:
    """Of options of stages `own` as the slowest: ns and layers that the others take at most, if they can."""
    longest, most = np.zeros_like(chunk), np.zeros_like(chunk)
    able = np.ones(len(chunk), dtype=np.bool_)
    for stage, options in enumerate(stages):
        order = np.argsort(options[:, 5], kind="stable")
        times = options[order, 5]
        layers = np.maximum.accumulate(options[order, 1])
        place = np.searchsorted(times, chunk, side="right") - 1
        other = own != stage
        able &= ~other | (place >= 0)
        longest += other * times[np.maximum(place, 0)]
        most += other * layers[np.maximum(place, 0)]
    return longest, most, able
