"""From a search's outcome to the answer of the contract."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from ..hardware import Tier, TierTable
from ..inputs import Frozen
from ..inputs.release import release
from ..models import Divisor, Strategy
from ..models.strategy import Stage
from ..plans import (
    Alternative,
    Buckets,
    BytesPerParameter,
    Cost,
    MemoryReport,
    Notice,
    Offer,
    OutOfTime,
    PeakUncertainty,
    Plan,
    Proof,
    Request,
    Rung,
    StageMemory,
    TimeReport,
    Traffic,
    Uncertainty,
)
from ..plans.report import (
    bucket_report,
    cost_report,
    memory_report,
    seconds,
    time_report,
    traffic_report,
)
from . import exchanges, grids
from .engine import solver_version
from .judge import judge
from .notices import notices
from .outcome import Found, Outcome

Writers = Callable[[Plan], tuple[str, ...]]
"""Which launch targets can write a plan."""


_PARTS: tuple[type[Frozen], ...] = (
    Tier, TierTable, Divisor, Stage, Strategy, StageMemory, PeakUncertainty, BytesPerParameter, MemoryReport,
    Uncertainty, TimeReport, Traffic, Cost, Proof, Buckets, Notice, Alternative, Offer, Rung, Plan,
)  # fmt: skip
for _part in _PARTS:
    _part.model_rebuild()  # whoever loads the search will ask: types are no part of a question


@cache
def versions() -> dict[str, str]:
    """Releases an answer depends on."""
    return {"numpy": np.__version__, "ortools": solver_version(), "shardwise": release()}


def proof(request: Request, outcome: Outcome, found: Found) -> Proof:
    """The certificate: what was considered and how each row fell out."""
    tally = outcome.tally
    bound = found.step_ns if outcome.proved else min(outcome.bound_ns or 0, found.step_ns)
    gap = (found.step_ns - bound) / found.step_ns
    words = (
        "no other choice of this search space is faster under this cost model"
        + (", and no smaller number of cards has a plan" if request.objective.minimize == "gpus" else "")
        if outcome.proved
        else f"stopped before the end; nothing is faster than {seconds(bound)} s"
    )
    asides = (exchanges.left_aside(request), grids.left_aside(request))
    return Proof(
        bound_seconds=seconds(bound),
        gap=round(gap, 6),
        rows_considered=tally.rows,
        rows_excluded_by=tally.excluded(),
        leaves_solved=tally.leaves,
        master_solves=tally.masters,
        deterministic_time=round(tally.deterministic_time, 6),
        statement="; ".join([words, *filter(None, asides)]),
    )


def plan_of(request: Request, outcome: Outcome, writers: Writers | None) -> Plan:
    """The plan of an outcome that has one, judged again."""
    assert outcome.best is not None
    found = outcome.best
    ledger = judge(request, found.strategy, found.step_ns)
    time = time_report(request, found.strategy, ledger)
    plan = Plan(
        status="optimal" if outcome.proved else "feasible",
        inputs_hash=request.inputs_hash(),
        versions=versions(),
        request=request,
        strategy=found.strategy,
        writable_by=(),
        placement=ledger.placement,
        memory=memory_report(request, ledger),
        time=time,
        traffic=traffic_report(ledger),
        uplink_bytes_per_step=ledger.uplink_bytes,
        cost=cost_report(request, time),
        proof=proof(request, outcome, found),
        buckets=bucket_report(ledger),
        warnings=notices(request, ledger, found.strategy),
    )
    return plan.model_copy(update={"writable_by": writers(plan)}) if writers else plan


def out_of_time(request: Request, outcome: Outcome) -> OutOfTime:
    """The answer when a limit stopped the search without a plan."""
    return OutOfTime(
        inputs_hash=request.inputs_hash(),
        versions=versions(),
        rows_considered=outcome.tally.rows,
        bound_seconds=None if outcome.bound_ns is None else seconds(outcome.bound_ns),
        deterministic_time=round(outcome.tally.deterministic_time, 6),
    )
