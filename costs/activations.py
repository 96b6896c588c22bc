"""Activations that a rank saves for the backward pass, by row and kind of layer."""

from __future__ import annotations

from functools import cache
from typing import Literal

import numpy as np

from ..inputs.record import dataclass
from ..models.divisors import EIGHT_BIT
from ..models.stack import stacks
from ..models.training import Module
from ..models.transformer import Block
from .columns import Bools, Floats, Ints, code, distinct
from .context import context_buffers
from .law import law
from .layout import Layout
from .moments import PASSES, Alive
from .needed import ALL_NEEDED, Needed
from .once import once
from .saved_sets import Routed, gathered_bytes, saved_bytes, saved_sets, score_bytes
from .schedule import plain
from .stacks import by_stack, of_stacks, stack_has
from .terms import Note, Term, kib

_SAVED = Note(
    "T (u / split + s / t) K_i; u unsplit, s split bytes a token",
    "arXiv 2205.05198 section 4; FSDP memory oracle (exact)",
    "D",
)
_WAITING = Note("what was run again, until the backward for weights", "arXiv 2401.10241 section 2.2", "D")
_JOINED = Note(
    "6 T h / split a module: the embedding before its norm, and both hidden states joined",
    "Megatron Core, multi_token_prediction.py: inputs of enorm and eh_proj; that of hnorm is the head's",
    "D",
)
_TRAVELLING = Note(
    "5 x 2 T h / split of offloaded inputs",
    "torchtune training/_activation_offloading.py and TRL: max_fwd_stash_size 5",
    "D",
)
_LIVE = Note(
    "T (1.5 A - 0.5 scores); A the saved set of the largest layer",
    "FSDP memory oracle: the layer run again and its gradients; slope of ml_engineering-005..012",
    "M",
)
_INPUT = Note("2 T h / split", "embedding output, kept by the caller until the loss; FSDP memory oracle", "D")
_SEQUENCE = Note("2 x 2 T h", "Megatron-LM sequence parallel: gathered input and its gradient", "D")
_BUFFERS = Note("2 x 2 T h / split a micro-batch in flight", "DeepSpeed pipe engine; bloom_prequel rows", "M")


@cache
def _sets(field: str) -> Ints:
    """Which of all saved sets is the `field` of each software stack, by the stack's code."""
    names = tuple(saved_sets())
    return np.array([names.index(name) for name in of_stacks(field)])


def _per_set(layout: Layout, block: Block, sets: Ints, modules: tuple[Module, ...] = ()) -> Floats:
    """Bytes a layer saves on a rank for a micro-batch under each set less `modules`, (ways, n)."""
    t = layout.tensor.astype(np.float64)
    grid = layout.strategies.expert_tensor_parallel / t
    sequence, hidden = layout.training.sequence_length, layout.transformer.hidden_size
    needed = Needed.of(layout.training, layout.transformer, block)
    used, every = distinct(sets), tuple(saved_sets())
    names = [every[place] for place in used.tolist()]

    def table(bits: Literal[8, 16], routed: Routed) -> Floats:
        found = []
        for name in names:
            kept = _kept(layout, name, needed)
            each = saved_bytes(block, hidden, name, sequence, kept, bits, modules, routed)
            found.append((*each, gathered_bytes(block, hidden, name, kept, bits, modules)))
        return np.array(found).reshape(-1, 4)[np.searchsorted(used, sets)]

    chosen = np.zeros((*sets.shape, 4))
    for bits, routed, rows in _variants(layout, block):
        chosen[:, rows] = table(bits, routed)[:, rows]
    unsplit, split, dispatched, gathered = chosen.transpose(2, 0, 1)
    whole = np.where(stack_has(layout, "keeps_gathered", True), gathered, 0.0)
    each = whole + (unsplit - whole) / layout.split_tokens + split / t + dispatched * grid
    found: Floats = each * layout.tokens * layout.element_bytes / 2.0
    return found


def _variants(layout: Layout, block: Block) -> list[tuple[Literal[8, 16], Routed, Bools]]:
    """Rows by the bits that inputs of products are kept in, and by how routed tokens lie."""
    eight, every = _inputs_in_8_bits(layout), [Routed.of(known) for known in stacks().values()]
    found: list[tuple[Literal[8, 16], Routed, Bools]] = []
    for routed in dict.fromkeys(every) if block.feed_forward.experts else every[:1]:
        mine = _laid(layout, routed) if block.feed_forward.experts else np.ones_like(eight)
        found += [(8, routed, mine & eight), (16, routed, mine & ~eight)]
    return [variant for variant in found if variant[2].any()]


def _laid(layout: Layout, routed: Routed) -> Bools:
    """Rows whose software stack lays routed tokens so."""
    return by_stack(layout, lambda name: Routed.of(stacks()[name]) == routed) > 0


def _inputs_in_8_bits(layout: Layout) -> Bools:
    """Rows whose 8-bit products keep their inputs so for the backward.

    Adapters read them in 16 bits, and frozen matrices keep none.
    """
    s = layout.strategies
    eight = np.isin(s.precision, [code("precision", word) for word in EIGHT_BIT])
    kept: Bools = eight & (s.by_backend("keeps_8_bit_inputs") > 0)
    return kept & (not layout.training.way.adapts)


def _kept(layout: Layout, name: str, needed: Needed) -> Needed:
    """What a layer keeps under a saved set: all inputs where its 4-bit matrices keep theirs."""
    every = saved_sets()[name].quantised_inputs and layout.training.way.kind == "qlora"
    return ALL_NEEDED._replace(ranks=needed.ranks) if every else needed


@dataclass(frozen=True)
class Saved:
    """Bytes a layer saves for one micro-batch, (n, kinds): plain, selectively and fully recomputed."""

    plain: Floats
    selective: Floats
    full: Floats

    @classmethod
    def of(cls, layout: Layout) -> Saved:
        """The sets follow the software stack, or what the job names to be run again."""
        stacks, named = layout.strategies.software_stack, layout.training.recompute_modules
        sets = np.stack([_sets(f"{kind}_set")[stacks] for kind in ("activation", "selective", "full")])
        plain, selective, full = np.stack([_per_set(layout, block, sets) for block in layout.blocks], axis=2)
        if named:
            parts = [_per_set(layout, block, sets[:1], named)[0] for block in layout.blocks]
            selective = np.stack(parts, axis=1)
        return cls(plain, selective, full)


saved_of = once(Saved.of)


def activation_terms(layout: Layout) -> list[Alive]:
    """Saved activations (forward, backward) and the live layer (backward)."""
    saved = saved_of(layout)
    hidden = layout.hidden_bytes / layout.split_tokens
    kept = kib(
        layer=saved.plain,
        full=np.minimum(inputs_on_card(layout) - saved.plain, 0.0) * layout.run_again,
        selective=np.minimum(saved.selective - saved.plain, 0.0),
    )
    return [
        Alive(PASSES, Term("activations", "flight", _SAVED, kept)),
        Alive(PASSES, _pipe_buffers(layout, 2.0 * hidden)),
        *(Alive(PASSES, term) for term in _waiting(layout, saved)),
        *_joined(layout),
        *_travelling(layout, hidden),
        *_gathered_sequence(layout),
        Alive(("forward",), Term("embedding_output", "stage", _INPUT, kib(first=hidden))),
        Alive(("backward",), _live_layer(layout, saved)),
        Alive(("backward",), context_buffers(layout)),
    ]


def inputs_on_card(layout: Layout) -> Floats:
    """What a layer that is run again keeps on the card, (n, kinds): nothing where it is offloaded."""
    return saved_of(layout).full * (0.0 if layout.training.offload_activations else 1.0)


def _travelling(layout: Layout, hidden: Floats) -> list[Alive]:
    """Offloaded inputs that are on their way to the host, or back."""
    if not layout.training.offload_activations:
        return []
    size = law("offloaded_inputs_alive") * hidden
    return [Alive(PASSES, Term("activations", "stage", _TRAVELLING, kib(fixed=size)))]


def _joined(layout: Layout) -> list[Alive]:
    """What modules that predict further tokens save before their block."""
    if not layout.transformer.mtp_layers:
        return []
    module = np.array([float(block.joins) for block in layout.blocks])
    size = np.outer(3.0 * layout.hidden_bytes / layout.split_tokens, module)
    return [Alive(PASSES, Term("activations", "flight", _JOINED, kib(layer=size)))]


def _waiting(layout: Layout, saved: Saved) -> list[Term]:
    """What recompute spares comes back for chunks that wait for their backward for weights."""
    if plain(layout.strategies):
        return []
    full = np.maximum(saved.plain - saved.full, 0.0) * layout.run_again
    part = np.maximum(saved.plain - saved.selective, 0.0)
    return [Term("activations", "waiting", _WAITING, kib(full=full, selective=part))]


def _live_layer(layout: Layout, saved: Saved) -> Term:
    """The largest layer run again, and its gradients: half of what it saves besides attention scores."""
    sequence, known = layout.training.sequence_length, stacks()

    def scores(block: Block) -> Floats:
        each = by_stack(layout, lambda name: score_bytes(block, known[name].activation_set, sequence))
        return each * (layout.tokens / layout.tensor * layout.element_bytes / 2.0)

    live = 1.5 * saved.plain - 0.5 * np.stack([scores(block) for block in layout.blocks], axis=1)
    return Term("live_layer", "stage", _LIVE, kib(fixed=live.max(axis=1)))


def _gathered_sequence(layout: Layout) -> list[Alive]:
    """Hidden states of a whole micro-batch that sequence parallel gathers for a product, and its gradient.

    At the loss those of the head.
    """
    split = (layout.tensor > 1) & (layout.strategies.sequence_parallel > 0)
    size = np.where(split, 2.0 * layout.hidden_bytes, 0.0)
    return [
        Alive(("forward",), Term("tensor_buffers", "stage", _SEQUENCE, kib(last=size))),
        Alive(("backward",), Term("tensor_buffers", "stage", _SEQUENCE, kib(fixed=size))),
    ]


def _pipe_buffers(layout: Layout, size: Floats) -> Term:
    """Input and output buffers of a DeepSpeed pipeline, each micro-batch in flight."""
    piped = layout.strategies.is_("backend", "deepspeed") & (layout.strategies.pipeline_parallel > 1)
    return Term("pipeline_buffers", "flight", _BUFFERS, kib(fixed=np.where(piped, size, 0.0)))
