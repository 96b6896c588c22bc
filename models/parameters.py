"""Parameters to the unit, by component, and FLOPs a token."""

from __future__ import annotations

from functools import lru_cache

from ..inputs.record import dataclass
from .mixers import Attention, Mixer
from .transformer import Block, FeedForward, Predictor, Tower, Transformer


@dataclass(frozen=True)
class LayerCount:
    """Parameters of one layer by how a backend divides them.

    `attention` (every mixer of the layer, and the projection of a module that predicts a further token) and
    `dense` (dense or shared feed-forward) are cut by tensor parallel; `experts` (all routed ones together) by
    expert parallel and expert tensor parallel; `replicated` (norms, router, row-parallel biases) by neither.
    `active` counts what one token meets.
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
    """Parameters of a whole model by component; `layers` holds one count a kind.

    The components add up to `total`. `embedding` holds all that stands before the first layer but the
    position vectors: token vectors with their norm and projections, and of it `towers` (one number a
    tower, connector included) and `other` (`Transformer.other`). The ledger so keeps towers whole on
    the first stage. `predictor` are modules that are not trained: no part of `total` or `active`. `frozen`
    are parameters of towers that are not trained, part of `total`.
    """

    embedding: int
    positions: int
    head: int
    final_norm: int
    layers: tuple[LayerCount, ...]
    total: int
    active: int
    towers: tuple[int, ...] = ()
    other: int = 0
    predictor: int = 0
    frozen: int = 0


def _norm(block: Block, width: int) -> int:
    return {"rms": 1, "scale": 1, "layer": 2, "none": 0}[block.norm] * width


def _attention(attention: Attention, hidden: int) -> tuple[int, int]:
    """(cut by tensor parallel, replicated) parameters of an attention layer."""
    cut, kept = (_latent if attention.kv_rank is not None else _grouped)(attention, hidden)
    cut += attention.gate_width * hidden + (attention.heads if attention.sinks else 0)
    kept += hidden if attention.output_bias else 0
    return cut, kept + attention.other


def _grouped(attention: Attention, hidden: int) -> tuple[int, int]:
    """Grouped-query attention: queries, keys, values and output cut by heads."""
    query, kv, output = attention.query_width, attention.kv_width, attention.output_width
    value = attention.kv_heads * (attention.value_head_dim or attention.head_dim)
    keys, source = {
        "own": (kv + value, hidden),
        "keys_only": (kv, hidden),
        "borrowed": (0, hidden),
        "memory": (kv + value, attention.memory_width or hidden),
    }[attention.kv]
    cut = hidden * query + source * keys + output * hidden
    cut += (query + keys) if attention.qkv_bias else 0
    normed = {"none": 0, "per_head": attention.head_dim, "full": 1}[attention.qk_norm]
    wide = (query, kv) if attention.qk_norm == "full" else (1, 1)
    return cut, normed * (wide[0] + (0 if attention.kv == "borrowed" else wide[1]))


def _latent(attention: Attention, hidden: int) -> tuple[int, int]:
    """Latent attention (DeepSeek-V2 report, section 2.1): down-projections are replicated over ranks."""
    rank = attention.kv_rank or 0
    value = attention.value_head_dim or attention.head_dim
    source = attention.q_rank or hidden
    down = hidden * (rank + attention.rope_head_dim) + rank
    down += hidden * attention.q_rank + attention.q_rank
    down += (rank + attention.rope_head_dim + attention.q_rank) if attention.qkv_bias else 0
    up = source * attention.query_width
    up += rank * attention.heads * (attention.head_dim + value) + attention.output_width * hidden
    return up, down


def _mixed(mixer: Attention | Mixer, hidden: int) -> tuple[int, int]:
    """(cut, replicated) parameters of any mixer."""
    if isinstance(mixer, Attention):
        return _attention(mixer, hidden)
    return hidden * (mixer.input_width + mixer.output_width) + mixer.inner, mixer.other


def _feed_forward(kind: FeedForward, hidden: int) -> tuple[int, int, int, int]:
    """(dense, experts, replicated, active) parameters of a feed-forward layer."""
    space = kind.latent_width or hidden
    inner_bias = (kind.matrices - 1) * kind.width if kind.bias else 0
    outer_bias = space if kind.bias and kind.width else 0
    one = kind.matrices * space * kind.width + inner_bias
    if not kind.experts:
        kept = outer_bias + kind.other
        return one, 0, kept, one + kept
    expert = one + outer_bias
    shared = kind.matrices * hidden * kind.shared_width
    router = kind.experts * (hidden + (1 if kind.router_bias else 0)) + (hidden if kind.shared_gate else 0)
    router += kind.other + (2 * hidden * space if kind.latent_width else 0)
    return shared, kind.experts * expert, router, shared + router + kind.experts_per_token * expert


def layer_count(block: Block, hidden: int) -> LayerCount:
    """Parameters of one layer of kind `block` (facts: Llama-3 8B has 218,112,000 a layer)."""
    mixers = [_mixed(mixer, hidden) for mixer in (block.attention, *block.beside)]
    cut, kept = (sum(part) for part in zip(*mixers, strict=True))
    dense, experts, replicated, active = _feed_forward(block.feed_forward, hidden)
    norms = block.norms * _norm(block, hidden) + block.other
    cut += 2 * hidden * hidden if block.joins else 0
    return LayerCount(
        attention=cut,
        dense=dense,
        experts=experts,
        replicated=kept + replicated + norms,
        active=cut + kept + norms + active,
    )


def tower_count(tower: Tower) -> int:
    """Parameters of a tower, its connector included."""
    layers = sum(layer_count(run.block, tower.hidden_size).total * run.layers for run in tower.runs)
    return layers + tower.other + tower.connector


def predictor_count(predictor: Predictor, hidden: int, trained: int = 0) -> int:
    """Parameters of the modules but `trained` that predict further tokens, without embedding and head."""
    return (predictor.depth - trained) * (layer_count(predictor.block, hidden).total + predictor.other)


@lru_cache(maxsize=256)
def count(model: Transformer) -> ModelCount:
    """Parameters of `model`, tied embeddings once.

    Equals the published totals to the unit for Llama-3 8B/70B/405B (8,030,261,248; 70,553,706,496;
    405,853,388,800).
    """
    hidden = model.hidden_size
    width = model.embedding_width or hidden
    kinds = tuple(layer_count(block, hidden) for block in model.kinds)
    norm_width = _norm(model.kinds[0], hidden)
    towers = tuple(tower_count(tower) for tower in model.towers)
    embedding = model.vocab_size * width + (norm_width if model.embedding_norm else 0)
    embedding += 2 * hidden * width if width != hidden else 0
    embedding += sum(towers) + model.other
    separate = model.head and not model.tied_embeddings
    head = (model.vocab_size * width if separate else 0) + (model.vocab_size if model.head_bias else 0)
    final = norm_width if model.final_norm else 0
    positions = model.positions * hidden
    depth = model.kind_of_layer
    ends = embedding + positions + head + final
    return ModelCount(
        embedding=embedding,
        positions=positions,
        head=head,
        final_norm=final,
        layers=kinds,
        total=ends + sum(kinds[k].total for k in depth),
        active=ends + sum(kinds[k].active for k in depth),
        towers=towers,
        other=model.other,
        predictor=predictor_count(model.predictor, hidden, model.mtp_layers) if model.predictor else 0,
        frozen=sum(size for size, tower in zip(towers, model.towers, strict=True) if not tower.trained),
    )
