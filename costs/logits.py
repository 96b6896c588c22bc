"""Logits and loss on the last stage: bytes alive, and bytes moved."""

from __future__ import annotations

import numpy as np

from ..models.recipe import losses
from ..models.shares import trained_shares
from ..models.stack import stacks
from .columns import WORDS, Floats
from .layout import Layout
from .moments import Alive
from .saved_sets import saved_sets
from .stacks import by_stack
from .terms import Note, Term, kib

_LOGITS = Note(
    "e C V / t; e bytes per entry of the loss kernel; e C V where logits are gathered; C tokens at once, "
    "T or a part of it. Liger's: C = T h / V rounded up to a power of 2, and gradients 2 T h + 2 V h beside",
    "torchtitan, torchtune, llm-foundry, Megatron-LM rows (catalogue losses.json); Liger-Kernel ead96b61",
    "M",
)
_FURTHER = Note(
    "k T V / t a module; k bytes per entry that its loss keeps until the main loss is done",
    "Megatron Core, multi_token_prediction.py: process_mtp_loss runs first, its backward after the main loss",
    "D",
)
_HEAD = Note(
    "4 T h / split, 8 where norms keep their input in fp32, + 2 T h gathered under sequence parallel",
    "final norm and head input; by the saved sets",
    "D",
)


def entry_bytes(layout: Layout) -> Floats:
    """Bytes per token and vocabulary entry on the rank at the worst instant of the loss."""
    s = layout.strategies
    kernels = [losses()[name] for name in WORDS["loss_kernel"]]
    alone = np.array([kernel.bytes_per_entry for kernel in kernels])
    split = np.array([kernel.tensor_parallel_bytes_per_entry for kernel in kernels])
    found: Floats = np.where(layout.tensor > 1, split[s.loss_kernel], alone[s.loss_kernel])
    return found


def entries(layout: Layout) -> Floats:
    """Vocabulary entries of a micro-batch that a rank holds at the loss, were all tokens taken at once."""
    return _entries_of(layout, layout.tokens)


def _entries_of(layout: Layout, tokens: Floats) -> Floats:
    gathered = np.array([losses()[name].whole_vocabulary for name in WORDS["loss_kernel"]])
    share = np.where(gathered[layout.strategies.loss_kernel], 1.0, layout.tensor)
    return tokens * layout.vocabulary / share


def _at_once(layout: Layout) -> Floats:
    """Tokens the loss takes at once: all, a part of them, or so many that logits are as hidden states."""
    chunks = [losses()[name].chunks for name in WORDS["loss_kernel"]]
    number = np.array([np.nan if isinstance(parts, str) else float(parts) for parts in chunks])
    parted = layout.tokens / number[layout.strategies.loss_kernel]
    parts = -(-layout.transformer.vocab_size // layout.transformer.hidden_size)
    chunk = 2.0 ** np.ceil(np.log2(np.maximum(np.ceil(layout.tokens / parts), 1.0)))
    return np.where(np.isnan(parted), np.minimum(chunk, layout.tokens), parted)


def alive_bytes(layout: Layout) -> Floats:
    """Bytes on the rank at the worst instant of the loss, of the tokens it takes at once.

    With the gradients of the head and of its input, where a loss makes them in the forward pass.
    """
    kernel = layout.strategies.loss_kernel
    early = np.array([float(losses()[name].gradients_in_forward) for name in WORDS["loss_kernel"]])
    trained = trained_shares(layout.training, layout.transformer).head
    head = trained * layout.element_bytes * layout.vocabulary * layout.transformer.hidden_size
    logits = entry_bytes(layout) * _entries_of(layout, _at_once(layout))
    found: Floats = logits + early[kernel] * (layout.hidden_bytes + head)
    return found


def kept_bytes(layout: Layout) -> Floats:
    """Bytes per token and vocabulary entry that a loss keeps for its backward while another one runs."""
    kept = np.array([losses()[name].kept_bytes_per_entry for name in WORDS["loss_kernel"]])
    found: Floats = kept[layout.strategies.loss_kernel]
    return found


def loss_moved_bytes(layout: Layout) -> Floats:
    """Bytes per token and vocabulary entry that the loss reads and writes, both passes."""
    moved = np.array([losses()[name].moved_bytes_per_entry for name in WORDS["loss_kernel"]])
    found: Floats = moved[layout.strategies.loss_kernel]
    return found


def logits_terms(layout: Layout) -> list[Alive]:
    """Terms of the loss; alive at the end of the forward pass only."""
    states = layout.hidden_bytes
    gathered = np.where((layout.tensor > 1) & (layout.strategies.sequence_parallel > 0), states, 0.0)
    head = kib(last=_final_norm(layout) * states / layout.split_tokens + gathered)
    return [
        Alive(("forward",), Term("logits", "stage", _LOGITS, kib(last=alive_bytes(layout)))),
        Alive(("forward",), Term("head_input", "stage", _HEAD, head)),
        *_further(layout),
    ]


def _final_norm(layout: Layout) -> Floats:
    """Hidden states that the final norm and the head keep: as a norm of a layer and what reads it."""
    if layout.blocks[-1].norm != "rms":
        return np.full(len(layout.strategies), 2.0)

    def kept(name: str) -> float:
        saved = saved_sets()[stacks()[name].activation_set]
        return (saved.hidden - saved.mixer_input - saved.forward_input) / 4.0 + 1.0

    return by_stack(layout, kept)


def _further(layout: Layout) -> list[Alive]:
    """The same of modules that predict further tokens."""
    if not layout.transformer.mtp_layers:
        return []
    module = np.array([float(block.joins) for block in layout.blocks])
    logits = kib(layer=np.outer(kept_bytes(layout) * entries(layout), module))
    head = kib(layer=np.outer(2.0 * layout.hidden_bytes / layout.split_tokens, module))
    return [
        Alive(("forward",), Term("logits", "stage", _FURTHER, logits)),
        Alive(("forward",), Term("head_input", "stage", _HEAD, head)),
    ]
