"""FLOPs of a forward pass equal those that torch counts on the meta device."""

from __future__ import annotations

from typing import Any

import pytest
from clients.model_builder import built

from shardwise.models import (
    Attention,
    Block,
    Mixer,
    Run,
    Tower,
    Transformer,
    parse_config,
    predictor_flops_per_token,
    tower_flops_per_token,
    training_flops_per_token,
)

pytestmark = pytest.mark.clients

TOKENS = 512
PLAIN: dict[str, Any] = {
    "vocab_size": 2048,
    "hidden_size": 512,
    "intermediate_size": 1280,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "pad_token_id": 0,
}
LATENT: dict[str, Any] = PLAIN | {
    "num_key_value_heads": 8,
    "q_lora_rank": 128,
    "kv_lora_rank": 64,
    "qk_nope_head_dim": 48,
    "qk_rope_head_dim": 16,
    "v_head_dim": 40,
}
DELTA: dict[str, Any] = {
    "linear_num_key_heads": 4,
    "linear_num_value_heads": 8,
    "linear_key_head_dim": 32,
    "linear_value_head_dim": 48,
}
STATE: dict[str, Any] = {"num_heads": 16, "head_dim": 64, "state_size": 64, "n_groups": 2, "chunk_size": 64}
FAMILIES: dict[str, dict[str, Any]] = {
    "gpt2": {"vocab_size": 2048, "n_embd": 512, "n_layer": 4, "n_head": 8, "n_positions": 512},
    "llama": PLAIN,
    "qwen3": PLAIN | {"head_dim": 96},
    "gemma3_text": PLAIN | {"head_dim": 96, "sliding_window": 64, "num_hidden_layers": 7},
    "cohere2": PLAIN | {"sliding_window": 64},
    "falcon": {"vocab_size": 2048, "hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8},
    "minicpm3": LATENT,
    "deepseek_v3": LATENT
    | {
        "moe_intermediate_size": 192,
        "n_routed_experts": 8,
        "num_experts_per_tok": 2,
        "first_k_dense_replace": 1,
        "n_group": 1,
        "topk_group": 1,
    },
    "mixtral": PLAIN | {"num_local_experts": 8},
    "gpt_oss": PLAIN
    | {"head_dim": 96, "num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": 64},
    "qwen2_moe": PLAIN
    | {
        "moe_intermediate_size": 192,
        "shared_expert_intermediate_size": 640,
        "num_experts": 8,
        "num_experts_per_tok": 2,
    },
    "qwen3_5_text": PLAIN | DELTA | {"head_dim": 96},
    "mamba2": {"vocab_size": 2048, "hidden_size": 512, "num_hidden_layers": 4, "pad_token_id": 0} | STATE,
    "lfm2": PLAIN | {"full_attn_idxs": [1, 3]},
    "gemma2": PLAIN | {"head_dim": 64, "sliding_window": 64},
    "qwen3_moe": PLAIN
    | {"head_dim": 64, "moe_intermediate_size": 192, "num_experts": 8, "num_experts_per_tok": 2},
    "falcon_h1": PLAIN
    | {"mamba_d_ssm": 512, "mamba_n_heads": 8, "mamba_d_head": 64, "mamba_n_groups": 1}
    | {"mamba_d_state": 64, "mamba_chunk_size": 64},
    "minimax": PLAIN | {"head_dim": 64, "num_local_experts": 4},
    "bart": {
        "vocab_size": 2048,
        "d_model": 512,
        "encoder_layers": 3,
        "decoder_layers": 3,
        "encoder_attention_heads": 8,
        "decoder_attention_heads": 8,
        "max_position_embeddings": 1024,
        "encoder_ffn_dim": 1280,
        "decoder_ffn_dim": 1280,
    },
    "bert": {key: value for key, value in PLAIN.items() if key != "num_key_value_heads"},
    "t5": {"vocab_size": 2048, "d_model": 512, "d_ff": 1280, "num_layers": 4, "num_heads": 8, "d_kv": 64},
}


def squares(model: Transformer) -> Transformer:
    """The model as torch counts it: every query meets every key, whatever the mask."""

    def open_(mixer: Attention | Mixer) -> Attention | Mixer:
        free = {"causal": False, "window": None, "chunked": False}
        return mixer.model_copy(update=free) if isinstance(mixer, Attention) else mixer

    def opened(block: Block) -> Block:
        beside = tuple(open_(mixer) for mixer in block.beside)
        return block.model_copy(update={"attention": open_(block.attention), "beside": beside})

    runs = tuple(Run(block=opened(run.block), layers=run.layers) for run in model.runs)
    return model.model_copy(update={"runs": runs})


def counted(model: Any, **inputs: Any) -> int:
    """FLOPs of one forward pass on the meta device."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(**inputs)
    return int(counter.get_total_flops())


@pytest.mark.parametrize("family", FAMILIES)
def test_forward_flops_are_those_that_torch_counts(family: str) -> None:
    """Within one percent, a third of training; attention as the full squares that eager products are."""
    import torch

    config = FAMILIES[family] | {"model_type": family}
    model = built(config)
    model.set_attn_implementation("eager")
    if getattr(model.config, "_experts_implementation", None) is not None:
        model.set_experts_implementation("batched_mm")
    tokens = torch.zeros((1, TOKENS), dtype=torch.long, device="meta")
    inputs: dict[str, Any] = {"input_ids": tokens}
    if family not in ("mamba2", "lfm2", "qwen3_5_text", "falcon_h1", "minimax", "bart"):
        inputs["attention_mask"] = torch.zeros((1, 1, TOKENS, TOKENS), device="meta")
    if family in ("t5", "bart"):
        inputs["decoder_input_ids"] = tokens
    mine = training_flops_per_token(squares(parse_config(config, "flops")), TOKENS) / 3

    assert mine * TOKENS == pytest.approx(counted(model, **inputs), rel=0.01)


def test_flops_of_a_further_token_are_those_of_its_layer_projection_and_head() -> None:
    """DeepSeek-V3's predictor is one layer of the stack behind a projection of two hidden states.

    transformers builds none, so torch counts a model of that one layer; the projection is 2 h x h.
    """
    import torch

    config = FAMILIES["deepseek_v3"] | {"model_type": "deepseek_v3", "num_nextn_predict_layers": 1}
    one = built(config | {"num_hidden_layers": 1, "first_k_dense_replace": 0})
    one.set_attn_implementation("eager")
    one.set_experts_implementation("batched_mm")
    tokens = torch.zeros((1, TOKENS), dtype=torch.long, device="meta")
    mask = torch.zeros((1, 1, TOKENS, TOKENS), device="meta")
    model = parse_config(config, "flops")
    assert model.predictor is not None
    block = squares(model.model_copy(update={"runs": (Run(block=model.predictor.block, layers=1),)}))
    opened = model.predictor.model_copy(update={"block": block.runs[0].block})
    mine = predictor_flops_per_token(model.model_copy(update={"predictor": opened}), TOKENS) / 3
    projection = 2 * 2 * 512 * 512 * TOKENS

    assert mine * TOKENS == pytest.approx(
        counted(one, input_ids=tokens, attention_mask=mask) + projection, rel=0.01
    )


@pytest.mark.parametrize("kind", ["siglip_vision_model", "clip_vision_model", "pixtral"])
def test_flops_of_a_vision_tower_are_those_that_torch_counts(kind: str) -> None:
    """Within one percent: layers of the tower over all patches of an image, the patch embedding left out."""
    import torch
    import transformers

    vision = {"model_type": kind, "hidden_size": 512, "intermediate_size": 1280, "num_hidden_layers": 24}
    vision |= {"num_attention_heads": 8, "image_size": 224, "patch_size": 14}
    vision |= {"vision_use_head": False} if kind == "siglip_vision_model" else {}
    model = parse_config({"model_type": "llava", "text_config": PLAIN, "vision_config": vision}, "flops")
    tower = model.towers[0].model_copy(update={"connector": 0})
    real = transformers.AutoConfig.for_model(**vision)
    with torch.device("meta"):
        built_tower = transformers.AutoModel.from_config(real, attn_implementation="eager")
    images: dict[str, Any] = {"pixel_values": torch.zeros((1, 3, 224, 224), device="meta")}
    if kind == "pixtral":
        images["image_sizes"] = [(224, 224)]
    assert isinstance(tower, Tower) and tower.tokens
    mine = tower_flops_per_token(tower, tower.tokens) / 3

    assert mine * tower.tokens == pytest.approx(counted(built_tower, **images), rel=0.01)
