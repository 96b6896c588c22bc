"""Pipeline schedules: the order of passes over the stages, as what it costs in time and memory."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Literal

from ..inputs.listed import Entries, Listed
from ..inputs.record import dataclass
from .recipe import table

ScheduleName = Literal[
    "none", "1f1b", "interleaved", "gpipe", "looped-bfs", "zb-h1", "zb-h2", "interleaved-zb", "zb-v",
    "dualpipe", "dualpipe-v",
]  # fmt: skip
SCHEDULES: tuple[ScheduleName, ...] = (
    "none", "1f1b", "interleaved", "gpipe", "looped-bfs", "zb-h1", "zb-h2", "interleaved-zb", "zb-v",
    "dualpipe", "dualpipe-v",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Bubble(Listed):
    """What each stage but the slowest adds to the step: multiples of the passes of one chunk.

    `forward` F, `input` B (the backward for inputs), `weight` W (that for weights); `forward_less` of the
    slowest stage's F is taken from the sum.
    """

    forward: int = 0
    input: int = 0
    weight: int = 0
    forward_less: int = 0


@dataclass(frozen=True, kw_only=True)
class Held(Listed):
    """Chunks on stage i of p with v each: stages p + rounds (v-1) p + behind (p-1-i) + ahead i + fixed.

    `all`: every chunk of the step.
    """

    stages: int = 0
    rounds: int = 0
    behind: int = 0
    ahead: int = 0
    fixed: int = 0
    all: bool = False


@dataclass(frozen=True, kw_only=True)
class Schedule(Listed):
    """A pipeline schedule.

    `bubbles` are alternatives of which the longest counts. `in_flight` are chunks whose activations a stage
    holds at its fullest; `waiting` are those of them whose backward for inputs is done and that for weights
    is not. `bubble` and `memory` say both in words.
    """

    name: ScheduleName
    title: str
    called: tuple[str, ...] = ()
    """Names elsewhere, in lower case: classes of torch.distributed.pipelining, words of papers."""
    chunks: Literal["one", "two", "many"]
    """Chunks of a stage: one, two, or any number above one."""
    placement: Literal["loop", "vee", "both"] = "loop"
    """Chunk c of stage i is link c p + i of the chain; vee: links i and 2p-1-i, so that embedding and head
    share the first stage; both: link i of one direction and p-1-i of the other, all parameters twice."""
    splits: bool = False
    """Whether the backward for weights runs apart from that for inputs."""
    apart: bool = False
    """Whether all forwards run before the first backward."""
    pairs: bool = False
    """Whether a forward and a backward run beside each other, so that each hides what the other sends."""
    bubbles: tuple[Bubble, ...]
    in_flight: Held
    waiting: Held
    even: bool = False
    """Whether stages and micro-batches must be even."""
    least_batches_a_stage: int = 0
    """Micro-batches a step the order needs, for each stage."""
    bubble: str
    memory: str
    source: str


@cache
def schedules() -> Entries[Schedule]:
    """All schedules by name."""
    return Entries(table("schedules"), _schedule)


def _schedule(name: str, entry: Mapping[str, Any]) -> Schedule:
    """An entry and its parts that are objects of their own."""
    held = {part: Held.listed(**entry[part]) for part in ("in_flight", "waiting") if part in entry}
    bubbles = [Bubble.listed(**bubble) for bubble in entry["bubbles"]]
    return Schedule.listed(name=name, **{**entry, **held, "bubbles": bubbles})


def schedule(name: ScheduleName) -> Schedule:
    """The schedule `name`."""
    return schedules()[name]


def usual_schedule(stages: int, chunks: int) -> ScheduleName:
    """The schedule of so many stages and chunks where nothing else is said.

    >>> usual_schedule(4, 2)
    'interleaved'
    """
    if stages == 1:
        return "none"
    return "interleaved" if chunks > 1 else "1f1b"


def schedule_called(word: str) -> Schedule | None:
    """The schedule that torch or a paper calls `word`, in any case.

    >>> schedule_called("ZBVZeroBubble").name
    'zb-v'
    """
    return next((one for one in schedules().values() if word.lower() in (*one.called, one.name)), None)


def misfit(name: ScheduleName, stages: int, chunks: int, batches: int) -> str | None:
    """Why `name` cannot run `batches` micro-batches over so many stages and chunks, None where it can."""
    known = schedule(name)
    if (stages == 1) != (name == "none"):
        return f"pipeline_schedule is {name}, pipeline_parallel is {stages}"
    if stages == 1:
        return None
    fits = {"one": chunks == 1, "two": chunks == 2, "many": chunks > 1}
    if not fits[known.chunks]:
        wanted = {"one": "1", "two": "2", "many": "2 or more"}[known.chunks]
        return f"pipeline_schedule {name} takes virtual_pipeline {wanted}, not {chunks}"
    if known.even and (stages % 2 or batches % 2):
        return f"pipeline_schedule {name} takes an even number of stages and micro-batches"
    least = known.least_batches_a_stage * stages
    return f"pipeline_schedule {name} takes {least} micro-batches or more" if batches < least else None
