"""Mixers, towers and stacks beyond the plain decoder: what they hold, and what a query meets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shardwise.models import (
    Attention,
    Block,
    FeedForward,
    Mixer,
    Run,
    Transformer,
    count,
    explain_config,
    parse_config,
    predictor_flops_per_token,
    read_config,
    tower_flops_per_token,
    training_flops_per_token,
)
from shardwise.models.counts import attention_span, core_flops

CONFIGS = Path(__file__).parent / "data" / "hf_configs"
HEADS: dict[str, Any] = {"heads": 1, "kv_heads": 1, "head_dim": 8}
PLAIN: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 80,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
VISION: dict[str, Any] = {
    "model_type": "clip_vision_model",
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "image_size": 28,
    "patch_size": 7,
}
T5: dict[str, Any] = {
    "model_type": "t5",
    "vocab_size": 96,
    "d_model": 64,
    "d_ff": 80,
    "num_layers": 3,
    "num_heads": 4,
}
MAMBA: dict[str, Any] = {"model_type": "mamba", "vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 2}


def kinds(model: Transformer) -> list[str]:
    """What mixes the tokens of each layer."""
    mixers = [model.kinds[kind].attention for kind in model.kind_of_layer]
    return [mixer.mixer if isinstance(mixer, Mixer) else "attention" for mixer in mixers]


def met(sequence: int, **mask: Any) -> float:
    """Mean number of keys that a mask lets a query meet, counted one by one."""
    window, chunked, causal = mask.get("window"), mask.get("chunked", False), mask.get("causal", True)

    def sees(query: int, key: int) -> bool:
        near = window is None or (query // window == key // window if chunked else abs(query - key) < window)
        near = near or (not causal and not chunked and window is not None and abs(query - key) <= window)
        return near and (key <= query or not causal)

    return sum(sees(query, key) for query in range(sequence) for key in range(sequence)) / sequence


@pytest.mark.parametrize("sequence", [1, 7, 64, 100])
@pytest.mark.parametrize(
    "mask", [{}, {"window": 16}, {"window": 16, "chunked": True}, {"causal": False}, {"window": 200}]
)
def test_a_query_meets_as_many_keys_as_its_mask_allows(mask: dict[str, Any], sequence: int) -> None:
    """Causal, sliding, chunked, both ways: the formula is the mean over an explicit mask."""
    assert attention_span(Attention(**HEADS, **mask), sequence) == pytest.approx(met(sequence, **mask))


def test_a_window_both_ways_is_two_windows_wide_but_for_the_ends() -> None:
    """ModernBERT: at most w keys before and after; the ends of a long sequence do not count."""
    span = attention_span(Attention(**HEADS, window=16, causal=False), 4096)

    assert span == 33
    assert met(512, window=16, causal=False) == pytest.approx(span, rel=0.02)


def test_sparse_attention_meets_its_chosen_keys_and_scores_all() -> None:
    """DeepSeek's index: the core meets at most top_keys, the scores meet every key before."""
    plain = Attention(**HEADS)
    sparse = Attention(**HEADS, top_keys=16, index_width=4)
    windowed = Attention(**HEADS, window=16)

    assert core_flops(sparse, 64) == core_flops(windowed, 64) + 2 * 4 * 65 / 2
    assert core_flops(sparse, 64) < core_flops(plain, 64)


def test_a_mixer_looks_like_an_attention_without_keys() -> None:
    """What the ledger asks of an attention has an answer, and gives the mixer's own FLOPs."""
    mixer = Mixer(mixer="state_space", heads=4, input_width=40, output_width=24, inner=100, core_flops=640)

    assert (mixer.query_width, mixer.kv_width, mixer.output_width, mixer.kv_heads) == (40, 0, 24, 4)
    assert (mixer.kv_rank, mixer.q_rank, mixer.rope_head_dim, mixer.window) == (None, 0, 0, None)
    assert 2 * (mixer.query_width + mixer.output_width) * attention_span(mixer, 4096) == 640
    assert attention_span(mixer, 8) == attention_span(mixer, 4096)


def test_no_mixer_has_no_width_and_no_cost() -> None:
    """A layer that is a feed-forward alone."""
    none = Mixer(mixer="none")
    block = Block(attention=none, feed_forward=FeedForward(width=80), norms=1)
    model = Transformer(
        name="x", family="x", hidden_size=64, vocab_size=96, runs=(Run(block=block, layers=1),)
    )

    assert (none.query_width, none.output_width, core_flops(none, 64)) == (0, 0, 0)
    assert count(model).layers[0].attention == 0


def test_a_mixer_and_an_attention_are_told_apart_in_json() -> None:
    """By the key `mixer`; both round-trip."""
    model = read_config(CONFIGS / "jamba_1_5_mini.json")
    text = model.model_dump_json()

    assert Transformer.model_validate_json(text) == model
    assert {"mixer" in run["block"]["attention"] for run in json.loads(text)["runs"]} == {True, False}


def test_a_mamba_layer_is_its_projections_its_convolution_and_its_state() -> None:
    """in 2 d, convolution 4 d + d, x (rank + 2 n) d, dt (rank + 1) d, A n d, D d, out d; no feed-forward."""
    model = parse_config(MAMBA, "x")
    width, rank, state = 128, 4, 16
    layer = count(model).layers[0]

    assert layer.attention == (
        64 * 2 * width
        + 5 * width
        + width * (rank + 2 * state)
        + width * (rank + 1)
        + width * (state + 1)
        + width * 64
    )
    assert (layer.dense, layer.replicated) == (0, 64)


@pytest.mark.parametrize(
    ("file", "first"),
    [
        ("jamba_1_5_mini", ["state_space"] * 4 + ["attention"] + ["state_space"] * 3),
        ("nemotron_h_56b", ["state_space", "none"] * 3 + ["state_space", "attention"]),
        ("qwen3_5_35b_a3b", ["delta_rule"] * 3 + ["attention"] + ["delta_rule"] * 3 + ["attention"]),
    ],
)
def test_hybrid_stacks_mix_as_their_files_say(file: str, first: list[str]) -> None:
    """Period and offset, a string, a list."""
    assert kinds(read_config(CONFIGS / f"{file}.json"))[:8] == first


def test_an_encoder_decoder_is_one_stack_whose_second_half_attends_to_the_first() -> None:
    """T5: encoder layers see both ways; decoder layers have a second attention and a third norm."""
    model = parse_config(T5, "x")
    encoder, decoder = model.kinds
    assert isinstance(encoder.attention, Attention) and isinstance(decoder.attention, Attention)
    (cross,) = decoder.beside
    assert isinstance(cross, Attention)

    assert (model.layers, model.encoder_layers, model.kind_of_layer) == (6, 3, (0, 0, 0, 1, 1, 1))
    assert (encoder.attention.causal, decoder.attention.causal, cross.kv) == (False, True, "memory")
    assert count(model).layers[1].total - count(model).layers[0].total == 4 * 64 * 256 + 64


def test_an_encoder_without_head_ends_with_its_last_state() -> None:
    """BertModel has a pooler and no head; a masked language model has a transform and a bias."""
    model = read_config(CONFIGS / "bge_large_bert.json")

    assert (model.head, count(model).head, model.final_norm) == (False, 0, False)
    assert model.other == 2 * 1024 + 1024 * 1024 + 1024


def test_a_tower_is_counted_beside_the_stack_and_not_in_its_flops() -> None:
    """Llava: the same text model with and without its eyes differs by tower and connector alone."""
    text = parse_config(PLAIN, "x")
    model = parse_config({"model_type": "llava", "text_config": PLAIN, "vision_config": VISION}, "x")
    counted, (tower,) = count(model), model.towers

    assert counted.total - count(text).total == counted.towers[0]
    assert counted.embedding - count(text).embedding == counted.towers[0]
    assert tower.connector == 32 * 64 + 64 + 64 * 64 + 64
    assert tower.tokens == 16
    assert training_flops_per_token(model, 64) == training_flops_per_token(text, 64)


def test_a_frozen_tower_costs_its_forward_alone() -> None:
    """A third of the FLOPs of one that is trained, and as many parameters, told apart."""
    model = parse_config({"model_type": "llava", "text_config": PLAIN, "vision_config": VISION}, "x")
    (trained,) = model.towers
    frozen = trained.model_copy(update={"trained": False})
    still = model.model_copy(update={"towers": (frozen,)})

    assert tower_flops_per_token(trained, 16) == 3 * tower_flops_per_token(frozen, 16)
    assert count(still).total == count(model).total
    assert (count(model).frozen, count(still).frozen) == (0, count(model).towers[0])


def test_layers_that_predict_further_tokens_are_apart() -> None:
    """DeepSeek-V3: a layer like the last, a projection of two hidden states, three norms; head shared."""
    model = read_config(CONFIGS / "deepseek_v3.json")
    assert model.predictor is not None
    counted = count(model)
    without = model.model_copy(update={"predictor": None})

    assert counted.predictor == counted.layers[1].total + 2 * 7168 * 7168 + 3 * 7168
    assert (count(without).total, count(without).active) == (counted.total, counted.active)
    assert predictor_flops_per_token(without, 4096) == 0
    assert predictor_flops_per_token(model, 4096) > 6 * 7168 * 129280


def test_gemma_4_has_a_dense_feed_forward_beside_its_experts_and_keys_that_serve_as_values() -> None:
    """Full layers are wider and project no values; the dense feed-forward counts as shared width."""
    model = read_config(CONFIGS / "gemma4_26b_a4b.json")
    sliding, full = model.kinds
    assert isinstance(sliding.attention, Attention) and isinstance(full.attention, Attention)

    assert (sliding.attention.head_dim, sliding.attention.kv, sliding.attention.window) == (256, "own", 1024)
    assert (full.attention.head_dim, full.attention.kv, full.attention.window) == (512, "keys_only", None)
    assert (full.feed_forward.shared_width, full.feed_forward.experts) == (2112, 128)


def test_a_report_names_nested_keys_kinds_of_layers_and_formulas() -> None:
    """Which section gave a number, what only some layers have, and what was computed from what."""
    report = explain_config(CONFIGS / "gemma3_27b.json")

    assert report.used["text.hidden_size"] == ("text_config.hidden_size", 5376)
    assert report.used["text.vocab_size"] == ("default of the class", 262208)
    assert report.used["text.sliding.window"] == ("= window_size", 1024)
    assert report.used["vision.tokens"] == ("= grid * grid", 4096)
    assert "vision_config.model_type" not in report.ignored
    assert "mm_tokens_per_image" in report.ignored


def test_a_report_tells_storage_from_training_precision() -> None:
    """quantization_config changes nothing, and is noted."""
    report = explain_config(CONFIGS / "llama3_1_405b_fp8.json")

    assert "quantization_config" in report.ignored
    assert [note.split()[0] for note in report.transformer.notes] == ["quantization_config"]
