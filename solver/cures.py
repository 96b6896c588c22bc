"""Cures: small changes after which a plan exists, each found by solving again."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, islice
from math import log2
from typing import Any

from ..costs.host import host_share_bytes
from ..inputs import InputError
from ..models.backend import backend
from ..models.divisors import divisors_of, legal_degrees
from ..models.optimizer import moment_bytes
from ..models.recipe import losses
from ..models.strategy import BACKENDS
from ..plans import Conflict, Cure, Request
from .answering import Asking
from .cure_words import text_of, value_now, value_to_set
from .eight_bits import kinds
from .members import LIMIT
from .pasted import answer, fits, pasted

MOST_NODES = 64
"""Times the nodes of the request that a cure looks at, at most."""

SHORTEST = 512
"""Tokens a sequence is cut to, at the least."""

DEGREES = ("tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel")
"""Knobs of which the values nearest to an impossible one are told too."""

NEAREST = 2
"""Of each of them so many values beside the fastest."""

NEVER_FREE = ("precision", "gradient_dtype", "software_stack", "loss_kernel")
"""Knobs that take their default where nobody speaks of them: they change numerics or the installation."""

Change = tuple[str, Any, str]
"""(dotted field, value to try, what it means)."""


def cures(request: Request, conflict: tuple[Conflict, ...], asking: Asking) -> tuple[Cure, ...]:
    """Changes that make `request` feasible: without new cards first, then fewest cards, then step time.

    Each is solved as its asker will put it. Single changes, of degrees also those nearest to what was asked;
    pairs where no single one without new cards is enough; more nodes with one change where neither helps; all
    knobs left free together where nothing else does.
    """
    singles = list(_changes(request, {member.limit for member in conflict}, asking))
    found = [cure for change in singles if (cure := _cured(request, asking, change))]
    if not found:
        each = [change for change in singles if change[0] in _paired(request)]
        pairs = [pair for pair in combinations(each, 2) if pair[0][0] != pair[1][0]]
        found = [cure for pair in pairs if (cure := _cured(request, asking, *pair))]
    found += _near(request, found, asking)
    more = _more_nodes(request, asking)
    if more is None and not found:
        freed = [change for change in singles if change[0].startswith("choose.")]
        found = [cure for change in freed if (cure := _more_nodes(request, asking, change))]
    found += [more] if more else []
    if not found:
        found = list(_all_freed(request, singles, asking))
    return tuple(sorted(found, key=_rank))


def _rank(cure: Cure) -> tuple[int, bool, float, str]:
    """Fewest new cards first, then what leaves the job and its safety as they are, then step time."""
    other = "training." in cure.set or "limits.memory_margin" in cure.set or cure.verdict == "risky"
    return cure.new_gpus, other, cure.resulting_step_seconds, cure.set


def _paired(request: Request) -> set[str]:
    """Fields that a pair of changes may touch: knobs, limits and the optimizer."""
    knobs = {f"choose.{name}" for name in type(request.choose).model_fields}
    return knobs | {f"limits.{name}" for name in type(request.limits).model_fields} | {"training.optimizer"}


def _changes(request: Request, limits: set[str], asking: Asking) -> Iterator[Change]:
    yield from _freed(request)
    yield from _loosened(request)
    yield from _lighter(request)
    if limits & {"limits.max_step_seconds", "choose.precision"}:
        yield from _narrower(request)
    if "training.sequence_length" in limits:
        yield from _shorter(request, asking)
    if "limits.max_usd_per_hour" in limits:
        yield from _cheaper(request)
    if limits & {"training.global_batch_size", "cluster.gpus"}:
        yield from _other_batches(request, asking)


def _freed(request: Request) -> Iterator[Change]:
    """Each narrowed knob left free, each rule left out."""
    for name in type(request.choose).model_fields:
        if name != "rules" and getattr(request.choose, name):
            which = "its default" if name in NEVER_FREE else "the fastest value"
            yield f"choose.{name}", None, f"change {name} to {which}"
    rules = request.choose.rules
    for rule in rules:
        yield "choose.rules", [other for other in rules if other != rule], f'drop the rule "{rule}"'


def _all_freed(request: Request, singles: list[Change], asking: Asking) -> Iterator[Cure]:
    """All knobs left free together; told are those whose value changes by it."""
    knobs = tuple(change for change in singles if change[0].startswith("choose.") and change[1] is None)
    if len(knobs) < 3:
        return
    to = _to_set(request, asking, knobs)
    changed = [one for one, text in zip(knobs, to, strict=False) if text != value_now(request, one[0])]
    cure = _cured(request, asking, *changed) if changed else None
    if cure:
        yield cure


def _near(request: Request, found: list[Cure], asking: Asking) -> Iterator[Cure]:
    """Of each degree that a cure changes the values nearest to the asked ones with which a plan exists."""
    taken = {cure.set for cure in found}
    for axis in DEGREES:
        asked, field = getattr(request.choose, axis), f"choose.{axis}"
        if not asked or not any(one.startswith(f"{field}=") and "," not in one for one in taken):
            continue
        near = [degree for degree in _degrees(request, axis) if f"{field}={degree}" not in taken]
        near.sort(key=lambda degree: (min(abs(log2(degree / one)) for one in asked), degree))
        words = f"change {axis} to a near value"
        cured = (_cured(request, asking, (field, degree, words)) for degree in near if degree not in asked)
        yield from islice((cure for cure in cured if cure), NEAREST)


def _degrees(request: Request, axis: str) -> list[int]:
    """Degrees of an axis that divide the cards, and what it cuts of the model."""
    cards = divisors_of(request.cluster.gpus)
    if axis not in ("tensor_parallel", "expert_parallel"):
        return cards
    whole = legal_degrees(
        request.model, "tensor_parallel" if axis == "tensor_parallel" else "expert_parallel"
    )
    return [degree for degree in cards if degree in whole]


def _loosened(request: Request) -> Iterator[Change]:
    """Each limit of the request without its bite."""
    limits, whole = request.limits, host_share_bytes(request.cluster.node)
    if limits.max_step_seconds is not None:
        yield "limits.max_step_seconds", None, "take as long as the fastest plan needs"
    if limits.tensor_parallel_within not in (None, "spine"):
        yield "limits.tensor_parallel_within", "spine", "let tensor parallel span more"
    if limits.host_memory_bytes is not None and whole >= 2**30:
        yield LIMIT, f"{whole // 2**30}GiB", "offload all that a node's host memory can take"
    if limits.max_usd_per_hour is not None:
        yield "limits.max_usd_per_hour", None, "pay for the machines"
    if limits.max_comm_fraction is not None:
        yield "limits.max_comm_fraction", None, "let communication show for as long as it does"
    if limits.max_uplink_bytes_per_step is not None:
        yield "limits.max_uplink_bytes_per_step", None, "let the machines send as much as the plan needs"
    if limits.memory_margin > 0:
        yield "limits.memory_margin", 0.0, "accept a risky fit: keep no memory free"


def _lighter(request: Request) -> Iterator[Change]:
    """Lighter states: gradients in bf16, optimizers that keep less, or one the backend runs at all."""
    if request.choose.gradient_dtype is None:
        yield "choose.gradient_dtype", "bf16", "keep gradients in bf16"
    allowed = [backend(name) for name in request.choose.backend or BACKENDS]
    if request.choose.loss_kernel is None:
        kernels = {kernel for known in allowed for kernel in known.loss_kernels}
        yield "choose.loss_kernel", min(kernels, key=_loss_bytes), "compute the loss in pieces"
    if moment_bytes("adamw-8bit") < moment_bytes(request.training.optimizer):
        yield "training.optimizer", "adamw-8bit", "keep the optimizer's moments in 8 bits"
    if not any(request.training.optimizer in known.optimizers for known in allowed):
        yield "training.optimizer", "adamw", "train with AdamW"


def _loss_bytes(kernel: str) -> tuple[float, str]:
    return losses()[kernel].bytes_per_entry, kernel


def _narrower(request: Request) -> Iterator[Change]:
    """8-bit arithmetic that the card has and the request does not allow."""
    for precision in kinds(request):
        if precision not in (request.choose.precision or ()):
            yield "choose.precision", precision, "multiply in 8 bits (prove convergence first)"


def _cheaper(request: Request) -> Iterator[Change]:
    """The most nodes that cost no more than allowed."""
    hourly, most = request.cluster.usd_per_hour, request.limits.max_usd_per_hour
    if hourly and most is not None and not request.cluster.others:
        nodes = int(most / hourly * request.cluster.nodes)
        if 0 < nodes < request.cluster.nodes:
            yield "cluster.nodes", nodes, "take fewer nodes"


def _shorter(request: Request, asking: Asking) -> Iterator[Change]:
    """The longest half, quarter, ... of the sequence for which a plan exists."""
    length = request.training.sequence_length // 2
    while length >= SHORTEST:
        if _fits(request, {"training.sequence_length": length}, asking):
            yield "training.sequence_length", length, "train on shorter sequences"
            return
        length //= 2


def _other_batches(request: Request, asking: Asking) -> Iterator[Change]:
    """The nearest smaller and larger batch for which a plan exists."""
    batch, cards = request.training.global_batch_size, request.cluster.gpus
    steps = divisors_of(cards)
    below = sorted({batch // s * s for s in steps if 0 < batch // s * s < batch}, reverse=True)
    above = sorted({-(-batch // s) * s for s in steps if batch % s})
    for sizes in (below, above):
        for size in sizes:
            if _fits(request, {"training.global_batch_size": size}, asking):
                yield "training.global_batch_size", size, "take the nearest batch that the cards divide"
                break


def _cured(request: Request, asking: Asking, *changes: Change, new_gpus: int = 0) -> Cure | None:
    """The cure that `changes` make together, or None where they do not.

    What a freed field takes is that of the best plan; what is offered is then solved as it will be pasted.
    """
    to = _to_set(request, asking, changes)
    setting = ",".join(f"{field}={value}" for (field, _, _), value in zip(changes, to, strict=False))
    found = pasted(setting, asking) if to else None
    if found is None:
        return None
    return Cure(
        change=" and ".join(words for _, _, words in changes),
        set=setting,
        from_="; ".join(value_now(request, field) for field, _, _ in changes),
        to="; ".join(to),
        new_gpus=new_gpus,
        proved=found.status == "optimal",
        verdict="risky" if "risky" in (found.memory.verdict, found.memory.host_verdict) else "fits",
        strategy=found.strategy,
        resulting_step_seconds=found.time.step_seconds,
    )


def _to_set(request: Request, asking: Asking, changes: tuple[Change, ...]) -> list[str]:
    """What to write for each change, of a freed one what the fastest plan takes; nothing where none tells."""
    if all(value is not None for _, value, _ in changes):
        return [text_of(value) for _, value, _ in changes]
    fastest = {"objective.minimize": "step_seconds"}
    try:
        free = request.changed(fastest | {field: value for field, value, _ in changes})
    except InputError:
        return []
    found = answer(free, asking)
    return [value_to_set(request, field, value, found) for field, value, _ in changes] if found else []


def _more_nodes(request: Request, asking: Asking, *also: Change) -> Cure | None:
    """The least number of nodes for which a plan exists: doublings, then between the last two.

    Of a part of a node first the least larger part.
    """
    part = _larger_part(request, asking, also)
    if part is not None:
        return part
    now = 0 if request.cluster.cards is not None else request.cluster.nodes
    fields = {field: value for field, value, _ in also}
    high = max(1, now * 2)
    while not _fits(request, fields | {"cluster.nodes": high}, asking):
        high *= 2
        if high > max(now, 1) * MOST_NODES:
            return None
    low = max(high // 2, now) + 1
    between = range(low, high) if high <= MOST_NODES else range(0)
    nodes = next((n for n in between if _fits(request, fields | {"cluster.nodes": n}, asking)), high)
    new = nodes * request.cluster.node.gpus - request.cluster.gpus
    more = ("cluster.nodes", nodes, "take the whole node" if nodes == 1 else "take more nodes")
    return _cured(request, asking, *also, more, new_gpus=new) or _cured(
        request, asking, *also, more, *_network(request), new_gpus=new
    )


def _larger_part(request: Request, asking: Asking, also: tuple[Change, ...]) -> Cure | None:
    """The fewest cards of the one node that fit, where the request has a part of it."""
    fields = {field: value for field, value, _ in also}
    for cards in range((request.cluster.cards or request.cluster.node.gpus) + 1, request.cluster.node.gpus):
        if _fits(request, fields | {"cluster.gpus": cards}, asking):
            larger = ("cluster.gpus", cards, "take more cards of the node")
            return _cured(request, asking, *also, larger, new_gpus=cards - request.cluster.gpus)
    return None


def _network(request: Request) -> tuple[Change, Change]:
    """The network that the ledger takes for machines of which nobody told one: several must have it."""
    node = request.cluster.node
    rate = ("cluster.nic_gbit_per_s", node.nic_bytes_per_s * 8 / 1e9, "say the rate of their network")
    return rate, ("cluster.nics_per_node", node.nics, "its cards in a machine")


def _fits(request: Request, changes: dict[str, Any], asking: Asking) -> bool:
    try:
        return fits(request.changed(changes), asking)
    except InputError:
        return False
