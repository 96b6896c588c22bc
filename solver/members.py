"""The limits of a request as members of a clash, and the request without some of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import lcm
from typing import Any

from ..inputs import InputError
from ..models.backend import backend
from ..models.optimizer import moment_bytes
from ..models.strategy import BACKENDS
from ..plans import Conflict, Request

CARD = "cluster.node.gpu.memory_usable_bytes"
HOST = "cluster.node.host_memory_bytes"
LIMIT = "limits.host_memory_bytes"
CARDS = "cluster.gpus"

BOUNDLESS = 2**50
"""Bytes of a memory without its limit."""

SHORT = 256
"""Tokens of a sequence without its length."""

TIMES = (64, 8, 2, 1 / 2)
"""Times the cards of the request that "any number of cards" looks at."""


def members(request: Request) -> list[Conflict]:
    """Every limit of `request` that could be part of a clash, those nobody asked for first.

    Defaults come before the job, the job before the machines, and what the user narrowed last: of several
    clashes the one in the user's own words is told.
    """
    limits = [member for member in _limits(request) if member.origin == "default"]
    asked = [member for member in _limits(request) if member.origin != "default"]
    return [*limits, *_job(request), *_machine(request), *asked, *_chosen(request), _cards(request)]


def _member(request: Request, limit: str, value: object, origin: str | None = None) -> Conflict:
    return Conflict(limit=limit, value=_text(value), origin=origin or request.origin(limit))


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(_text(one) for one in value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _limits(request: Request) -> Iterator[Conflict]:
    for name, field in type(request.limits).model_fields.items():
        value = getattr(request.limits, name)
        if value is not None and (name == "memory_margin" or value != field.default):
            yield _member(request, f"limits.{name}", value)


def _job(request: Request) -> Iterator[Conflict]:
    for name in ("optimizer", "sequence_length", "global_batch_size"):
        yield _member(request, f"training.{name}", getattr(request.training, name))


def _machine(request: Request) -> Iterator[Conflict]:
    node = request.cluster.node
    given = HOST if HOST in request.origins else "cluster.host_memory_gib"
    yield _member(request, HOST, node.host_memory_bytes, request.machine_origin(given))
    yield _member(request, CARD, node.gpu.memory_usable_bytes, request.machine_origin(CARD))


def _chosen(request: Request) -> Iterator[Conflict]:
    for name in type(request.choose).model_fields:
        value = getattr(request.choose, name)
        if name == "rules":
            for rule in value:
                yield _member(request, "choose.rules", rule)
        elif value:
            yield _member(request, f"choose.{name}", value)


def _cards(request: Request) -> Conflict:
    given = [f for f in ("cluster.gpus", "cluster.nodes", "cluster.cards") if f in request.origins]
    origin = request.origin(given[0]) if given else request.origin("cluster.nodes")
    return _member(request, CARDS, request.cluster.gpus, origin)


def without(request: Request, dropped: list[Conflict]) -> Iterator[Request]:
    """Requests without the `dropped` members; a plan for any of them is one without these limits.

    A knob is left free, a rule or limit left out, a memory made boundless, a sequence short, the optimizer
    one with less state, the batch one that all cards divide, the cards half, 2, 8 or 64 times as many.
    """
    names = {member.limit for member in dropped}
    plain = request.changed(dict(_plain_changes(request, dropped)))
    for memory in sorted(names & {CARD, HOST}):
        plain = _boundless(plain, memory)
    optimizers = _optimizers(request) if "training.optimizer" in names else (request.training.optimizer,)
    for times, optimizer in product(TIMES if CARDS in names else (1,), optimizers):
        sized = _times_cards(plain.changed({"training.optimizer": optimizer}), times)
        if sized is not None:
            yield _any_batch(sized) if "training.global_batch_size" in names else sized


def _plain_changes(request: Request, dropped: list[Conflict]) -> Iterator[tuple[str, Any]]:
    rules = tuple(m.value for m in dropped if m.limit == "choose.rules")
    if rules:
        yield "choose.rules", [rule for rule in request.choose.rules if rule not in rules]
    for member in dropped:
        table, _, name = member.limit.partition(".")
        if name == "memory_margin":
            yield member.limit, 0.0
        elif table == "limits" or (table == "choose" and name != "rules"):
            yield member.limit, None
        elif name == "sequence_length":
            yield member.limit, _short(request)


def _short(request: Request) -> int:
    """A short sequence that every allowed ring of context ranks cuts evenly."""
    rings = request.choose.context_parallel or (1,)
    return min(request.training.sequence_length, lcm(SHORT, *(2 * ring for ring in rings)))


def _optimizers(request: Request) -> tuple[str, ...]:
    """The request's optimizer, then others that an allowed backend runs, those with least state first."""
    allowed = {name for b in request.choose.backend or BACKENDS for name in backend(b).optimizers}
    others = sorted(allowed - {request.training.optimizer}, key=lambda name: (moment_bytes(name), name))
    return (request.training.optimizer, *others[:2])


def _boundless(request: Request, memory: str) -> Request:
    node = request.cluster.node
    if memory == HOST:
        node = node.model_copy(update={"host_memory_bytes": BOUNDLESS})
    else:
        node = node.model_copy(update={"gpu": node.gpu.model_copy(update={"memory_usable_bytes": BOUNDLESS})})
    return request.model_copy(update={"cluster": request.cluster.model_copy(update={"node": node})})


def _times_cards(request: Request, times: float) -> Request | None:
    if times == 1:
        return request
    try:
        return request.changed({"cluster.gpus": max(1, int(request.cluster.gpus * times))})
    except InputError:
        return None


def _any_batch(request: Request) -> Request:
    """A multiple of the batch that every number of data ranks divides."""
    return request.changed(
        {"training.global_batch_size": lcm(request.training.global_batch_size, request.cluster.gpus)}
    )
