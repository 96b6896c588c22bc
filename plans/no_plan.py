"""The answers when nothing fits, or when a limit came before any plan."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from ..inputs import Frozen
from ..models.strategy import Strategy
from .peak import Verdict
from .plan import SCHEMA_VERSION, Plan


class Conflict(Frozen):
    """One limit of a clash: its value and where that came from."""

    limit: str
    value: str
    origin: str


class Cure(Frozen):
    """A change after which a plan exists, found by solving again.

    `set` is ready for ``--set`` (two changes stand in it, joined by a comma); `new_gpus` are the cards it
    needs beyond those of the request; `strategy` is the plan that it leads to. Where the time for it did not
    prove a best plan, `proved` is False and the plan is the best one found. `verdict` is the graver one of
    card and host: a cure may be risky.
    """

    model_config = ConfigDict(populate_by_name=True)

    change: str
    set: str
    from_: str = Field(alias="from")
    to: str
    new_gpus: int = 0
    proved: bool = True
    verdict: Verdict = "fits"
    strategy: Strategy | None = None
    resulting_step_seconds: float


class NoPlan(Frozen):
    """Proof that nothing fits: the limits that clash, with numbers, and what would cure it."""

    schema_version: int = SCHEMA_VERSION
    status: Literal["infeasible"] = "infeasible"
    inputs_hash: str
    versions: dict[str, str]
    reasons: tuple[str, ...]
    conflict: tuple[Conflict, ...]
    cures: tuple[Cure, ...]
    rows_considered: int
    rows_excluded_by: dict[str, int]


class OutOfTime(Frozen):
    """A limit stopped the search before any plan was found; nothing is proved."""

    schema_version: int = SCHEMA_VERSION
    status: Literal["unknown"] = "unknown"
    inputs_hash: str
    versions: dict[str, str]
    rows_considered: int
    bound_seconds: float | None
    deterministic_time: float


Outcome = Plan | NoPlan | OutOfTime
