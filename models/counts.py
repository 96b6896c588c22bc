"""FLOPs a token, from the parameters that a token meets and the keys that a query meets."""

from __future__ import annotations

from .mixers import Attention, Mixer
from .parameters import LayerCount, ModelCount, count, layer_count, tower_count
from .transformer import Block, Run, Tower, Transformer

__all__ = [
    "LayerCount",
    "ModelCount",
    "attention_span",
    "count",
    "layer_count",
    "predictor_flops_per_token",
    "tower_flops_per_token",
    "training_flops_per_token",
]


def attention_span(attention: Attention | Mixer, sequence: int) -> float:
    """Mean number of keys a query meets, tokens: (s+1)/2 under a causal mask, less under a window.

    Without a causal mask all s, under a window w at most 2 w + 1 (both sides). A chunked window is a
    causal mask inside each chunk. Of a mixer without keys it is the number that gives its core FLOPs.

    >>> attention_span(Attention(heads=1, kv_heads=1, head_dim=64), 8191)
    4096.0
    """
    if isinstance(attention, Mixer):
        width = attention.input_width + attention.output_width
        return attention.core_flops / (2 * width) if width else 0.0
    window = min(attention.window or sequence, attention.top_keys or sequence, sequence)
    if attention.chunked and attention.window:
        if not attention.causal:
            return float(window)
        whole, rest = divmod(sequence, window)
        return (whole * window * (window + 1) / 2 + rest * (rest + 1) / 2) / sequence
    if not attention.causal:
        return float(min(2 * window + 1, sequence)) if attention.window else float(sequence)
    return (window * (window + 1) / 2 + (sequence - window) * window) / sequence


def core_flops(mixer: Attention | Mixer, sequence: int) -> float:
    """Forward FLOPs a token beside those of parameters: scores and values, or a recurrence.

    2 (q + o) a key met; DeepSeek's sparse attention adds 2 index_width for every key before its choice.
    """
    found = 2.0 * (mixer.query_width + mixer.output_width) * attention_span(mixer, sequence)
    if isinstance(mixer, Attention) and mixer.index_width:
        found += 2.0 * mixer.index_width * (sequence + 1) / 2
    return found


def _cores(runs: tuple[Run, ...], sequence: int) -> float:
    return sum(_core(run.block, sequence) * run.layers for run in runs)


def _core(block: Block, sequence: int) -> float:
    return sum(core_flops(mixer, sequence) for mixer in (block.attention, *block.beside))


def training_flops_per_token(model: Transformer, sequence: int) -> float:
    """FLOPs of forward and backward for one token, no recompute: 6 (N_active - embedding) + attention.

    Attention adds 6 (q + o) flops per key met and layer (forward 2, backward 4 a multiply-add pair of
    scores and values). Reproduces NVIDIA's reported counts: Llama-3 8B at 8192 tokens 51.5e9. Towers and
    predictors that are not trained are apart (below); trained ones count with their passes through the head,
    as in Megatron-LM's `num_floating_point_operations`. Every layer of an encoder-decoder sees the token.
    """
    counted = count(model)
    matrices = counted.active - counted.embedding - counted.positions
    if model.tied_embeddings and model.head:
        matrices += model.vocab_size * (model.embedding_width or model.hidden_size)
    matrices += model.mtp_layers * model.vocab_size * model.hidden_size
    return 6.0 * matrices + 3.0 * _cores(model.stack, sequence)


def tower_flops_per_token(tower: Tower, sequence: int) -> float:
    """FLOPs of forward and backward (forward alone if frozen) for one patch among `sequence` of a tower.

    Layers and connector; patch embedding and merging, around one percent of a tower, are left out.
    """
    passes = 3.0 if tower.trained else 1.0
    matrices = tower_count(tower) - tower.other
    return passes * (2.0 * matrices + _cores(tower.runs, sequence))


def predictor_flops_per_token(model: Transformer, sequence: int) -> float:
    """FLOPs of forward and backward for one token in predictors that are not trained, each with the head."""
    if model.predictor is None:
        return 0.0
    block = model.predictor.block
    matrices = layer_count(block, model.hidden_size).active + model.predictor.other
    matrices += model.vocab_size * model.hidden_size
    return (model.predictor.depth - model.mtp_layers) * (6.0 * matrices + 3.0 * _core(block, sequence))
