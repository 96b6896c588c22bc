"""From an out-of-memory message to the term that broke and to changes that fit, each priced again."""

from __future__ import annotations

from collections.abc import Iterator

from ..costs import Ledger
from ..inputs.quantity import gib, gibs
from ..models import Strategy, Transformer, count
from ..models.backend import backend
from ..models.overlap import knob
from ..plans import Request
from ..plans.message import Diagnosis, OutOfMemory, Relief
from ..plans.report import host_verdict, price, seconds, verdict
from .laid import laid_out
from .legal import breaches

NEAR = 0.03
"""Relative difference within which a size that could not be had is taken for that of a buffer."""

STATES = ("weights", "gradients", "optimizer")

MOST = 6
"""Changes told, fastest first."""

WASTE = 0.1
"""Share of the card reserved but not allocated above which fragmentation is named."""


def diagnose(request: Request, strategy: Strategy, message: OutOfMemory) -> Diagnosis:
    """What broke, by the ledger of `strategy`, and which single changes of it fit."""
    request, strategy = laid_out(request, strategy)
    ledger = price(request, [strategy])[0]
    entry = ledger.stages[ledger.peak_stage]
    loading = message.where == "host" and not ledger.host_node_kib
    if message.where == "host":
        term = "loading" if loading else "offloaded_states"
        need = _loading_kib(request) if loading else ledger.host_node_kib
        terms, moment, basis = {term: need}, "host", "the host's memory ran out, not a card's"
    else:
        term, moment, basis = _broken(request, strategy, ledger, message)
        terms = entry.moments_kib[moment]
    return Diagnosis(
        message=message,
        term=term,
        term_bytes=terms.get(term, 0) * 1024,
        moment=moment,
        basis=basis,
        memory_bytes=sum(terms.values()) * 1024,
        usable_bytes=(ledger.host_usable_kib if message.where == "host" else ledger.usable_kib) * 1024,
        terms_bytes={name: kib * 1024 for name, kib in sorted(terms.items(), key=lambda t: -t[1])},
        reliefs=() if loading else tuple(_ranked(_reliefs(request, strategy))),
        notes=tuple(_notes(request, ledger, message)),
    )


def _loading_kib(request: Request) -> int:
    """Host memory of a node while each of its ranks reads the whole checkpoint in 16 bits, KiB."""
    ranks = min(request.cluster.node.gpus, request.cluster.gpus)
    return ranks * count(request.model).total * 2 // 1024


def _ranked(found: list[Relief]) -> list[Relief]:
    return sorted(found, key=lambda relief: (relief.step_seconds, relief.set))[:MOST]


def _broken(
    request: Request, strategy: Strategy, ledger: Ledger, message: OutOfMemory
) -> tuple[str, str, str]:
    """(term, moment, how it was found) of a card's message."""
    entry = ledger.stages[ledger.peak_stage]
    tried = message.tried_bytes
    for name, what, size in _buffers(request.model, request, strategy, ledger):
        if tried and abs(tried - size) <= NEAR * size:
            moment = max(entry.moments_kib, key=lambda m: entry.moments_kib[m].get(name, 0))
            if entry.moments_kib[moment].get(name, 0):
                return name, moment, f"{gibs(tried, 2)} GiB is the size of {what}"
    moment = entry.peak_moment
    terms = entry.moments_kib[moment]
    states = {name: terms.get(name, 0) for name in STATES}
    if sum(states.values()) > ledger.usable_kib:
        largest = max(states, key=lambda name: states[name])
        return largest, moment, "weights, gradients and optimizer alone exceed the card"
    rest = {name: kib for name, kib in terms.items() if name not in STATES} or terms
    largest = max(rest, key=lambda name: rest[name])
    return largest, moment, f"the largest term beside the states at the peak ({moment})"


def _buffers(
    model: Transformer, request: Request, s: Strategy, ledger: Ledger
) -> Iterator[tuple[str, str, int]]:
    """(term, what it is, bytes) of single buffers a framework asks for at once."""
    tokens = s.micro_batch_size * request.training.sequence_length // s.context_parallel
    for width, word in ((2, "16-bit"), (4, "fp32")):
        entries = tokens * model.vocab_size // s.tensor_parallel
        yield "logits", f"{word} logits of one micro-batch", entries * width
    for kind in model.kinds:
        wide = kind.feed_forward.width
        if wide:
            size = tokens * wide * 2 // s.tensor_parallel
            yield "activations", "a 16-bit feed-forward activation", size
        heads = getattr(kind.attention, "heads", 0)
        scores = s.micro_batch_size * heads * request.training.sequence_length**2 * 2
        yield "activations", "16-bit attention scores (attention that is not fused)", max(scores, 1)
    for name, elements in ledger.buckets.items():
        for width in (2, 4):
            yield "buckets", name.replace("_", " "), elements * width


def _reliefs(request: Request, strategy: Strategy) -> list[Relief]:
    """Single changes of the strategy that are legal and fit; pairs of changes where no single one does."""
    singles = list(_changes(request, strategy))
    found = _fitting(request, singles)
    if found:
        return found
    pairs = [
        (f"{change} and {also}", f"{said},{more}", both)
        for change, said, other in singles
        for also, more, both in _changes(request, other)
        if said.partition("=")[0] < more.partition("=")[0]
    ]
    return _fitting(request, pairs)


def _fitting(request: Request, changes: list[tuple[str, str, Strategy]]) -> list[Relief]:
    """Those of `changes` that no rule refuses and that fit card and host, priced."""
    legal = [change for change in changes if not breaches(request, change[2])]
    ledgers = price(request, [other for _, _, other in legal])
    return [
        Relief(
            change=words, set=said, memory_bytes=ledger.peak_kib * 1024, step_seconds=seconds(ledger.step_ns)
        )
        for (words, said, _), ledger in zip(legal, ledgers, strict=True)
        if {verdict(ledger), host_verdict(request, ledger)} == {"fits"}
    ]


def _changes(request: Request, s: Strategy) -> Iterator[tuple[str, str, Strategy]]:
    """(what it does, what to set, the strategy) in the order to reach for them."""
    known = backend(s.backend)
    size = s.micro_batch_size
    while size > 1 and size % 2 == 0:
        size //= 2
        steps = s.gradient_accumulation_steps * (s.micro_batch_size // size)
        smaller = s.model_copy(update={"micro_batch_size": size, "gradient_accumulation_steps": steps})
        yield "smaller micro-batches, more of them", f"micro_batch_size={size}", smaller
    for kernel in known.loss_kernels:
        if kernel != s.loss_kernel:
            yield "another loss", f"loss_kernel={kernel}", s.model_copy(update={"loss_kernel": kernel})
    for word in ("selective", "full"):
        if word in known.recompute:
            yield f"{word} recompute in every layer", f"recompute={word}", _recomputed(s, word)
    ranks = s.data_parallel * s.context_parallel
    for stage in range(s.zero_stage + 1, 4):
        shard = {
            "zero_stage": stage, "shard_group_size": ranks, "reshard_after_forward": stage == 3,
            **known.overlap.usual(stage, {}),
        }  # fmt: skip
        yield f"shard by ZeRO stage {stage}", f"zero_stage={stage}", s.model_copy(update=shard)
    after = {knob("gradient_reduce"): False, knob("parameter_gather"): False}
    if s.overlap_gradient_reduce and not known.overlap.refused(s.zero_stage, after):
        words = "reduce gradients after the backward pass"
        yield words, f"{knob('gradient_reduce')}=false", s.model_copy(update=after)
    if s.offload_optimizer == "none":
        moved = tuple(x.model_copy(update={"offloaded_layers": x.layers}) for x in s.stages)
        there = s.model_copy(update={"offload_optimizer": "cpu", "stages": moved})
        yield "offload the optimizer", "offload_optimizer=cpu", there


def _recomputed(s: Strategy, word: str) -> Strategy:
    """The strategy with every layer recomputed in whole or in part."""
    stages = tuple(
        stage.model_copy(
            update={
                "recompute_full_layers": stage.layers if word == "full" else 0,
                "recompute_selective_layers": stage.layers if word == "selective" else 0,
            }
        )
        for stage in s.stages
    )
    return s.model_copy(update={"stages": stages})


def _notes(request: Request, ledger: Ledger, message: OutOfMemory) -> Iterator[str]:
    """What the numbers of the message say beside the term."""
    if message.where == "host":
        if not ledger.host_node_kib:
            yield (
                "this strategy keeps nothing in host memory: it ran out while each rank read the whole "
                "checkpoint; read it on one rank, or build the model on the meta device"
            )
        return
    capacity = message.capacity_bytes or request.cluster.node.gpu.memory_usable_bytes
    if message.unallocated_bytes and message.unallocated_bytes > WASTE * capacity:
        yield (
            f"{gib(message.unallocated_bytes)} were reserved but free, in pieces: "
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True gives most of it back"
        )
    usable = request.cluster.node.gpu.memory_usable_bytes
    if message.capacity_bytes and abs(message.capacity_bytes - usable) > 0.05 * usable:
        yield (
            f"the message is from a card of {gib(message.capacity_bytes)}, the request's has "
            f"{gib(usable)}: is the cluster right?"
        )
    expected = ledger.peak_kib * 1024
    if expected < 0.92 * usable:
        yield (
            f"the ledger expects {gib(expected)} here: something is on the card that the strategy "
            "does not say (another process, an unfused attention, a longer sequence, a reference model)"
        )
