"""Why nothing fits: the limits that clash, with numbers and origins, and cures found by solving again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..models import divisors
from ..models.backend import backend
from ..models.divisors import ALIGNED, misaligned
from ..models.strategy import BACKENDS
from ..plans import Conflict, Cure, NoPlan, Request
from ..plans.report import seconds
from .alternatives import best
from .answer import versions
from .coefficients import Coefficients, capacity_kib
from .search import Found, Outcome
from .software import default_precision, refusals, softwares
from .space import rows
from .uniform import shortage

GIB = 2**20
"""KiB in a GiB."""

MOST_NODES = 64
"""Times the nodes of the request that a cure looks at, at most."""


def no_plan(request: Request, outcome: Outcome) -> NoPlan:
    """The answer when every row was excluded without a plan."""
    cures = tuple(_cures(request))
    reasons, conflict = _reasons(request, outcome)
    freed = {cure.set.split("=")[0] for cure in cures}
    chosen = [entry for entry in _chosen(request) if entry.limit in freed]
    known = {entry.limit for entry in conflict}
    return NoPlan(
        inputs_hash=request.inputs_hash(),
        versions=versions(),
        reasons=reasons,
        conflict=(*conflict, *[entry for entry in chosen if entry.limit not in known]),
        cures=cures,
        rows_considered=outcome.tally.rows,
        rows_excluded_by=outcome.tally.excluded(),
    )


def _chosen(request: Request) -> list[Conflict]:
    """What the request fixes: each narrowed knob and hard limit."""
    found = []
    for name in type(request.choose).model_fields:
        value = getattr(request.choose, name)
        if value:
            text = ", ".join(str(v).lower() if isinstance(v, bool) else str(v) for v in value)
            found.append(
                Conflict(limit=f"choose.{name}", value=text, origin=request.origin(f"choose.{name}"))
            )
    for name in ("memory_margin", "max_step_seconds", "host_memory_bytes", "tensor_parallel_within"):
        value = getattr(request.limits, name)
        if value is not None:
            found.append(
                Conflict(limit=f"limits.{name}", value=str(value), origin=request.origin(f"limits.{name}"))
            )
    return found


def _reasons(request: Request, outcome: Outcome) -> tuple[tuple[str, ...], tuple[Conflict, ...]]:
    tally = outcome.tally
    if tally.rows == 0:
        return _no_rows(request)
    if tally.rule == tally.rows:
        broken = {name: count for name, count in tally.by_rule.items() if count}
        reasons = tuple(f"{name} excludes {count} of {tally.rows} layouts" for name, count in broken.items())
        fields = dict.fromkeys(name.split(":")[0] for name in broken)
        every = {entry.limit: entry for entry in _chosen(request)}
        return reasons, tuple(every[field] for field in fields if field in every)
    return _too_large_or_slow(request, outcome)


def _no_rows(request: Request) -> tuple[tuple[str, ...], tuple[Conflict, ...]]:
    cards, batch = request.cluster.gpus, request.training.global_batch_size
    refused = list(refusals(request)) if not any(softwares(request)) else []
    if refused:
        fields = dict.fromkeys(field for field, _ in refused)
        values = {f"training.{name}": str(value) for name, value in request.training}
        values["model"] = request.model.name
        values["choose.precision"] = ", ".join(request.choose.precision or (default_precision(request),))
        conflict = [Conflict(limit=f, value=values[f], origin=request.origin(f)) for f in fields]
        known = {entry.limit for entry in conflict}
        chosen = [c for c in _chosen(request) if c.limit.startswith("choose.") and c.limit not in known]
        return tuple(reason for _, reason in refused), (*conflict, *chosen)
    uneven = [*_uneven(request), *_unaligned(request), *_uncut(request)]
    if uneven:
        fields = dict.fromkeys(field for field, _ in uneven)
        every = {entry.limit: entry for entry in _chosen(request)}
        return tuple(reason for _, reason in uneven), tuple(every[field] for field in fields)
    reason = (
        f"no layout uses all {cards} cards with a global batch of exactly {batch} sequences: "
        "data_parallel must divide the batch, and every degree what the model's shape allows"
    )
    conflict = [
        Conflict(limit="cluster.gpus", value=str(cards), origin=request.origin("cluster.nodes")),
        Conflict(
            limit="training.global_batch_size",
            value=str(batch),
            origin=request.origin("training.global_batch_size"),
        ),
    ]
    return (reason,), (*conflict, *[c for c in _chosen(request) if c.limit.startswith("choose.")])


def _uneven(request: Request) -> Iterator[tuple[str, str]]:
    """(field, reason) of each axis all of whose chosen degrees the model's shape refuses."""
    for axis in ("tensor_parallel", "expert_parallel"):
        chosen = getattr(request.choose, axis)
        rules = [d for d in divisors(request.model) if d.axis == axis and d.required]
        broken = [[d for d in rules if d.number % degree] for degree in chosen or ()]
        if broken and all(broken):
            first = broken[0][0]
            text = f"{axis} {chosen[0]} does not divide {first.of} {first.number}: {first.reason}"
            yield f"choose.{axis}", text


def _unaligned(request: Request) -> Iterator[tuple[str, str]]:
    """(field, reason) where only 8-bit arithmetic is allowed and no degree gives it whole multiples."""
    words = request.choose.precision or ()
    degrees = request.choose.tensor_parallel or (1,)
    broken = [misaligned(request.model, word, degree) for word in words for degree in degrees]
    if broken and all(broken):
        first = broken[0][0]
        yield "choose.precision", f"{first.of} {first.number} at tensor_parallel {degrees[0]}: {ALIGNED}"


def _uncut(request: Request) -> Iterator[tuple[str, str]]:
    """(field, reason) of each axis whose chosen degrees no backend runs for this model, one a backend."""
    choose, model = request.choose, request.model
    known = [b for b in map(backend, choose.backend or BACKENDS) if b.knows(model)]
    for axis in ("tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel"):
        chosen = getattr(choose, axis) or ()
        reasons = [one.refuses(axis, chosen, model) for one in known] if chosen else []
        if reasons and all(reasons):
            yield from (
                (f"choose.{axis}", f"{one.name}: {why}") for one, why in zip(known, reasons, strict=True)
            )


def _too_large_or_slow(request: Request, outcome: Outcome) -> tuple[tuple[str, ...], tuple[Conflict, ...]]:
    reasons, conflict = [], []
    coefficients = Coefficients(request, rows(request))
    lack = shortage(coefficients)
    capacity = capacity_kib(request)
    least = int(lack.min())
    gpu = request.cluster.node.gpu
    if least > 0:
        row = int(lack.argmin())
        s = coefficients.strategies
        word = (
            f"{s.row(row)['backend']}, tensor_parallel {s.tensor_parallel[row]}, "
            f"pipeline_parallel {s.pipeline_parallel[row]}, zero_stage {s.zero_stage[row]}"
        )
        need = (least + capacity) / GIB
        reasons.append(
            f"the leanest layout of {outcome.tally.rows} ({word}, with all recompute and offload that is "
            f"allowed) needs {need:.1f} GiB a card"
        )
        reasons.append(
            f"a {gpu.name} offers {gpu.memory_usable_bytes / 2**30:.1f} GiB, of which a margin of "
            f"{100 * request.limits.memory_margin:.0f} % stays free: {capacity / GIB:.1f} GiB"
        )
        conflict.append(
            Conflict(
                limit="cluster.gpu.memory_usable_bytes",
                value=str(gpu.memory_usable_bytes),
                origin=request.origin("cluster.preset"),
            )
        )
        conflict += [entry for entry in _chosen(request) if entry.limit == "limits.memory_margin"]
    elif request.limits.max_step_seconds is not None:
        free = best(request, {"limits.max_step_seconds": None})
        if free is not None:
            reasons.append(
                f"the fastest layout that fits takes {seconds(free.step_ns):.3f} s, "
                f"the deadline is {request.limits.max_step_seconds} s"
            )
            conflict += [entry for entry in _chosen(request) if entry.limit == "limits.max_step_seconds"]
    if not reasons:
        reasons.append(f"none of {outcome.tally.rows} layouts fits card and host memory at once")
        conflict += [entry for entry in _chosen(request) if entry.limit.startswith("limits.")]
        conflict.append(
            Conflict(
                limit="cluster.host_memory_bytes",
                value=str(request.cluster.node.host_memory_bytes),
                origin=request.origin("cluster.preset"),
            )
        )
    return tuple(reasons), tuple(conflict)


def _cures(request: Request) -> Iterator[Cure]:
    """Single changes after which a plan exists: first without new hardware, then more nodes."""
    for field, value, change in _changes(request):
        found = best(request, {field: value})
        if found is not None:
            to = _value_to_set(field, value, found)
            yield Cure(
                change=change,
                set=f"{field}={to}",
                from_=_now(request, field),
                to=to,
                resulting_step_seconds=seconds(found.step_ns),
            )
    nodes = _more_nodes(request)
    if nodes is not None:
        yield nodes


def _changes(request: Request) -> Iterator[tuple[str, Any, str]]:
    for name in type(request.choose).model_fields:
        if getattr(request.choose, name):
            empty: Any = [] if name == "rules" else None
            yield f"choose.{name}", empty, f"leave {name} free"
    if request.limits.max_step_seconds is not None:
        yield "limits.max_step_seconds", None, "drop the deadline"
    if request.limits.tensor_parallel_within is not None:
        yield "limits.tensor_parallel_within", "spine", "let tensor parallel span more"
    if request.limits.host_memory_bytes is not None:
        whole = request.cluster.node.host_memory_bytes
        yield "limits.host_memory_bytes", whole, "use all of the node's host memory"
    if request.limits.memory_margin > 0:
        yield "limits.memory_margin", 0.0, "accept a risky fit: keep no memory free"
    if request.training.optimizer == "adamw":
        yield "training.optimizer", "adamw-8bit", "keep the optimizer's moments in 8 bits"
    else:
        yield "training.optimizer", "adamw", "train with AdamW"


def _more_nodes(request: Request) -> Cure | None:
    """The least number of nodes, among doublings and then all between, for which a plan exists."""
    now = request.cluster.nodes
    if request.cluster.cards is not None:
        now = 0
    high = max(1, now * 2)
    found = None
    while high <= max(now, 1) * MOST_NODES:
        found = best(request, {"cluster.nodes": high})
        if found is not None:
            break
        high *= 2
    if found is None:
        return None
    for nodes in range(max(high // 2, now) + 1, high):
        fewer = best(request, {"cluster.nodes": nodes}) if high <= 64 else None
        if fewer is not None:
            found, high = fewer, nodes
            break
    return Cure(
        change="take more nodes",
        set=f"cluster.nodes={high}",
        from_=str(request.cluster.nodes),
        to=str(high),
        resulting_step_seconds=seconds(found.step_ns),
    )


def _value_to_set(field: str, value: Any, found: Found) -> str:
    """What to write after --set: for a freed knob or deadline what the best plan took."""
    table, _, name = field.partition(".")
    if table == "choose" and name != "rules":
        taken = getattr(found.strategy, name)
        return str(taken).lower() if isinstance(taken, bool) else str(taken)
    if field == "limits.max_step_seconds":
        return str(-(-found.step_ns // 10**6) / 1000)
    return str(value)


def _now(request: Request, field: str) -> str:
    table, _, name = field.partition(".")
    value = getattr(getattr(request, table), name)
    if isinstance(value, tuple):
        return ", ".join(str(v) for v in value)
    return str(value)
