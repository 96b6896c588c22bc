"""How context ranks may exchange a sequence: what is offered, and which of it can be of use at all."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import permutations

import numpy as np

from ..costs.columns import Bools, Floats, Ints, Strategies, code, numbered
from ..costs.context import context_buffers, context_term
from ..costs.kernels import attention_seconds
from ..costs.layout import Layout
from ..costs.terms import ns
from ..models.backend import Backend, backend
from ..models.context import CONTEXT_KINDS, USUAL, Exchange, exchanges
from ..models.divisors import divisors_of
from ..models.strategy import BACKENDS
from ..plans import Request

Coded = tuple[int, int]
"""A kind as its code in `Strategies`, and the ranks that exchange heads."""

PLACED = (
    "backend",
    "software_stack",
    "precision",
    "gradient_dtype",
    "loss_kernel",
    "tensor_parallel",
    "context_parallel",
    "micro_batch_size",
)
"""What the seconds and bytes of an exchange depend on beside its kind."""

EXCHANGE = ("context_parallel_kind", "ulysses_group_size")

ROUNDED = 8
"""Nanoseconds that rounding up may add to the parts of a layer."""


LONG = 2
"""Hidden sizes a sequence holds from which on every exchange is free: attention then takes a sixth of the
FLOPs of the matrices of a layer (s q against 12 h^2), and how a sequence is exchanged can matter."""


def offered(request: Request, known: Backend, tensor: int, context: int) -> list[Coded]:
    """The exchanges that backend, model and request allow, the backend's usual one first.

    Those that are not asked for are free as `_free` says; where nothing legal is, all are.
    """
    kinds = ("none", *known.context_kinds)
    every = [one for one in exchanges(context) if one.kind in kinds and _allowed(request, one)]
    usual = USUAL[known.name]
    first = [one for one in every if one.kind in ("none", usual)]
    legal = _legal(request, known, first, tensor)
    others = [one for one in every if one not in first]
    if request.choose.context_parallel_kind or request.choose.ulysses_group_size:
        legal += _legal(request, known, others, tensor)
    elif not legal or _long(request):
        others = _legal(request, known, others, tensor)
        legal += [one for one in others if _free(request, known, one, tensor, context)]
    return [(code("context_parallel_kind", one.kind), one.ulysses_group_size) for one in legal]


def _legal(request: Request, known: Backend, some: Sequence[Exchange], tensor: int) -> list[Exchange]:
    """Those of some exchanges that the backend does not refuse the model, cut over `tensor` ranks."""
    return [one for one in some if not known.refuses_exchange(request.model, one, tensor)]


def _long(request: Request) -> bool:
    return request.training.sequence_length >= LONG * request.model.hidden_size


def left_aside(request: Request) -> str:
    """What the search leaves aside of exchanges that nobody asked for, in words; empty where nothing."""
    choose, cluster = request.choose, request.cluster
    several = [len(backend(name).context_kinds) > 1 for name in choose.backend or BACKENDS]
    cut = cluster.gpus > 1 and request.training.sequence_length % 4 == 0 and choose.context_parallel != (1,)
    if choose.context_parallel_kind or choose.ulysses_group_size or not (cut and any(several)):
        return ""
    asked = f"--set 'context_parallel_kind={json.dumps(CONTEXT_KINDS)}' searches all"
    if not _long(request):
        return (
            "context ranks exchange a sequence as their backend does by itself, since it is shorter than "
            f"{LONG} x hidden_size; {asked}"
        )
    if cluster.gpus > cluster.tiers().tiers[0].cards:
        return f"context ranks exchange heads by all-to-all inside an island only; {asked}"
    return ""


def _free(request: Request, known: Backend, one: Exchange, tensor: int, context: int) -> bool:
    """An all-to-all shows whole: free inside an island; of two levels the largest, where ranks leave it."""
    island, group = request.cluster.tiers().tiers[0].cards, one.ulysses_group_size
    if one.kind != "ulysses+ring":
        return tensor * group <= island or group == 1
    larger = (size for size in divisors_of(context) if group < size < context and tensor * size <= island)
    sizes = (Exchange(one.kind, size) for size in larger)
    fits = (not known.refuses_exchange(request.model, wider, tensor) for wider in sizes)
    return tensor * group <= island < tensor * context and not any(fits)


def _allowed(request: Request, one: Exchange) -> bool:
    words, sizes = request.choose.context_parallel_kind, request.choose.ulysses_group_size
    return (not words or one.kind in words) and (not sizes or one.ulysses_group_size in sizes)


def outdone(requests: Sequence[Request], rows: Strategies) -> Bools:
    """Rows whose exchange another row's of the same place outdoes under every one of `requests`.

    One outdoes another that takes no less time, shows no less of it, and holds no less memory: then no
    plan of the other is faster, or as fast and earlier in the order of rows. Limits on communication tell
    them apart otherwise, so under such none is.
    """
    if any(map(limited, requests)) or not (rows.context_parallel > 1).any():
        return np.zeros(len(rows), dtype=np.bool_)
    found, place = _distinct(rows)
    columns = np.stack([getattr(found, name) for name in PLACED])
    parts = [_costs(request, found) for request in requests]
    shown, rest = (np.concatenate(part, axis=1) for part in zip(*parts, strict=True))
    starts = np.flatnonzero(np.append(True, (np.diff(columns, axis=1) != 0).any(axis=0)))
    counts = np.diff(np.append(starts, len(found)))
    return _outdone(shown, np.concatenate([shown, rest], axis=1), starts, counts)[place]


def savings(request: Request, rows: Strategies) -> Ints:
    """Nanoseconds of a layer that no other exchange saves of each row's, (n, kinds of layer).

    All of it that shows, and what attention is slower by than over the sequence cut in any other way.
    """
    found, place = _distinct(rows)
    shown, rest = _costs(request, found)
    groups = [divisors_of(context) for context in found.context_parallel.tolist()]
    counts = np.array([len(sizes) for sizes in groups], dtype=np.int64)
    other = {name: np.repeat(getattr(found, name), counts) for name in (*PLACED, EXCHANGE[0])}
    cores = _attention(request, Strategies.partial(other | {EXCHANGE[1]: np.concatenate(groups)}))
    fastest = np.minimum.reduceat(ns(layer=cores)["layer"], np.cumsum(counts) - counts, axis=0)
    slower = rest[:, shown.shape[1] : 3 * shown.shape[1]] - fastest
    saved: Ints = shown + slower.reshape(len(found), 2, -1).sum(axis=1) + ROUNDED
    return saved[place]


def _attention(request: Request, rows: Strategies) -> Floats:
    """Seconds of the attention of a layer, forward of each kind and then backward, (n, 2 kinds)."""
    timed = Layout(request.model, request.training.timed, request.cluster, rows)
    cores = [attention_seconds(timed, block) for block in timed.blocks]
    return np.stack([seconds for part in zip(*cores, strict=True) for seconds in part], axis=1)


def _distinct(rows: Strategies) -> tuple[Strategies, Ints]:
    """Rows that differ in what an exchange depends on, in the order of their columns, and each row's."""
    names = (*PLACED, *EXCHANGE)
    packed, reach = np.zeros(len(rows), dtype=np.int64), 1
    for name in names:
        column = getattr(rows, name)
        least, most = int(column.min()), int(column.max())
        reach *= most - least + 1
        packed = packed * (most - least + 1) + column - least
    assert reach < 2**62
    _, first, place = numbered(packed)
    return Strategies.partial({name: getattr(rows, name)[first] for name in names}), place


def usual(rows: Strategies) -> Bools:
    """Rows whose context ranks exchange as their backend does by itself, or are alone."""
    words = np.array([code(EXCHANGE[0], USUAL[name]) for name in BACKENDS], dtype=np.int64)
    found: Bools = (rows.context_parallel == 1) | (rows.context_parallel_kind == words[rows.backend])
    return found


def limited(request: Request) -> bool:
    """Whether a request limits what its communication shows or sends."""
    limits = request.limits
    return limits.max_comm_fraction is not None or limits.max_uplink_bytes_per_step is not None


def _costs(request: Request, rows: Strategies) -> tuple[Ints, Ints]:
    """What an exchange decides: ns of a layer that show; ns in a repeated forward, of attention, and KiB.

    By kind of layer: (n, kinds) and (n, 3 kinds + 1), attention forward and backward.
    """
    attention = _attention(request, rows)
    timed = Layout(request.model, request.training.timed, request.cluster, rows)
    shown = context_term(timed, attention[:, : len(timed.blocks)]).coefficients
    held = Layout(request.model, request.training, request.cluster, rows)
    memory = context_buffers(held).coefficients["fixed"][:, None]
    return shown["layer"], np.concatenate([shown["full"], ns(layer=attention)["layer"], memory], axis=1)


def _outdone(shown: Ints, costs: Ints, starts: Ints, counts: Ints) -> Bools:
    """Rows that another of their place outdoes; the rows of a place follow one another, `counts` of them."""
    found = np.zeros(len(costs), dtype=np.bool_)
    for first, second in permutations(range(int(counts.max())), 2):
        there = np.flatnonzero(counts > max(first, second))
        one, other = starts[there] + first, starts[there] + second
        less = (costs[one] <= costs[other]).all(axis=1)
        if first > second:
            less &= (shown[one] < shown[other]).all(axis=1)
        found[other[less]] = True
    return found
