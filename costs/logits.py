"""Logits and loss on the last stage: bytes alive, and bytes moved."""

from __future__ import annotations

import numpy as np

from ..models.recipe import losses
from ..models.shares import trained_shares
from .columns import WORDS, Floats
from .layout import Layout
from .moments import Alive
from .terms import Note, Term, kib

_LOGITS = Note(
    "e T V / t; e bytes per entry of the loss kernel; e T V where logits are gathered; "
    "Liger's: 2 C V + 2 T h + 2 V h, chunks of C = T h / V tokens, rounded up to a power of 2",
    "torchtitan, torchtune, llm-foundry, Megatron-LM rows (catalogue losses.json); Liger-Kernel ead96b61",
    "M",
)
_FURTHER = Note(
    "k T V / t a module; k bytes per entry that its loss keeps until the main loss is done",
    "Megatron Core, multi_token_prediction.py: process_mtp_loss runs first, its backward after the main loss",
    "D",
)
_HEAD = Note("4 T h / split + 2 T h gathered under sequence parallel", "final norm and head input", "D")


def entry_bytes(layout: Layout) -> Floats:
    """Bytes per token and vocabulary entry on the rank at the worst instant of the loss."""
    s = layout.strategies
    kernels = [losses()[name] for name in WORDS["loss_kernel"]]
    alone = np.array([kernel.bytes_per_entry for kernel in kernels])
    split = np.array([kernel.tensor_parallel_bytes_per_entry for kernel in kernels])
    found: Floats = np.where(layout.tensor > 1, split[s.loss_kernel], alone[s.loss_kernel])
    return found


def entries(layout: Layout) -> Floats:
    """Vocabulary entries of a micro-batch that a rank holds at the loss."""
    gathered = np.array([losses()[name].whole_vocabulary for name in WORDS["loss_kernel"]])
    share = np.where(gathered[layout.strategies.loss_kernel], 1.0, layout.tensor)
    return layout.tokens * layout.vocabulary / share


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
    chunked = np.array([losses()[name].chunk_as_wide_as_hidden for name in WORDS["loss_kernel"]])
    by_width = chunked[layout.strategies.loss_kernel]
    size = np.where(by_width, _chunked_bytes(layout), entry_bytes(layout) * entries(layout))
    states = layout.hidden_bytes
    gathered = np.where((layout.tensor > 1) & (layout.strategies.sequence_parallel > 0), states, 0.0)
    head = kib(last=2.0 * states / layout.split_tokens + gathered)
    return [
        Alive(("forward",), Term("logits", "stage", _LOGITS, kib(last=size))),
        Alive(("forward",), Term("head_input", "stage", _HEAD, head)),
        *_further(layout),
    ]


def _chunked_bytes(layout: Layout) -> Floats:
    """What a loss holds that takes so many tokens at a time that their logits are as large as hidden states.

    Logits of a chunk, with gradients in their place, and the gradients of input and head.
    """
    hidden, whole = layout.transformer.hidden_size, layout.transformer.vocab_size
    chunk = 2.0 ** np.ceil(np.log2(np.maximum(np.ceil(layout.tokens / -(-whole // hidden)), 1.0)))
    logits = entry_bytes(layout) * np.minimum(chunk, layout.tokens) * layout.vocabulary / layout.tensor
    trained = trained_shares(layout.training, layout.transformer).head
    found: Floats = logits + layout.hidden_bytes + trained * layout.element_bytes * layout.vocabulary * hidden
    return found


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
