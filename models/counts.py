"""Parameters to the unit, by component, and FLOPs a token."""

from __future__ import annotations

from dataclasses import dataclass

from .transformer import Attention, Block, FeedForward, Transformer


@dataclass(frozen=True)
class LayerCount:
    """Parameters of one layer by how a backend divides them.

    `attention` and `dense` (dense or shared feed-forward) are cut by tensor parallel; `experts` (all
    routed ones together) by expert parallel and expert tensor parallel; `replicated` (norms, router,
    row-parallel biases) by neither. `active` counts what one token meets.
    """

    attention: int
    dense: int
    experts: int
    replicated: int
    active: int

    @property
    def total(self) -> int:
        """All parameters of the layer."""
        return self.attention + self.dense + self.experts + self.replicated


@dataclass(frozen=True)
class ModelCount:
    """Parameters of a whole model by component; `layers` holds one count a kind."""

    embedding: int
    positions: int
    head: int
    final_norm: int
    layers: tuple[LayerCount, ...]
    total: int
    active: int


def _norm(block: Block, width: int) -> int:
    return width if block.norm == "rms" else 2 * width


def _attention(attention: Attention, hidden: int) -> tuple[int, int]:
    """(cut by tensor parallel, replicated) parameters of an attention layer."""
    query, kv, output = attention.query_width, attention.kv_width, attention.output_width
    if attention.kv_rank is not None:
        return _latent(attention, hidden)
    cut = hidden * (query + 2 * kv) + output * hidden
    cut += (query + 2 * kv) if attention.qkv_bias else 0
    replicated = hidden if attention.output_bias else 0
    replicated += {"none": 0, "per_head": 2 * attention.head_dim, "full": query + kv}[attention.qk_norm]
    return cut, replicated


def _latent(attention: Attention, hidden: int) -> tuple[int, int]:
    """Latent attention (DeepSeek-V2 report, section 2.1): down-projections are replicated over ranks."""
    rank = attention.kv_rank or 0
    value = attention.value_head_dim or attention.head_dim
    source = attention.q_rank or hidden
    down = hidden * (rank + attention.rope_head_dim) + rank
    down += hidden * attention.q_rank + attention.q_rank
    up = source * attention.query_width
    up += rank * attention.heads * (attention.head_dim + value) + attention.output_width * hidden
    return up, down


def _feed_forward(kind: FeedForward, hidden: int) -> tuple[int, int, int, int]:
    """(dense, experts, replicated, active) parameters of a feed-forward layer."""

    def one(width: int) -> int:
        return kind.matrices * hidden * width

    inner_bias = (kind.matrices - 1) * kind.width if kind.bias else 0
    outer_bias = hidden if kind.bias else 0
    if not kind.experts:
        return one(kind.width) + inner_bias, 0, outer_bias, one(kind.width) + inner_bias + outer_bias
    expert = one(kind.width) + inner_bias + outer_bias
    shared = one(kind.shared_width)
    router = kind.experts * (hidden + (1 if kind.router_bias else 0)) + (hidden if kind.shared_gate else 0)
    return shared, kind.experts * expert, router, shared + router + kind.experts_per_token * expert


def layer_count(block: Block, hidden: int) -> LayerCount:
    """Parameters of one layer of kind `block` (facts: Llama-3 8B has 218,112,000 a layer)."""
    cut, kept = _attention(block.attention, hidden)
    dense, experts, replicated, active = _feed_forward(block.feed_forward, hidden)
    norms = block.norms * _norm(block, hidden)
    return LayerCount(
        attention=cut,
        dense=dense,
        experts=experts,
        replicated=kept + replicated + norms,
        active=cut + kept + norms + active,
    )


def count(model: Transformer) -> ModelCount:
    """Parameters of `model`, tied embeddings once.

    Equals the published totals to the unit for Llama-3 8B/70B/405B (8,030,261,248; 70,553,706,496;
    405,853,388,800).
    """
    hidden = model.hidden_size
    width = model.embedding_width or hidden
    kinds = tuple(layer_count(block, hidden) for block in model.kinds)
    norm_width = _norm(model.kinds[0], hidden)
    embedding = model.vocab_size * width + (norm_width if model.embedding_norm else 0)
    embedding += 2 * hidden * width if width != hidden else 0
    head = (0 if model.tied_embeddings else model.vocab_size * width) + (
        model.vocab_size if model.head_bias else 0
    )
    final = norm_width if model.final_norm else 0
    positions = model.positions * hidden
    depth = model.kind_of_layer
    total = embedding + positions + head + final + sum(kinds[k].total for k in depth)
    active = embedding + positions + head + final + sum(kinds[k].active for k in depth)
    return ModelCount(embedding, positions, head, final, kinds, total, active)


def attention_span(attention: Attention, sequence: int) -> float:
    """Mean number of keys a query meets under a causal mask, tokens: (s+1)/2, less under a window.

    >>> attention_span(Attention(heads=1, kv_heads=1, head_dim=64), 8191)
    4096.0
    """
    window = min(attention.window or sequence, sequence)
    return (window * (window + 1) / 2 + (sequence - window) * window) / sequence


def training_flops_per_token(model: Transformer, sequence: int) -> float:
    """FLOPs of forward and backward for one token, no recompute: 6 (N_active - embedding) + attention.

    Attention adds 6 (q + o) flops per key met and layer (forward 2, backward 4 a multiply-add pair of
    scores and values). Reproduces NVIDIA's reported counts: Llama-3 8B at 8192 tokens 51.5e9.
    """
    counted = count(model)
    matrices = counted.active - counted.embedding - counted.positions
    if model.tied_embeddings:
        matrices += model.vocab_size * (model.embedding_width or model.hidden_size)
    spans = sum(
        6
        * (block.attention.query_width + block.attention.output_width)
        * attention_span(block.attention, sequence)
        * run.layers
        for run in model.runs
        for block in (run.block,)
    )
    return 6.0 * matrices + spans
