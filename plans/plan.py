"""The answer when something fits: strategy, memory, time, traffic, cost, and the proof."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ..inputs import Frozen
from ..inputs.quantity import gib
from ..models.strategy import Strategy
from .beside import Alternatives, Ladder, Notice, Offers
from .peak import MemoryReport
from .request import Request
from .step import Cost, TimeReport, Traffic

SCHEMA_VERSION = 1


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


class Buckets(Frozen):
    """Buffer sizes the ledger priced, in elements: the launch files carry the same numbers."""

    reduce_bucket_elements: int = Field(ge=1)
    allgather_bucket_elements: int = Field(ge=1)
    prefetch_bucket_elements: int = Field(ge=1)
    max_live_parameters: int = Field(ge=1)
    persistence_threshold: int = Field(ge=0)
    sub_group_elements: int = Field(ge=1)


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
