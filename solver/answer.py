"""From a search's outcome to the answer of the contract."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from ..costs import Ledger
from ..costs.law import law
from ..hardware import Cluster
from ..models import Strategy, Transformer
from ..models.backend import backend
from ..models.divisors import padded_vocabulary
from ..plans import Notice, OutOfTime, Plan, Proof, Request
from ..plans.report import (
    bucket_report,
    cost_report,
    memory_report,
    seconds,
    time_report,
    traffic_report,
)
from .judge import judge
from .search import Found, Outcome

Writers = Callable[[Strategy, Transformer], tuple[str, ...]]
"""Which launch targets can write a strategy."""

COMM_WARNING = 0.3
"""Share of the step above which exposed communication is worth a warning."""


@cache
def versions() -> dict[str, str]:
    """Releases an answer depends on."""
    found = {}
    for name in ("numpy", "ortools", "shardwise"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "unknown"
    return found


def proof(outcome: Outcome, found: Found) -> Proof:
    """The certificate: what was considered and how each row fell out."""
    tally = outcome.tally
    bound = found.step_ns if outcome.proved else min(outcome.bound_ns or 0, found.step_ns)
    gap = (found.step_ns - bound) / found.step_ns
    words = (
        "no other choice of this search space is faster under this cost model"
        if outcome.proved
        else f"stopped by the time limit; nothing is faster than {seconds(bound)} s"
    )
    return Proof(
        bound_seconds=seconds(bound),
        gap=round(gap, 6),
        rows_considered=tally.rows,
        rows_excluded_by=tally.excluded(),
        leaves_solved=tally.leaves,
        master_solves=tally.masters,
        deterministic_time=round(tally.deterministic_time, 6),
        statement=words,
    )


def plan_of(request: Request, outcome: Outcome, writers: Writers | None) -> Plan:
    """The plan of an outcome that has one, judged again."""
    assert outcome.best is not None
    found = outcome.best
    ledger = judge(request, found.strategy, found.step_ns)
    return Plan(
        status="optimal" if outcome.proved else "feasible",
        inputs_hash=request.inputs_hash(),
        versions=versions(),
        request=request,
        strategy=found.strategy,
        writable_by=writers(found.strategy, request.model) if writers else (),
        placement=ledger.placement,
        memory=memory_report(request, ledger),
        time=time_report(request, found.strategy, ledger),
        traffic=traffic_report(ledger),
        cost=cost_report(request, ledger),
        proof=proof(outcome, found),
        buckets=bucket_report(ledger),
        warnings=notices(request, ledger, found.strategy),
    )


def out_of_time(request: Request, outcome: Outcome) -> OutOfTime:
    """The answer when a limit stopped the search without a plan."""
    return OutOfTime(
        inputs_hash=request.inputs_hash(),
        versions=versions(),
        rows_considered=outcome.tally.rows,
        bound_seconds=None if outcome.bound_ns is None else seconds(outcome.bound_ns),
        deterministic_time=round(outcome.tally.deterministic_time, 6),
    )


def topology_notices(cluster: Cluster) -> tuple[Notice, ...]:
    """What the source of the cluster did not show, so that no guess passes unseen."""
    hint = "say what is missing under [cluster], or paste the whole text"
    return tuple(Notice(code="topology", message=note, hint=hint) for note in cluster.notes)


def notices(request: Request, ledger: Ledger, strategy: Strategy) -> tuple[Notice, ...]:
    """What a person should know before starting this strategy."""
    found = [*topology_notices(request.cluster), *_of_model(request.model, strategy)]
    if ledger.peak_kib > law("risky_share") * ledger.usable_kib:
        share = 100 * ledger.peak_kib / ledger.usable_kib
        found.append(
            Notice(
                code="risky-memory",
                message=f"the worst card is filled to {share:.0f} % of its usable memory",
                hint="runs above 92 % are known to crash later; raise limits.memory_margin",
            )
        )
    if ledger.comm_ns > COMM_WARNING * ledger.step_ns:
        terms = {name: ns for name, ns in ledger.terms_ns.items() if "_comm" in name}
        worst = max(terms, key=lambda name: terms[name])
        found.append(
            Notice(
                code="communication",
                message=f"{100 * ledger.comm_ns / ledger.step_ns:.0f} % of the step is exposed communication",
                hint=f"most of it is {worst}, over the {_tier_of(ledger, worst)}",
            )
        )
    if strategy.offload_optimizer == "cpu":
        gib = ledger.host_node_kib / 2**20
        found.append(
            Notice(
                code="offload",
                message=f"optimizer states live in host memory: {gib:.0f} GiB a node",
                hint="the step rests on the host's memory bandwidth; bind cores to ranks and measure",
            )
        )
    return tuple(found)


def _of_model(model: Transformer, strategy: Strategy) -> Iterator[Notice]:
    """What its file says beside sizes, and a vocabulary that is padded."""
    for note in model.notes:
        yield Notice(code="model", message=note, hint=f"shardwise show model {model.source or model.name}")
    multiple = backend(strategy.backend).vocab_multiple
    size = padded_vocabulary(model.vocab_size, strategy.tensor_parallel, multiple)
    if size > model.vocab_size:
        unit = f"{multiple} * tensor_parallel {strategy.tensor_parallel}"
        yield Notice(
            code="vocabulary",
            message=f"the vocabulary of {model.vocab_size:,} is padded to {size:,}, a multiple of {unit}",
            hint="the rows are counted in memory; a checkpoint of another padding does not load as it is",
        )


_AXES = {
    "tensor_comm": "tensor_parallel",
    "context_comm": "context_parallel",
    "expert_comm": "expert_parallel",
    "pipeline_comm": "pipeline_parallel",
    "data_comm_exposed": "shard_group",
}


def _tier_of(ledger: Ledger, term: str) -> str:
    return ledger.placement.get(_AXES.get(term, ""), "network")
