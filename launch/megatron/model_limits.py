"""What the arguments of `pretrain_gpt.py` cannot say of a model."""

from __future__ import annotations

from collections.abc import Iterator

from ...models.mixers import Attention
from ...models.transformer import Block, FeedForward, Transformer
from ..refused import Objection
from .constants import reasons
from .families import known

BIASES = {(True, True, True), (True, False, False), (False, False, False)}
"""Biases of (queries, keys and values; output; feed-forward): all, --add-qkv-bias alone, none."""


def model_objections(model: Transformer) -> Iterator[Objection]:
    """Each part of `model` without an argument, as objections to its family."""
    for reason in _reasons(model):
        yield Objection("model", model.family, reason)


def _reasons(model: Transformer) -> Iterator[str]:
    facts = known()
    if model.family not in facts.families:
        listed = ", ".join(sorted(facts.families))
        yield facts.refused.get(model.family, f"arguments are written for {listed}")
        return
    learned = facts.families[model.family].positions == "learned_absolute"
    if learned != (model.positions > 0):
        yield f"{model.family} has {'learned' if learned else 'rotary'} positions, this model has not"
    if learned and model.mtp_layers:
        yield "modules that predict further tokens go with rotary positions"
    yield from _ends(model)
    kinds = model.predicting(0).kinds
    for kind in kinds:
        yield from _block(kind)
    yield from _mixed(kinds)
    yield from reasons(model)


def _ends(model: Transformer) -> Iterator[str]:
    """What stands around the layers."""
    found = {
        "an encoder of images or sound": bool(model.towers),
        "a stack of encoder layers": bool(model.encoder_layers),
        "projections between embedding and layers": model.embedding_width not in (None, model.hidden_size),
        "a norm after the embedding": model.embedding_norm,
        "a bias of the head": model.head_bias,
        "parameters beside embedding, layers and head": bool(model.other),
    }
    for part, there in found.items():
        if there:
            yield f"there is no argument for {part}"
    if not (model.final_norm and model.head):
        yield "pretrain_gpt.py always puts a norm and a head after the last layer"


def _block(kind: Block) -> Iterator[str]:
    if kind.norm not in ("rms", "layer"):
        yield f"--normalization has no word for norms of kind {kind.norm}"
    if kind.norms != 2:
        yield f"a layer has two norms over the hidden width, this one has {kind.norms}"
    mixer, forward = kind.attention, kind.feed_forward
    if kind.beside or kind.other or not isinstance(mixer, Attention):
        yield "a layer is softmax attention and a feed-forward, nothing beside"
        return
    yield from _attention(mixer)
    yield from _feed_forward(forward)
    if (mixer.qkv_bias, mixer.output_bias, forward.bias) not in BIASES:
        yield "biases stand in all matrices, in those of queries, keys and values alone, or in none"


def _attention(mixer: Attention) -> Iterator[str]:
    if not mixer.causal or mixer.kv != "own":
        yield "attention is causal, over its own keys and values"
    if mixer.chunked:
        yield "--window-size slides; there is no argument for chunks of the sequence"
    if mixer.gate_width or mixer.sinks or mixer.index_width or mixer.top_keys or mixer.other:
        yield "output gates, sinks and chosen keys of attention are not written"
    if mixer.kv_rank is not None:
        if mixer.qkv_bias or mixer.window or mixer.qk_norm != "none" or mixer.kv_heads != mixer.heads:
            yield "latent attention has whole heads, no bias, no window, and norms of its vectors only"
    elif mixer.value_head_dim not in (None, mixer.head_dim) or mixer.rope_head_dim:
        yield "--kv-channels gives queries, keys and values one width"
    if mixer.qk_norm == "full":
        yield "--qk-layernorm norms each head, not all of them together"


def _feed_forward(forward: FeedForward) -> Iterator[str]:
    if not forward.width or forward.latent_width or forward.router_bias or forward.other:
        yield "a feed-forward reads and writes the hidden width, its router has no bias"
    if forward.experts and forward.bias:
        yield "experts have no bias"


def _mixed(kinds: tuple[Block, ...]) -> Iterator[str]:
    """Layers may differ in windows, and in having experts or not."""
    mixers = [kind.attention for kind in kinds if isinstance(kind.attention, Attention)]
    if len({mixer.model_copy(update={"window": None}) for mixer in mixers}) > 1:
        yield "all layers have one kind of attention"
    if len({mixer.window for mixer in mixers if mixer.window}) > 1:
        yield "--window-size is one for all layers that have a window"
    dense = {kind.feed_forward for kind in kinds if not kind.feed_forward.experts}
    routed = {kind.feed_forward for kind in kinds if kind.feed_forward.experts}
    if len(dense) > 1 or len(routed) > 1 or len({(k.norm, k.feed_forward.gated) for k in kinds}) > 1:
        yield "all dense layers are alike, all layers of experts are alike"
