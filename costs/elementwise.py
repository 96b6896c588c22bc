"""Seconds of a layer's element-wise work: what its kernels read and write, by how they are fused."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache

import numpy as np

from ..inputs.data import data
from ..inputs.listed import Entries, Listed
from ..inputs.record import dataclass
from ..models.mixers import Attention, Mixing
from ..models.modules import latent, lone_norms
from ..models.training import Module
from ..models.transformer import Block
from .columns import Floats, distinct
from .experts import gate_bytes, routed_bytes
from .layout import Layout
from .products import memory_rate
from .stacks import of_stacks

_JOINED = 8.0
"""Bytes an element of two hidden states put side by side: 2 read and 2 written, of 2 bytes each."""


@dataclass(frozen=True, kw_only=True)
class Moved(Listed):
    """Bytes a token and element that the kernels of one forward read and write, 16-bit tensors."""

    residual: float
    """Sums with the residual, of an element of the hidden state."""
    norm: dict[str, float]
    """One normalisation, by its kind (`Block.norm`), of an element of its input."""
    rotated: float
    """Rotation of an element of queries and keys."""
    expanded: float
    """Keys and values written out to all heads, of an element of the queries."""
    gated: float
    """Activation and gate, of an element of the feed-forward's width."""
    plain: float
    """The same of a feed-forward without a gate."""
    source: str


@cache
def moved_sets() -> Entries[Moved]:
    """What is moved, by the set of activations that a stack saves: both follow from what is fused."""
    told = data(__package__, "catalogue", "moved_bytes.json")
    return Entries(told, lambda name, entry: Moved.listed(**entry))


def memory_seconds(layout: Layout, block: Block) -> Floats:
    """Seconds of a forward's element-wise work under each row's stack: bytes / HBM.

    (u h / split + s / t) T with u of residuals and norms, s of rotation, expansion and activation (`Moved`).
    With experts `routed_bytes` move too.
    """
    return _seconds(layout, lambda moved: _bytes(block, moved), routed_bytes(layout, block))


def modules_seconds(layout: Layout, block: Block) -> Floats:
    """Of `memory_seconds` what selective recompute of the modules that the job names does again."""
    modules, routed = layout.training.recompute_modules, np.zeros(len(layout.strategies))
    if not modules:
        return routed
    if "moe" in modules:
        routed = routed_bytes(layout, block)
    elif "moe_act" in modules:
        routed = gate_bytes(layout, block)
    return _seconds(layout, lambda moved: _module_bytes(block, moved, modules), routed)


def _seconds(layout: Layout, of: Callable[[Moved], tuple[float, float]], routed: Floats) -> Floats:
    """Seconds of the bytes that `of` tells of each stack's kernels, and of `routed` ones."""
    names = [
        own or saved for own, saved in zip(of_stacks("moved_set"), of_stacks("activation_set"), strict=True)
    ]
    codes = layout.strategies.software_stack
    split, unsplit = np.zeros(len(codes)), np.zeros(len(codes))
    for code in distinct(codes).tolist():
        whole, cut = of(moved_sets()[names[code]])
        unsplit, split = np.where(codes == code, whole, unsplit), np.where(codes == code, cut, split)
    split = split + routed
    moved = unsplit * layout.transformer.hidden_size / layout.split_tokens + split / layout.tensor
    return moved * layout.tokens / memory_rate(layout)


def _bytes(block: Block, moved: Moved) -> tuple[float, float]:
    """Bytes a token: of an element of the hidden state, and of what tensor parallel cuts.

    With experts the width is that of the shared one alone.
    """
    forward = block.feed_forward
    inner = forward.shared_width if forward.experts else forward.width
    cut = sum(_mixed(mixer, block, moved) for mixer in block.mixers)
    cut += (moved.gated if forward.gated else moved.plain) * inner
    joined = _JOINED if block.joins else 0.0
    return moved.residual + block.norms * moved.norm[block.norm] + joined, cut


def _module_bytes(block: Block, moved: Moved, modules: Collection[Module]) -> tuple[float, float]:
    """`_bytes` of what `modules` run again; a norm that does not stand alone runs with its feed-forward."""
    forward, norm = block.feed_forward, moved.norm[block.norm]
    routed, whole, cut = bool(forward.experts), 0.0, 0.0
    if "layernorm" in modules:
        whole += norm * sum(lone_norms(block))
    if "mla_up_proj" in modules and latent(block):
        cut += sum(_mixed(mixer, block, moved) for mixer in block.mixers)
    if "mlp" in modules and not routed:
        whole += norm
        cut += (moved.gated if forward.gated else moved.plain) * forward.width
    if routed and {"moe", "shared_experts"} & set(modules):
        cut += (moved.gated if forward.gated else moved.plain) * forward.shared_width
    return whole, cut


def _mixed(mixer: Mixing, block: Block, moved: Moved) -> float:
    """Bytes a token of queries and keys."""
    attended = mixer.query_width + mixer.kv_width
    if not isinstance(mixer, Attention):
        return moved.rotated * attended
    normed = moved.norm[block.norm] * attended if mixer.qk_norm != "none" else 0.0
    grouped = moved.expanded * mixer.query_width if mixer.kv_heads < mixer.heads else 0.0
    return moved.rotated * attended + normed + grouped
