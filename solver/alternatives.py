"""The best of other classes, the rule of thumb, and what the request does not allow but would pay."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from ..costs import Ledger
from ..inputs import InputError
from ..models.divisors import legal_degrees
from ..models.optimizer import moment_bytes
from ..models.overlap import TENSOR_KNOB, user_buffered
from ..models.strategy import BACKENDS
from ..plans import Alternative, Offer, Plan, Request
from ..plans.report import price_each, seconds
from .capacity import capacity_kib
from .eight_bits import before, kinds
from .folk import even_plan
from .ladder import LIGHT
from .outcome import Found
from .overlapping import in_island
from .search import Search
from .tables import Tables

GROWN = 2
"""Terms named of what an alternative pays."""

NOTABLE = 1e-3
"""Least growth that is named, as a share of the plan's step."""

ASIDE_SECONDS = 20.0
"""Deterministic seconds a search aside (an alternative, an offer, a cure) may take."""


def best(
    request: Request, changes: Mapping[str, Any], limit_ns: int | None = None, tables: Tables | None = None
) -> Found | None:
    """The best plan of the request with some fields changed; None where none is proved (below `limit_ns`)."""
    try:
        changed = request.changed(changes)
    except InputError:
        return None
    search = Search(changed, ASIDE_SECONDS, tables=tables or Tables())
    if limit_ns is not None:
        search.limit_ns = min(search.limit_ns, limit_ns)
    outcome = search.run()
    return outcome.best if outcome.proved else None


Where = tuple[Request, Found]
"""The best plan of some class, and the request on whose cluster it stands."""

Finder = Callable[[Request, Mapping[str, Any], int | None, Tables | None], Where | None]
"""What finds the best plan of a request with some fields changed, as `plain` does."""


def plain(
    request: Request, changes: Mapping[str, Any], limit_ns: int | None, tables: Tables | None
) -> Where | None:
    """`best` on a cluster of equal machines, all of whose cards are used."""
    found = best(request, changes, limit_ns, tables)
    return None if found is None else (request, found)


class Other(NamedTuple):
    """The best plan of a class: its name, the request it answers, and what was found."""

    name: str
    request: Request
    found: Found
    why: str


def _alternative(plan: Plan, other: Other, ledger: Ledger) -> Alternative:
    """The best of a class against the plan."""
    request, found = other.request, other.found
    loss = found.step_ns / round(plan.time.step_seconds * 1e9) - 1.0
    return Alternative(
        name=other.name,
        strategy=found.strategy,
        step_seconds=seconds(found.step_ns),
        memory_bytes=(capacity_kib(request) - found.headroom_kib) * 1024,
        loss_percent=round(100.0 * loss, 4),
        why=other.why + _grown(plan, ledger),
    )


def _grown(plan: Plan, ledger: Ledger) -> str:
    """The terms of a step that take notably longer than in the plan, largest growth first."""
    before = {name: round(1e9 * value) for name, value in plan.time.terms_seconds.items()}
    growth = {name: ns - before.get(name, 0) for name, ns in ledger.terms_ns.items()}
    longest = sorted(growth, key=lambda name: (-growth[name], name))[:GROWN]
    notable = [name for name in longest if growth[name] > NOTABLE * plan.time.step_seconds * 1e9]
    told = [f"{name.replace('_', ' ')} {growth[name] / 1e9:+.3g} s" for name in notable]
    return f"; {', '.join(told)}" if told else ""


def alternatives(
    request: Request, plan: Plan, tables: Tables | None = None, find: Finder = plain
) -> tuple[Alternative, ...]:
    """The best plan of each other backend, without offload where the plan offloads, and `folk`.

    The rule of thumb is for the cluster that the plan stands on: its own blocks where cards are scattered.
    """
    others = list(_classes(request, plan, tables, find))
    folk = rule_of_thumb(plan.request, tables)
    if folk is not None:
        why = "tensor parallel inside the island, then the fewest stages and the least ZeRO stage that fit"
        others.append(Other("folk", plan.request, folk, why))
    ledgers = price_each([(other.request, other.found.strategy) for other in others])
    found = [_alternative(plan, other, ledger) for other, ledger in zip(others, ledgers, strict=True)]
    return tuple(sorted(found, key=lambda item: (item.step_seconds, item.name)))


def _classes(request: Request, plan: Plan, tables: Tables | None, find: Finder) -> Iterator[Other]:
    for name in BACKENDS:
        if name != plan.strategy.backend and name in (request.choose.backend or BACKENDS):
            other = find(request, {"choose.backend": name}, None, tables)
            if other is not None:
                yield Other(name, *other, f"the best of {name}")
    if plan.strategy.offload_optimizer != "none":
        other = find(request, {"choose.offload_optimizer": "none"}, None, tables)
        if other is not None:
            yield Other("on_card", *other, "the best that keeps all states on the cards")


BUFFERS = (
    "--tp-comm-overlap of Megatron-LM: Transformer Engine's user buffers, priced by runs of Megatron Bridge "
    "and NeMo that had them; results differ in the last bits"
)
"""What to know before tensor ranks overlap."""


SERVER = 8
"""Cards of the server that the rule is about ("up to degree g with g-GPU servers", arXiv 2104.04473, 3.2); in
domains of 72 cards nobody starts with more: the published runs on GB200 and GB300 cut at most 4 ways."""


def rule_of_thumb(request: Request, tables: Tables | None = None) -> Found | None:
    """What people try first: TP in the island or server, even stages, ZeRO-1; DP with ZeRO-2 on one node."""
    allowed = request.choose.backend or BACKENDS
    if request.cluster.nodes == 1 and "deepspeed" in allowed:
        one_node = {
            "choose.backend": ["deepspeed"],
            "choose.zero_stage": [2],
            "choose.offload_optimizer": "none",
        }
        small = best(request, one_node, tables=tables)
        if small is not None:
            return small
    if "megatron" not in allowed:
        return None
    island = min(request.cluster.tiers().tiers[0].cards, SERVER)
    widest = max(t for t in legal_degrees(request.model, "tensor_parallel") if t <= island)
    fixed = {
        "choose.backend": ["megatron"],
        "choose.tensor_parallel": [widest],
        "choose.context_parallel": [1],
        "choose.virtual_pipeline": [1],
        "choose.zero_stage": [1],
        "choose.micro_batch_size": [1],
        "choose.offload_optimizer": "none",
    }
    try:
        return even_plan(request.changed(fixed))
    except InputError:
        return None


def offers(
    request: Request, plan: Plan, tables: Tables | None = None, find: Finder = plain
) -> tuple[Offer, ...]:
    """What the request does not allow and would pay: see `_wishes`."""
    found = []
    step = round(plan.time.step_seconds * 1e9)
    for said, changes, below, caveat in _wishes(request, plan, step):
        faster = find(request, changes, below - 1, tables)
        if faster is not None:
            step_ns = faster[1].step_ns
            found.append(
                Offer(
                    set=said,
                    resulting_step_seconds=seconds(step_ns),
                    gain_percent=round(100.0 * (1.0 - step_ns / step), 4),
                    caveat=caveat,
                )
            )
    return tuple(found)


def _wishes(request: Request, plan: Plan, step: int) -> Iterator[tuple[str, dict[str, Any], int, str]]:
    """(what to set, fields, ns it must stay below to pay, caveat).

    8-bit arithmetic where all cards have it; overlapped tensor ranks and link domains of a power of two;
    where states are offloaded, moments in 8 bits: each from one percent on; and one more machine if the step
    falls by more than its share of the cards.
    """
    pays = step - step // 100
    allowed = request.choose.precision or ("bf16",)
    for precision in kinds(request):
        if precision not in allowed:
            yield f"precision={precision}", {"choose.precision": precision}, pays, before(precision)
    able = "megatron" in (request.choose.backend or BACKENDS) and user_buffered(request.model)
    if able and request.choose.overlap_tensor_parallel is None and in_island(request, 2):
        yield f"{TENSOR_KNOB}=true", {f"choose.{TENSOR_KNOB}": True}, pays, BUFFERS
    yield from _narrower_domains(request, step)
    if plan.strategy.offload_optimizer == "none":
        return
    if moment_bytes(LIGHT) < moment_bytes(request.training.optimizer):
        warning = "moments in 8 bits are another optimizer; prove convergence first"
        yield f"optimizer={LIGHT}", {"training.optimizer": LIGHT}, pays, warning
    cluster = request.cluster
    if cluster.cards is None and not cluster.free and not cluster.others:
        more, fields = cluster.nodes + 1, {"cluster.nodes": cluster.nodes + 1}
        warning = f"{cluster.node.gpus} more cards, and the step falls by more than their share"
        yield f"nodes={more}", fields, step * cluster.nodes // more, warning


def _narrower_domains(request: Request, step: int) -> Iterator[tuple[str, dict[str, Any], int, str]]:
    """Link domains used by a power of two of their cards, as `_wishes`: groups of 64 straddle racks of 72."""
    cluster = request.cluster
    whole, part = cluster.node.domain_size, cluster.node.grouped_domain_size
    several = cluster.node.domain_nodes > 1 and cluster.gpus > part and cluster.gpus % part == 0
    if several and part < whole and not cluster.others and not cluster.free:
        caveat = (
            f"{part} of the {whole} cards of a link domain: {cluster.gpus // part} domains in place of "
            f"{-(-cluster.gpus // whole)}, and groups of {part} lie inside one"
        )
        fields = {"cluster.nvlink_domain": part}
        yield f"cluster.nvlink_domain={part}", fields, step - step // 100, caveat
