"""The best plan of a request as one point: searched, priced, in the numbers a table holds."""

from __future__ import annotations

from typing import Any

from ..costs import Ledger
from ..plans import Request, padded_request
from ..plans.report import cost_report, memory_report, price, seconds, time_report
from .alternatives import ASIDE_SECONDS
from .notices import notices
from .outcome import Found, Outcome
from .search import Search
from .software import default_precision


def searched(request: Request) -> Outcome:
    """The outcome of a search aside: bounded, without alternatives or offers."""
    return Search(padded(request), ASIDE_SECONDS).run()


def padded(request: Request) -> Request:
    """The request with its sequence padded where no layout could cut it."""
    choose = request.choose
    precisions = choose.precision or (default_precision(request),)
    return padded_request(request, choose.context_parallel or (1,), precisions)[0]


def where(request: Request) -> dict[str, int]:
    """Cards, nodes and cards a node of a request's cluster, and its batch."""
    cluster = request.cluster
    nodes = sum(pool.nodes for pool in cluster.pools)
    return {
        "gpus": cluster.gpus,
        "nodes": nodes,
        "gpus_per_node": cluster.gpus // nodes,
        "global_batch_size": request.training.global_batch_size,
    }


def numbers(request: Request, found: Found) -> dict[str, Any]:
    """What a found plan costs, by the fields of `Point`."""
    request = padded(request)
    ledger = price(request, [found.strategy])[0]
    time = time_report(request, found.strategy, ledger)
    memory = memory_report(request, ledger)
    cost = cost_report(request, time)
    return {
        "strategy": found.strategy,
        "step_seconds": time.step_seconds,
        "low_seconds": time.uncertainty.low_seconds,
        "high_seconds": time.uncertainty.high_seconds,
        "tokens_per_second": time.tokens_per_second,
        "mfu": time.mfu,
        "limit_fraction": time.limit_fraction,
        "comm_fraction": time.comm_fraction,
        "memory_bytes": memory.total_bytes,
        "headroom_bytes": memory.usable_bytes - memory.total_bytes,
        "verdict": memory.verdict,
        "host_bytes_per_node": memory.host_bytes_per_node,
        "usd_per_hour": cost.usd_per_hour,
        "usd_per_million_tokens": cost.usd_per_million_tokens,
        "gpu_hours_per_billion_tokens": _gpu_hours(request, ledger),
        "warnings": notices(request, ledger, found.strategy),
    }


def _gpu_hours(request: Request, ledger: Ledger) -> float:
    """Card hours that 10^9 tokens take."""
    steps = 1e9 / request.training.tokens
    return round(steps * seconds(ledger.step_ns) / 3600.0 * request.cluster.gpus, 6)


def status(outcome: Outcome) -> str:
    """The contract's word for how a search ended."""
    if outcome.best is None:
        return "infeasible" if outcome.proved else "unknown"
    return "optimal" if outcome.proved else "feasible"


def front(points: list[tuple[float, ...]]) -> list[bool]:
    """Which points no other dominates; smaller is better in every place.

    >>> front([(1.0, 2.0), (2.0, 1.0), (2.0, 2.0)])
    [True, True, False]
    """
    return [
        not any(all(a <= b for a, b in zip(other, mine, strict=True)) and other != mine for other in points)
        for mine in points
    ]


def goods(point: dict[str, Any]) -> tuple[float, ...]:
    """Step time, cards, dollars and headroom of a point, each the smaller the better."""
    dollars = point["usd_per_million_tokens"]
    return (
        point["step_seconds"],
        float(point["gpus"]),
        point["gpu_hours_per_billion_tokens"] if dollars is None else dollars,
        -float(point["headroom_bytes"]),
    )
