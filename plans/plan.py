"""The answer when something fits: strategy, memory, time, traffic, cost, and the proof."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    ConfigDict,
    Field,
    PlainSerializer,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from ..costs.ledger import View
from ..inputs import Frozen
from ..inputs.later import Later
from ..models.strategy import Strategy
from .quantity import gib
from .request import Request

SCHEMA_VERSION = 1

Verdict = Literal["fits", "risky", "does_not_fit"]


class StageMemory(Frozen):
    """Peak of one pipeline stage, bytes; the terms add up to `total_bytes`."""

    stage: int
    peak_moment: str
    total_bytes: int
    terms_bytes: dict[str, int]


class BytesPerParameter(Frozen):
    """The byte recipe behind the states: bytes of weight, gradient and optimizer for one parameter."""

    recipe: str
    weights: float
    gradients: float
    optimizer: float
    frozen: float = 0.0
    """Bytes of a frozen weight, which has neither gradient nor optimizer state."""


class PeakUncertainty(Frozen):
    """Where the measured peak of a card is expected with 80 % probability, and what that rests on."""

    low_bytes: int
    high_bytes: int
    basis: str


class MemoryReport(Frozen):
    """Memory of the worst stage and of the host; `terms_bytes` add up to `total_bytes` exactly."""

    usable_bytes: int
    total_bytes: int
    limit_bytes: int
    """What the plan was held to: (1 - memory_margin) of the usable bytes."""
    verdict: Verdict
    uncertainty: PeakUncertainty
    views_bytes: dict[View, int]
    """The peak as counters show it: torch's allocated and reserved, and nvidia-smi (process)."""
    peak_stage: int
    peak_moment: str
    terms_bytes: dict[str, int]
    stages: tuple[StageMemory, ...]
    host_bytes_per_node: int
    host_usable_bytes: int
    host_verdict: Verdict
    host_terms_bytes: dict[str, int] = {}
    """Of the fullest node; adds up to `host_bytes_per_node`."""
    host_nodes_needed: int | None = None
    """Least nodes whose hosts hold it; None where it fits, or where more nodes do not divide it."""
    host_load_bytes_per_node: int = 0
    """While loading, where every rank of a node reads the whole 16-bit model; one reader takes its share."""
    load_peak_bytes: int
    checkpoint_bytes: int
    bytes_per_parameter: BytesPerParameter


class Uncertainty(Frozen):
    """Where the step time is expected with 80 % probability, and what that rests on."""

    low_seconds: float
    high_seconds: float
    basis: str


class TimeReport(Frozen):
    """Seconds of one optimizer step; `terms_seconds` add up to `step_seconds` in whole nanoseconds."""

    step_seconds: float
    terms_seconds: dict[str, float]
    hidden_seconds: dict[str, float]
    comm_fraction: float
    limit_seconds: float
    limit_fraction: float
    tokens_per_second: float
    tokens_per_second_per_gpu: float
    model_tflops_per_gpu: float
    mfu: float
    hfu: float
    uncertainty: Uncertainty


class Traffic(Frozen):
    """Bytes one card sends in a step for one axis of parallelism over one tier of the cluster."""

    axis: str
    tier: str
    bytes_per_card: int


class Cost(Frozen):
    """Dollars and days where price and total tokens are known."""

    usd_per_hour: float | None = None
    usd_per_million_tokens: float | None = None
    days: float | None = None
    usd_total: float | None = None


class Proof(Frozen):
    """Why no other choice is faster under this cost model and in this space.

    Every row considered was excluded by one of `rows_excluded_by` (rule, infeasible, bound, leaf)
    but the winner. `bound_seconds` is the least step time still possible, `gap` its relative
    distance from the answer (0 when optimal).
    """

    bound_seconds: float
    gap: float
    rows_considered: int
    rows_excluded_by: dict[str, int]
    leaves_solved: int
    master_solves: int
    deterministic_time: float
    statement: str


class Alternative(Frozen):
    """The best plan of another class and what it loses."""

    name: str
    strategy: Strategy
    step_seconds: float
    memory_bytes: int
    loss_percent: float
    why: str


class Offer(Frozen):
    """What the request does not allow but would pay."""

    set: str
    resulting_step_seconds: float
    gain_percent: float
    caveat: str


class Rung(Frozen):
    """One step of the ladder from plain data parallel to the plan: the lever, and what stands after it.

    `bought_bytes` and `paid_seconds` are against the rung the lever starts from; `hidden_seconds` those that
    overlap hides: without it the step would take so much longer.
    """

    lever: str
    set: str
    memory_bytes: int
    step_seconds: float
    bought_bytes: int = 0
    paid_seconds: float = 0.0
    hidden_seconds: float = 0.0
    verdict: Verdict


class Notice(Frozen):
    """A warning with what to do about it."""

    code: str
    message: str
    hint: str


class Buckets(Frozen):
    """Buffer sizes the ledger priced, in elements: the launch files carry the same numbers."""

    reduce_bucket_elements: int = Field(ge=1)
    allgather_bucket_elements: int = Field(ge=1)
    prefetch_bucket_elements: int = Field(ge=1)
    max_live_parameters: int = Field(ge=1)
    persistence_threshold: int = Field(ge=0)
    sub_group_elements: int = Field(ge=1)


def _kept(values: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    """Values that are made later stay so; others are validated."""
    return values if isinstance(values, Later) else handler(values)


Alternatives = Annotated[
    tuple[Alternative, ...],
    WrapValidator(_kept),
    PlainSerializer(tuple, return_type=tuple[Alternative, ...]),
]
Offers = Annotated[
    tuple[Offer, ...], WrapValidator(_kept), PlainSerializer(tuple, return_type=tuple[Offer, ...])
]
Ladder = Annotated[
    tuple[Rung, ...], WrapValidator(_kept), PlainSerializer(tuple, return_type=tuple[Rung, ...])
]
"""Tuples that may be a `Later`."""


class Plan(Frozen):
    """A plan that fits, judged again without the solver."""

    schema_version: int = SCHEMA_VERSION
    status: Literal["optimal", "feasible"]
    inputs_hash: str
    digests: dict[str, str] = {}
    """Digest of each part of the request and of the strategy, as written: see `digests`."""
    versions: dict[str, str]
    request: Request
    strategy: Strategy
    writable_by: tuple[str, ...]
    placement: dict[str, str]
    memory: MemoryReport
    time: TimeReport
    traffic: tuple[Traffic, ...]
    uplink_bytes_per_step: int = 0
    """What the network cards of a machine with the busiest stage send in a step."""
    cost: Cost
    proof: Proof
    buckets: Buckets
    alternatives: Alternatives = ()
    """Like `offers` and `ladder` searched for when first looked at: the plan alone does not wait for it."""
    offers: Offers = ()
    warnings: tuple[Notice, ...] = ()
    ladder: Ladder = ()

    def whole(self) -> Plan:
        """This plan with everything beside it found by now."""
        beside = {name: tuple(getattr(self, name)) for name in ("alternatives", "offers", "ladder")}
        return self.model_copy(update=beside)

    def _repr_html_(self) -> str:
        """The plan as a table of its choices and what they cost, for notebooks."""
        s = self.strategy
        rows = {
            "model": self.request.model.name,
            "cluster": self.request.cluster.told,
            "backend": s.backend,
            "tensor x pipeline x context x data": (
                f"{s.tensor_parallel} x {s.pipeline_parallel} x {s.context_parallel} x {s.data_parallel}"
            ),
            "ZeRO stage": str(s.zero_stage),
            "micro-batch": str(s.micro_batch_size),
            "recompute": s.recompute,
            "step": f"{self.time.step_seconds:.4g} s",
            "memory a card": f"{gib(self.memory.total_bytes)}, {self.memory.verdict.replace('_', ' ')}",
            "status": self.status,
        }
        from html import escape

        cells = "".join(f"<tr><th>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in rows.items())
        return f"<table><tbody>{cells}</tbody></table>"


class Conflict(Frozen):
    """One limit of a clash: its value and where that came from."""

    limit: str
    value: str
    origin: str


class Cure(Frozen):
    """A change after which a plan exists, found by solving again.

    `set` is ready for ``--set`` (two changes stand in it, joined by a comma); `new_gpus` are the cards it
    needs beyond those of the request; `strategy` is the plan that it leads to. Where the time for it did not
    prove a best plan, `proved` is False and the plan is the best one found.
    """

    model_config = ConfigDict(populate_by_name=True)

    change: str
    set: str
    from_: str = Field(alias="from")
    to: str
    new_gpus: int = 0
    proved: bool = True
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
