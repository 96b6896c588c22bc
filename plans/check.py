"""The judgement of a strategy somebody already has."""

from __future__ import annotations

from typing import Literal

from ..inputs import Frozen
from ..models import Strategy
from .beside import Notice
from .peak import MemoryReport, Verdict
from .plan import SCHEMA_VERSION
from .step import Cost, TimeReport, Traffic


class Breach(Frozen):
    """A rule or limit the strategy does not keep: its name, the reason, where the limit came from."""

    rule: str
    reason: str
    origin: str


class Best(Frozen):
    """What the search found for the same request; `strategy` and seconds are None without a plan."""

    status: Literal["optimal", "feasible", "infeasible", "unknown"]
    strategy: Strategy | None = None
    step_seconds: float | None = None


class Edited(Frozen):
    """A choice of a plan that one of its files now states otherwise."""

    field: str
    was: str
    now: str


class Patched(Frozen):
    """A key of a file, what it says, and what the best plan of its client says; `path` is its dotted path."""

    file: str
    line: int
    key: str
    value: str
    better: str
    path: str


class FilesRead(Frozen):
    """Where a strategy was read: the client of the files, the plan they were written for, the way up.

    `plan_hash` and `edited` are told where a plan.json lies beside the files, and in `other_job` what the
    request they are judged for asks otherwise than that plan. `patch` leads to the best
    plan that the client's file can carry, which takes `patched_step_seconds`; None where it has none.
    `diff` is the patch as a unified diff, None where the file is written too freely for one.
    """

    client: str
    plan_hash: str | None = None
    edited_files: tuple[str, ...] = ()
    edited: tuple[Edited, ...] = ()
    other_job: tuple[Edited, ...] = ()
    patch: tuple[Patched, ...] = ()
    patched_step_seconds: float | None = None
    diff: str | None = None


class Check(Frozen):
    """Memory, time and rules of a given strategy, and its loss against the best plan.

    `verdict` is that of the cards, or of the host where that is worse; `loss_percent` is the extra
    step time over the best plan, None where there is none.
    """

    schema_version: int = SCHEMA_VERSION
    inputs_hash: str
    versions: dict[str, str]
    verdict: Verdict
    strategy: Strategy
    breaches: tuple[Breach, ...] = ()
    memory: MemoryReport
    time: TimeReport
    traffic: tuple[Traffic, ...]
    cost: Cost
    best: Best | None = None
    loss_percent: float | None = None
    files: FilesRead | None = None
    warnings: tuple[Notice, ...] = ()
