"""From stage times to the step: the pipeline formula, for every schedule."""

from __future__ import annotations

from functools import cache
from typing import Literal

import numpy as np

from ..inputs.record import dataclass
from ..models.schedule import SCHEDULES, Schedule, ScheduleName, schedule
from .columns import Bools, Ints, Strategies, distinct

Which = Literal["in_flight", "waiting"]


@dataclass(frozen=True)
class Step:
    """Step times of n strategies and where they come from, nanoseconds."""

    total: Ints
    bubble: Ints
    slowest: Ints
    """Index of the stage whose chunk is slowest (the first of equals)."""
    tail_stage: Ints
    """Index of the stage with the longest work once a step."""


@dataclass(frozen=True)
class Passes:
    """What the time of a chunk is made of, (n, stages): the rest is the backward for inputs."""

    strategies: Strategies
    forward: Ints
    weight: Ints


@dataclass(frozen=True)
class Rounds:
    """What the rounds of interleaved chunks wait for, ns.

    `longest` chunk of each stage without embedding and head, (n, stages); `ends` the links that these stand
    on, (2, n).
    """

    chunks: Ints
    longest: Ints
    ends: Ints

    def pace(self, most: Ints) -> Ints:
        """Mean time of a chunk in a step whose slowest stage takes `most` a chunk, (n,).

        Every round takes as long as its longest chunk, and one round in v the first or last link, if longer.
        """
        found, common = most, self.longest.max(axis=1)
        for end in self.ends:
            found = np.maximum(found, paced(common, end, self.chunks))
        return found


def paced(common: Ints, end: Ints, chunks: Ints) -> Ints:
    """Mean time of v chunks of `common` ns, of which one waits for a link of `end` ns."""
    found: Ints = common - (-np.maximum(end - common, 0) // chunks)
    return found


def step(
    chunk: Ints,
    tail: Ints,
    held: Bools,
    passes: Ints,
    made_of: Passes | None = None,
    rounds: Rounds | None = None,
) -> Step:
    """Step = m v max U + bubble + max tail.

    `chunk` U and `tail` are (n, stages), `passes` = m v chunks of each stage. The slowest stage works
    m v U. The bubble is what the other stages add while the pipe fills and drains: under 1F1B all of a
    chunk, sum U - max U, and under schedules that `made_of` tells what their `bubbles` leave of it. It is at
    or above the simulated makespan where stages are alike in all but length, exact where they are equal
    (`tests/test_schedule.py`). Where `rounds` tells what interleaved chunks wait for, they pass at its pace.
    """
    chunk = np.where(held, chunk, 0)
    tail = np.where(held, tail, -1)
    slowest = chunk.argmax(axis=1)
    most = chunk.max(axis=1)
    bubble = chunk.sum(axis=1) - most
    if made_of is not None:
        bubble = _bubbles(chunk, passes, made_of)
    if rounds is not None:
        bubble = bubble + (passes - 1) * (rounds.pace(most) - most)
    total = passes * most + bubble + tail.max(axis=1)
    return Step(total, bubble, slowest, tail.argmax(axis=1))


def _bubbles(chunk: Ints, passes: Ints, made_of: Passes) -> Ints:
    """The bubble of each row by its schedule."""
    found = np.zeros(len(chunk), dtype=np.int64)
    for code in distinct(made_of.strategies.pipeline_schedule).tolist():
        rows = made_of.strategies.pipeline_schedule == code
        parts = chunk[rows], made_of.forward[rows], made_of.weight[rows]
        found[rows] = _bubble(schedule(SCHEDULES[code]), *parts, passes[rows])
    return found


def _bubble(known: Schedule, chunk: Ints, forward: Ints, weight: Ints, passes: Ints) -> Ints:
    """The longest of the alternatives of one schedule, each summed over all stages but the slowest.

    Where micro-batches come from both ends the slowest stage is there twice and the pipe half as long. Where
    all forwards go first each way of passing has its own slowest stage.
    """
    slowest = chunk.argmax(axis=1)[:, None]
    backward = chunk - forward - weight
    longest = np.zeros(len(chunk), dtype=np.int64)
    for one in known.bubbles:
        each = one.forward * forward + one.input * backward + one.weight * weight
        own, own_forward = (np.take_along_axis(part, slowest, axis=1)[:, 0] for part in (each, forward))
        total = each.sum(axis=1) - own
        if known.placement == "both":
            total = -(-(total - own) // 2)
        longest = np.maximum(longest, total - one.forward_less * own_forward)
    if known.apart:
        back = chunk - forward
        longest += passes * (forward.max(axis=1) + back.max(axis=1) - chunk.max(axis=1))
    return longest


def _run(codes: Ints) -> tuple[ScheduleName, ...]:
    """The schedules up to the last that some of `codes` stands for: facts of others need not be known."""
    return SCHEDULES[: int(codes.max(initial=-1)) + 1]


def plain(strategies: Strategies) -> bool:
    """Whether every row runs 1F1B, with chunks or without: its bubble needs no parts of a chunk."""
    return bool((strategies.pipeline_schedule < len(_PLAIN)).all())


_PLAIN = SCHEDULES[:3]


def in_rounds(strategies: Strategies) -> Bools:
    """Rows whose chunks take micro-batches in rounds, one forward after one backward."""
    known = [schedule(name) for name in _run(strategies.pipeline_schedule)]
    able = np.array([one.chunks == "many" and not one.apart for one in known], dtype=np.bool_)
    found: Bools = able[strategies.pipeline_schedule] & (strategies.virtual_pipeline > 1)
    return found


def placed(strategies: Strategies, placement: str) -> Bools:
    """Rows whose schedule lays chunks so (`Schedule.placement`)."""
    if plain(strategies):
        return np.full(len(strategies), placement == "loop")
    laid = np.array([schedule(name).placement == placement for name in SCHEDULES])
    found: Bools = laid[strategies.pipeline_schedule]
    return found


def pairs_passes(strategies: Strategies) -> Bools:
    """Rows whose schedule runs forwards beside backwards (`Schedule.pairs`)."""
    if plain(strategies):
        return np.zeros(len(strategies), dtype=np.bool_)
    paired = np.array([schedule(name).pairs for name in SCHEDULES])
    found: Bools = paired[strategies.pipeline_schedule]
    return found


def chunks_held(strategies: Strategies, which: Which) -> Ints:
    """`chunks_on` every stage, (n, longest pipeline)."""
    stage = np.arange(int(strategies.pipeline_parallel.max(initial=1)))[None, :]
    return chunks_on(strategies, which, np.arange(len(strategies.pipeline_parallel)), stage)


def chunks_on(strategies: Strategies, which: Which, rows: Ints, stage: Ints) -> Ints:
    """Chunks of which stages (rows, columns) of some rows hold something, at their fullest.

    1F1B min(m, p - i); interleaved min(m v, (v-1) p + 2 (p - i - 1) + 1) (arXiv 2205.05198). Where
    micro-batches come from both ends these are the chunks of one direction.
    """
    code = strategies.pipeline_schedule[rows]
    p, v = strategies.pipeline_parallel[rows][:, None], strategies.virtual_pipeline[rows][:, None]
    stages, rounds, behind, ahead, fixed, whole, ways = (
        column[code][:, None] for column in _numbers(which, _run(code))
    )
    found = stages * p + rounds * (v - 1) * p + behind * (p - 1 - stage) + ahead * stage + fixed
    most = -(-strategies.gradient_accumulation_steps[rows][:, None] // ways) * v
    if which == "waiting":
        waiting: Ints = np.minimum(np.maximum(-(-found // ways), 0), most)
        return waiting
    held: Ints = np.minimum(np.maximum(np.where(whole > 0, most, found), 1), most)
    return held


@cache
def _numbers(which: Which, names: tuple[ScheduleName, ...]) -> tuple[Ints, ...]:
    """The numbers of `Held` of some schedules, and the ways micro-batches come from."""
    held = [getattr(schedule(name), which) for name in names]
    columns = [
        [int(getattr(one, part)) for one in held]
        for part in ("stages", "rounds", "behind", "ahead", "fixed", "all")
    ]
    columns.append([2 if schedule(name).placement == "both" else 1 for name in names])
    return tuple(np.array(column, dtype=np.int64) for column in columns)
