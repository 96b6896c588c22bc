"""Saved sets: what one layer keeps for its backward pass, bytes a token."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import cache
from typing import Any, Literal, NamedTuple

from ..inputs.data import data
from ..inputs.listed import Entries, Listed
from ..inputs.record import dataclass
from ..models.mixers import Mixing
from ..models.modules import latent, lone_norms
from ..models.stack import Stack
from ..models.training import Module
from ..models.transformer import Block
from .needed import ALL_NEEDED, Needed
from .recomputed import fed_widths
from .stacks import busiest


@dataclass(frozen=True, kw_only=True)
class Again(Listed):
    """Shares of a layer's forward that its backward runs again under a saved set."""

    products: float
    """Weight products of the attention."""
    feed_forward: float
    core: float
    """The attention core."""
    memory: float
    """Element-wise work."""
    tensor: float
    """Tensor-parallel collectives."""
    expert: float
    """Exchanges of tokens between experts."""


@dataclass(frozen=True, kw_only=True)
class SavedSet(Listed):
    """Multiples of the block's widths that one layer saves, bytes a token.

    Unsplit by tensor parallel: `hidden`. Split: queries, keys, values, attention output, softmax
    statistics (`heads`), and feed-forward widths.
    """

    hidden: float
    query: float
    key: float
    value: float
    output: float
    heads: float
    gated: float
    plain: float
    mixer_input: float
    """Part of `hidden` that only the matrices before the mixer need, for their own gradients."""
    forward_input: float
    """The same of the feed-forward's first matrices."""
    inner_input: float
    """Part of `gated` or `plain` that only the last matrix of the feed-forward needs."""
    scores: float
    """Bytes per head, query and key of unfused attention."""
    again: Again
    quantised_inputs: bool = False
    """Whether 4-bit matrices keep their inputs though they are frozen (bitsandbytes of 2023)."""
    source: str


class Routed(NamedTuple):
    """How copies of tokens lie on the ranks of their experts."""

    imbalance: float = 1.0
    """Copies of the busiest rank over the mean."""
    copies: int = 2
    """Hidden states kept of a copy: what its expert reads, and what it gives where that is weighed after."""

    @classmethod
    def of(cls, stack: Stack) -> Routed:
        """Those of a software stack."""
        return cls(busiest(stack), 1 if stack.weighs_inside else 2)


EVEN = Routed()
"""Evenly, and weighed after their experts."""


@cache
def saved_sets() -> Entries[SavedSet]:
    """All saved sets by name."""
    return Entries(data(__package__, "catalogue", "saved_sets.json"), _saved_set)


def _saved_set(name: str, entry: dict[str, Any]) -> SavedSet:
    return SavedSet.listed(**{**entry, "again": Again.listed(**entry["again"])})


def score_bytes(block: Block, name: str, sequence: int) -> float:
    """Of `saved_bytes` those that grow with the sequence: scores of unfused attention."""
    return saved_sets()[name].scores * sequence * sum(mixer.heads for mixer in block.mixers)


def in_8_bits(saved: SavedSet, routed: bool) -> SavedSet:
    """A saved set whose products keep their inputs in 8 bits; `routed`: the feed-forward is of experts.

    Norms' outputs and the last matrix's input halve; the attention core keeps its output in 16 bits, so the
    product after it has a copy of its own. A router reads the feed-forward's input in 16 bits.
    """
    halved = saved.mixer_input / 2.0 + (0.0 if routed else saved.forward_input / 2.0)
    inner = saved.inner_input / 2.0
    return replace(
        saved,
        hidden=saved.hidden - halved,
        mixer_input=saved.mixer_input / 2.0,
        forward_input=saved.forward_input / (1.0 if routed else 2.0),
        output=saved.output + min(saved.output, 1.0),
        gated=saved.gated - inner,
        plain=saved.plain - inner,
        inner_input=inner,
    )


def without(saved: SavedSet, block: Block, modules: Collection[Module]) -> SavedSet:
    """What a layer saves outside its feed-forward, less what `modules` run again."""
    if "core_attn" in modules:
        saved = replace(saved, heads=0.0, scores=0.0)
    if "mla_up_proj" in modules and latent(block):
        saved = replace(saved, query=0.0, key=0.0, value=0.0)
    if "layernorm" in modules:
        first, second = lone_norms(block)
        freed = saved.mixer_input * first, saved.forward_input * second
        saved = replace(
            saved,
            hidden=saved.hidden - sum(freed),
            mixer_input=saved.mixer_input - freed[0],
            forward_input=saved.forward_input - freed[1],
        )
    return saved


def saved_bytes(
    block: Block,
    hidden: int,
    name: str,
    sequence: int = 0,
    needed: Needed = ALL_NEEDED,
    inputs_bits: Literal[8, 16] = 16,
    modules: Collection[Module] = (),
    routed: Routed = EVEN,
) -> tuple[float, float, float]:
    """(unsplit, split, dispatched) bytes a token of one layer under the saved set `name`, less `modules`.

    `dispatched` are the routed copies of hidden states: on a rank they count times
    expert_tensor_parallel / tensor_parallel. Llama-3 8B under `fused` saves 34.0 h = 139,392 bytes, and
    29.5 h where products keep their inputs in 8 bits.
    """
    saved = saved_sets()[name]
    if inputs_bits == 8:
        saved = in_8_bits(saved, bool(block.feed_forward.experts))
    imbalance, copies = routed
    forward, mixers = block.feed_forward, block.mixers
    latents = sum((mixer.kv_rank or 0) + mixer.q_rank for mixer in mixers) * (1.0 if saved.query else 0.0)
    adapted = bool(saved.mixer_input)
    saved = without(saved, block, modules)
    idle = (0.0 if needed.mixer else saved.mixer_input) + (
        0.0 if needed.feed_forward else saved.forward_input
    )
    thin = 2.0 * (needed.ranks[0] + needed.ranks[1] * imbalance) if adapted else 0.0
    crossed = sum(
        mixer.kv == "memory" for mixer in block.beside
    )  # each with a norm of its own: input, output
    unsplit = (saved.hidden - idle + 2.0 * saved.mixer_input * crossed) * hidden + 2.0 * latents + thin
    split = sum(_mixer_bytes(saved, mixer, sequence) for mixer in mixers)
    inner = saved.inner_input if needed.inner else 0.0
    each = (saved.gated if forward.gated else saved.plain) - (0.0 if needed.inner else saved.inner_input)
    dense, shared, expert = fed_widths(each, inner, block, modules)
    if not forward.experts:
        return unsplit, split + dense * forward.width, 0.0
    met = forward.experts_per_token * imbalance
    split += shared * forward.shared_width + expert * met * forward.width
    if not expert:
        return unsplit, split, 0.0
    return unsplit + 4.0 * forward.experts + 2.0 * hidden, split, 2.0 * copies * met * hidden


def gathered_bytes(
    block: Block,
    hidden: int,
    name: str,
    needed: Needed = ALL_NEEDED,
    inputs_bits: Literal[8, 16] = 16,
    modules: Collection[Module] = (),
) -> float:
    """Of the unsplit bytes of `saved_bytes` those of matrices' inputs that sequence-parallel ranks gather.

    Experts gather none: their tokens are sent.
    """
    saved = saved_sets()[name]
    if inputs_bits == 8:
        saved = in_8_bits(saved, bool(block.feed_forward.experts))
    saved = without(saved, block, modules)
    fed = 0.0 if block.feed_forward.experts or not needed.feed_forward else saved.forward_input
    return ((saved.mixer_input if needed.mixer else 0.0) + fed) * hidden


def _mixer_bytes(saved: SavedSet, mixer: Mixing, sequence: int) -> float:
    """Bytes a token of a mixer's queries, keys, values, output and statistics."""
    value_width = mixer.output_width if mixer.kv_rank else mixer.kv_width
    return (
        saved.query * mixer.query_width
        + saved.key * mixer.kv_width
        + saved.value * value_width
        + saved.output * mixer.output_width
        + (saved.heads + saved.scores * sequence) * mixer.heads
    )
