"""Tiny transformers: dense, GPT-like, mixtures of experts, stacks of two kinds."""

from __future__ import annotations

from random import Random
from typing import Any

from shardwise.models import Attention, Block, FeedForward, Predictor, Run, Transformer

FAMILIES = {
    "dense": "llama",
    "gpt": "gpt2",
    "experts": "mixtral",
    "windows": "mistral",
    "mixed": "qwen3_moe",
}
"""A family for each kind of tiny model; others count as llama."""


def attention(rng: Random, hidden: int) -> Attention:
    """Grouped queries: four or eight heads."""
    heads = rng.choice((4, 8))
    return Attention(heads=heads, kv_heads=rng.choice((2, 4)), head_dim=hidden // heads)


def model(name: str, hidden: int, vocab: int, runs: list[tuple[Block, int]], **more: Any) -> Transformer:
    """A transformer of runs of blocks."""
    return Transformer(
        name=name,
        family=FAMILIES.get(name, "llama"),
        hidden_size=hidden,
        vocab_size=vocab,
        runs=tuple(Run(block=block, layers=layers) for block, layers in runs if layers),
        **more,
    )


def dense(rng: Random, layers: int) -> Transformer:
    """Grouped queries, gated feed-forward."""
    hidden = rng.choice((1024, 2048))
    forward = FeedForward(width=hidden * rng.choice((2, 4)))
    block = Block(attention=attention(rng, hidden), feed_forward=forward)
    return model("dense", hidden, rng.choice((8000, 32000, 64000)), [(block, layers)])


def gpt(rng: Random, layers: int) -> Transformer:
    """Multi-head attention, plain feed-forward, biases, learned positions, tied embeddings."""
    hidden = rng.choice((1024, 1536))
    forward = FeedForward(width=4 * hidden, gated=False, bias=True)
    heads = rng.choice((4, 8))
    looks = Attention(heads=heads, kv_heads=heads, head_dim=hidden // heads, qkv_bias=True)
    block = Block(attention=looks, feed_forward=forward, norm="layer")
    tied = rng.random() < 0.5
    return model("gpt", hidden, 50257, [(block, layers)], tied_embeddings=tied, positions=4096)


def routed(rng: Random, hidden: int) -> FeedForward:
    """Two of four experts, with or without a shared one."""
    shared = rng.choice((0, hidden))
    return FeedForward(width=hidden, experts=4, experts_per_token=2, shared_width=shared)


def experts(rng: Random, layers: int) -> Transformer:
    """Every layer a mixture of experts."""
    hidden = rng.choice((1024, 2048))
    block = Block(attention=attention(rng, hidden), feed_forward=routed(rng, hidden))
    return model("experts", hidden, 32000, [(block, layers)])


def mixed(rng: Random, layers: int) -> Transformer:
    """Two kinds: dense layers, then wider ones, or ones of experts, or windows that alternate."""
    hidden = 1024
    looks = attention(rng, hidden)
    plain = Block(attention=looks, feed_forward=FeedForward(width=2 * hidden))
    first = rng.randint(1, layers - 1)
    if rng.random() < 0.4:
        near = Block(attention=looks.model_copy(update={"window": 256}), feed_forward=plain.feed_forward)
        return model("windows", hidden, 32000, [((near, plain)[i % 2], 1) for i in range(layers)])
    wide = FeedForward(width=6 * hidden) if rng.random() < 0.5 else routed(rng, hidden)
    other = Block(attention=looks, feed_forward=wide)
    return model("mixed", hidden, 32000, [(plain, first), (other, layers - first)])


def predicting(rng: Random, layers: int) -> Transformer:
    """A tiny model whose file announces modules that predict one further token, or two."""
    plain = rng.choice((dense, experts, mixed))(rng, layers)
    hidden = plain.hidden_size
    block = plain.runs[-1].block
    depth = rng.choice((1, 2))
    more = Predictor(block=block, depth=depth, other=2 * hidden * hidden + 3 * hidden)
    tied = rng.random() < 0.3
    return plain.model_copy(update={"predictor": more, "tied_embeddings": tied})
