"""One case of a comparison or a curve: what was asked, the best plan for it, and what that costs."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ..inputs import Frozen
from ..models.strategy import Strategy
from .beside import Notice
from .peak import Verdict
from .plan import SCHEMA_VERSION


class Point(Frozen):
    """The best plan of one request in numbers; all are None or empty where there is none.

    `settled` is False where the search was stopped before its proof. `headroom_bytes` is what the worst card
    has left; `reason` says why there is no plan.
    """

    status: Literal["optimal", "feasible", "infeasible", "unknown"]
    gpus: int
    nodes: int
    gpus_per_node: int
    global_batch_size: int
    reason: str = ""
    strategy: Strategy | None = None
    step_seconds: float | None = None
    low_seconds: float | None = None
    high_seconds: float | None = None
    tokens_per_second: float | None = None
    mfu: float | None = None
    limit_fraction: float | None = None
    comm_fraction: float | None = None
    memory_bytes: int | None = None
    headroom_bytes: int | None = None
    verdict: Verdict | None = None
    host_bytes_per_node: int | None = None
    usd_per_hour: float | None = None
    usd_per_million_tokens: float | None = None
    gpu_hours_per_billion_tokens: float | None = None
    warnings: tuple[Notice, ...] = ()


class CompareRow(Point):
    """A case of `compare`: the fields it sets, its rank by the objective, and whether it is on the front.

    `pareto`: no other row is at least as good in step time, cards, dollars and headroom, and better in one.
    """

    name: str
    case: dict[str, str]
    rank: int | None = None
    pareto: bool = False


class BreakEven(Frozen):
    """Where the ranking of the two best cases flips along a field; `value` None where it never does.

    `below` and `above` name the winner on either side.
    """

    field: str
    low: float
    high: float
    value: float | None
    below: str
    above: str


class Compare(Frozen):
    """Cases side by side, best first in `ranking`.

    `margin_percent` is the extra step time (or dollars) of the second over the first. `settled` where that is
    more than `settles_percent`: up to that, ratios of two such runs of one source were off in 8 of 10 cases.
    What both runs share, as their card or their network, errs alike in both and leaves their ratio.
    """

    schema_version: int = SCHEMA_VERSION
    inputs_hash: str
    versions: dict[str, str]
    objective: str
    rows: tuple[CompareRow, ...]
    ranking: tuple[str, ...]
    margin_percent: float | None = None
    settled: bool | None = None
    settles_percent: float | None = None
    verdict: str
    break_even: BreakEven | None = None
    written: tuple[str, ...] = ()


class CurveRow(Point):
    """A number of cards on a curve.

    `global_batch_exact`: the cards divide the global batch of the request, so that plain data parallel keeps
    it; `nearest_exact_batches` are the nearest sizes below and above that they divide (the batch itself where
    exact); `delta_batch_percent` is what the nearest of them differs by. The plan always has exactly
    `global_batch_size` sequences: that of the request, or the nearest where no layout of it has a plan.
    `needs_reshard`: a checkpoint of the row before has to be converted to be loaded by this one.
    `envelope_gpus`: the number of cards, at most these, whose plan is fastest (with `envelope`).
    """

    micro_batch_size: int | None = None
    gradient_accumulation_steps: int | None = None
    global_batch_exact: bool
    nearest_exact_batches: tuple[int, ...]
    delta_batch_percent: float
    needs_reshard: bool
    pareto: bool = False
    envelope_gpus: int | None = None


class Curve(Frozen):
    """The best plan at each number of cards."""

    schema_version: int = SCHEMA_VERSION
    inputs_hash: str
    versions: dict[str, str]
    rows: tuple[CurveRow, ...]

    def _repr_html_(self) -> str:
        """The rows as a table, for notebooks."""
        return html(self.rows, ("gpus", "nodes", "step_seconds", "tokens_per_second", "memory_bytes"))


def html(rows: tuple[Point, ...], columns: tuple[str, ...]) -> str:
    """`columns` of `rows` as an HTML table."""
    head = "".join(f"<th>{name}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{_cell(getattr(row, name))}</td>" for name in columns) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return (
        f"{value:,.4g}"
        if isinstance(value, float)
        else f"{value:,}"
        if isinstance(value, int)
        else str(value)
    )


class TermChange(Frozen):
    """One time term with and without the force; the differences of all terms add up to the loss."""

    name: str
    planned_seconds: float
    forced_seconds: float
    delta_seconds: float


class Binding(Frozen):
    """A limit that keeps the forced plan from being faster: without it the step would be shorter."""

    limit: str
    value: str
    origin: str
    said: str
    """The limit as words."""
    resulting_step_seconds: float


class Why(Frozen):
    """What a forced change costs: the best plan with it against the plan without.

    `terms` are the time terms, largest growth first; `memory_delta_bytes` is the change on the worst card.
    Where nothing fits under the force `status` is infeasible and `reasons` say why. `held` tells that the
    plan already has it. Where the force changes the tokens of a step, `loss_per_token_percent` is what it
    costs: the longer time for as many tokens.
    """

    schema_version: int = SCHEMA_VERSION
    inputs_hash: str
    versions: dict[str, str]
    set: str
    status: Literal["optimal", "feasible", "infeasible", "unknown"]
    held: bool = False
    planned: Strategy
    planned_step_seconds: float
    forced: Strategy | None = None
    forced_step_seconds: float | None = None
    loss_percent: float | None = None
    loss_per_token_percent: float | None = None
    planned_tokens: int | None = None
    """Tokens of a step of the plan, and of the forced one."""
    forced_tokens: int | None = None
    terms: tuple[TermChange, ...] = ()
    planned_memory_bytes: int
    forced_memory_bytes: int | None = None
    binds: tuple[Binding, ...] = ()
    reasons: tuple[str, ...] = ()
    placement: dict[str, str] = Field(default_factory=dict)
