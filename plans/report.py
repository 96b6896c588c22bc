"""From a ledger to the reports of an answer: the same integers, in bytes and seconds."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import ceil

from ..costs import Ledger, price_mixed
from ..costs import price as price_strategies
from ..costs.law import law
from ..costs.ledger import LEFT_OUT
from ..costs.scatter import KIND_WORDS, measured_cards, step_kind, step_scatter
from ..hardware import gemm_curve
from ..inputs import InputError
from ..inputs.kinds import refuse_no_list, refuse_other
from ..models import Strategy
from .peak import BytesPerParameter, MemoryReport, PeakUncertainty, StageMemory, Verdict
from .plan import Buckets
from .request import Request
from .step import Cost, TimeReport, Traffic, Uncertainty


def price(request: Request, strategies: Sequence[Strategy]) -> list[Ledger]:
    """The ledger of each strategy for the request's model, job and cluster.

    Raises `InputError` for another type, a word the ledger does not know, and stages of another model.
    """
    refuse_other(request, Request)
    refuse_no_list(strategies, Strategy, "strategy")
    for strategy in strategies:
        if strategy.layers != request.model.layers:
            reason = f"hold {strategy.layers} layers, the model has {request.model.layers}"
            held = [stage.layers for stage in strategy.stages]
            raise InputError("strategy.stages", held, "strategy", reason, code="contradiction")
    priced = price_mixed if request.cluster.others else price_strategies
    return priced(request.model, request.training, request.cluster, strategies)


def price_each(pairs: Sequence[tuple[Request, Strategy]]) -> list[Ledger]:
    """The ledger of each strategy for its own request; those of one job are priced together."""
    together: dict[Hashable, list[int]] = {}
    for index, (request, _) in enumerate(pairs):
        together.setdefault((request.model, request.training, request.cluster), []).append(index)
    found: dict[int, Ledger] = {}
    for some in together.values():
        ledgers = price(pairs[some[0]][0], [pairs[index][1] for index in some])
        found |= zip(some, ledgers, strict=True)
    return [found[index] for index in range(len(pairs))]


def limit_bytes(request: Request, ledger: Ledger) -> int:
    """Memory of the fullest card that a plan may use: usable bytes less the margin, in whole KiB."""
    cards = [pool.node.gpu for pool in request.cluster.pools]
    usable = next(c.memory_usable_bytes for c in cards if c.memory_usable_bytes // 1024 == ledger.usable_kib)
    return int((1.0 - request.limits.memory_margin) * usable) // 1024 * 1024


def host_limit_bytes(request: Request, ledger: Ledger) -> int:
    """Host memory of a node that offloaded states may take, bytes."""
    return request.limits.host_bytes(ledger.host_usable_kib * 1024)


def verdict(ledger: Ledger) -> Verdict:
    """does_not_fit when even little fragmentation exceeds the card; risky above 92 % of it; else fits."""
    if ledger.refusal_kib > ledger.usable_kib:
        return "does_not_fit"
    return "risky" if ledger.peak_kib > law("risky_share") * ledger.usable_kib else "fits"


def host_verdict(request: Request, ledger: Ledger) -> Verdict:
    """Whether offloaded states fit the node's memory; risky above 92 % of what may be used."""
    limit, used = host_limit_bytes(request, ledger), ledger.host_node_kib * 1024
    if used > limit:
        return "does_not_fit"
    return "risky" if used > law("risky_share") * limit else "fits"


def host_nodes_needed(request: Request, ledger: Ledger) -> int | None:
    """Nodes over which sharded offloaded states would fit the hosts, where they do not and any number can."""
    limit = host_limit_bytes(request, ledger)
    if host_verdict(request, ledger) != "does_not_fit" or not ledger.host_divides or limit <= 0:
        return None
    nodes = max(request.cluster.gpus // request.cluster.node.gpus, 1)
    return -(-ledger.host_node_kib * 1024 * nodes // limit)


def memory_report(request: Request, ledger: Ledger) -> MemoryReport:
    """Memory of the worst stage, of each stage, and of the host."""
    stages = tuple(
        StageMemory(
            stage=entry.stage,
            peak_moment=entry.peak_moment,
            total_bytes=entry.total_kib * 1024,
            terms_bytes=_bytes(entry.terms_kib),
        )
        for entry in ledger.stages
    )
    worst = stages[ledger.peak_stage]
    return MemoryReport(
        usable_bytes=ledger.usable_kib * 1024,
        total_bytes=worst.total_bytes,
        limit_bytes=limit_bytes(request, ledger),
        verdict=verdict(ledger),
        uncertainty=_peak_uncertainty(ledger),
        views_bytes={view: ledger.view_kib(view) * 1024 for view in LEFT_OUT},
        peak_stage=worst.stage,
        peak_moment=worst.peak_moment,
        terms_bytes=worst.terms_bytes,
        stages=stages,
        host_bytes_per_node=ledger.host_node_kib * 1024,
        host_usable_bytes=host_limit_bytes(request, ledger),
        host_verdict=host_verdict(request, ledger),
        host_terms_bytes=_bytes(ledger.host_terms_kib),
        host_nodes_needed=host_nodes_needed(request, ledger),
        host_load_bytes_per_node=ledger.host_load_kib * 1024,
        load_peak_bytes=ledger.load_kib * 1024,
        checkpoint_bytes=ledger.checkpoint_bytes,
        bytes_per_parameter=BytesPerParameter(recipe=ledger.recipe, **ledger.recipe_bytes),
    )


def _peak_uncertainty(ledger: Ledger) -> PeakUncertainty:
    """The worst card's peak, times what published runs of its kind measured over what was predicted."""
    peak, usable = ledger.peak_kib * 1024, ledger.usable_kib * 1024
    low, high = int(peak * ledger.peak_low), int(peak * ledger.peak_high)
    inside = high <= usable
    return PeakUncertainty(
        low_bytes=low,
        high_bytes=high,
        basis=ledger.peak_basis,
        verdict="fits" if inside else "risky" if low <= usable else "does_not_fit",
        holding_margin=None if inside else ceil(100.0 * (1.0 - 1.0 / ledger.peak_high)) / 100.0,
    )


def _bytes(terms_kib: dict[str, int]) -> dict[str, int]:
    return {name: kib * 1024 for name, kib in sorted(terms_kib.items())}


def seconds(ns: int) -> float:
    """Whole nanoseconds as seconds; the shortest float that reads back to the same nanosecond."""
    return round(ns / 1e9, 9)


def time_report(request: Request, strategy: Strategy, ledger: Ledger) -> TimeReport:
    """Step time by term, beside the physical limit of the same work on the same cards."""
    step = seconds(ledger.step_ns)
    cards = request.cluster.gpus
    tokens = request.training.tokens
    peak, rate = _peak_flops_per_s(request), ledger.step_flops / step / cards
    again = ledger.recomputed_flops / step / cards
    return TimeReport(
        step_seconds=step,
        terms_seconds={name: seconds(ns) for name, ns in ledger.terms_ns.items()},
        hidden_seconds={name: seconds(ns) for name, ns in ledger.hidden_ns.items()},
        comm_fraction=round(ledger.comm_ns / ledger.step_ns, 6),
        limit_seconds=seconds(ledger.limit_ns),
        limit_fraction=ledger.limit_fraction,
        tokens_per_second=round(tokens / step, 3),
        tokens_per_second_per_gpu=round(tokens / step / cards, 3),
        model_tflops_per_gpu=round(rate / 1e12, 3),
        mfu=round(rate / peak, 6),
        hfu=round((rate + again) / peak, 6),
        uncertainty=_uncertainty(request, strategy, ledger),
    )


def _peak_flops_per_s(request: Request) -> float:
    """Dense 16-bit peak of a card; where pools differ, the mean of all cards."""
    pools = request.cluster.pools
    peaks = [
        pool.node.gpu.peak_flops_per_s("bf16") or pool.node.gpu.peak_flops_per_s("fp16") for pool in pools
    ]
    return (
        sum(pool.gpus * (peak or 1.0) for pool, peak in zip(pools, peaks, strict=True)) / request.cluster.gpus
    )


def _uncertainty(request: Request, strategy: Strategy, ledger: Ledger) -> Uncertainty:
    """80 %: by the site's own left-out runs of such software and cards, else by published ones.

    Never faster than products can be.
    """
    step, site = ledger.step_ns / 1e9, request.cluster.site
    gpu = request.cluster.node.gpu
    if site is not None and site.knows(strategy.software_stack, gpu.name):
        low, high = 1.0 / (1.0 + site.interval), 1.0 + site.interval
        basis = site.basis
    else:
        measured = measured_cards().issuperset(pool.node.gpu.name for pool in request.cluster.pools)
        kind = step_kind(ledger.limit_fraction, measured)
        ratio = step_scatter(kind)
        low, high = ratio.low, ratio.high
        basis = f"{ratio.told}, {KIND_WORDS[kind]}"
    least = ledger.limit_ns / 1e9 / gemm_curve(gpu, strategy.precision).e_max
    return Uncertainty(
        low_seconds=round(min(max(step * low, least), step), 9),
        high_seconds=round(step * high, 9),
        basis=basis,
    )


def traffic_report(ledger: Ledger) -> tuple[Traffic, ...]:
    """Bytes a card of the busiest stage sends in a step, by axis and tier."""
    return tuple(
        Traffic(axis=axis, tier=tier, bytes_per_card=count)
        for axis, tiers in sorted(ledger.traffic_bytes.items())
        for tier, count in sorted(tiers.items())
    )


def cost_report(request: Request, time: TimeReport) -> Cost:
    """Dollars where the catalogue has a price, days where the job has total tokens."""
    hourly, total = request.cluster.usd_per_hour, request.training.total_tokens
    tokens = request.training.tokens
    rough = time.uncertainty
    each = {"": time.step_seconds, "_low": rough.low_seconds, "_high": rough.high_seconds}
    found: dict[str, float] = {}
    if hourly is not None:
        found["usd_per_hour"] = round(hourly, 6)
        found["usd_per_million_tokens"] = round(hourly * time.step_seconds / 3600.0 / tokens * 1e6, 6)
    for word, seconds_a_step in each.items() if total is not None else ():
        hours = (total or 0) / tokens * seconds_a_step / 3600.0
        found[f"days{word}"] = round(hours / 24.0, 6)
        if hourly is not None:
            found[f"usd_total{word}"] = round(hourly * hours, 2)
    return Cost(**found)


def bucket_report(ledger: Ledger) -> Buckets:
    """The buffer sizes that were priced."""
    return Buckets(**ledger.buckets)
