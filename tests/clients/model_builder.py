"""Models of transformers on the meta device, whole and small, for the tests that count them."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import cache
from typing import Any

from shardwise.models.families import families

SMALL: dict[str, Any] = {
    # what a key is set to, so that a model is built in milliseconds
    **dict.fromkeys(("vocab_size", "vocab_size_per_layer_input"), 96),
    **dict.fromkeys(("hidden_size", "n_embd", "d_model", "dim", "embed_dim", "projection_hidden_size"), 64),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "ffn_hidden_size", "d_ff", "hidden_dim"), 80),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim", "intermediate_size_mlp"), 96),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers", "depth"), 4),
    **dict.fromkeys(("encoder_layers", "decoder_layers", "num_decoder_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads"), 4),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(
        ("num_key_value_heads", "num_kv_heads", "linear_num_key_heads", "mamba_n_groups", "n_groups"), 2
    ),
    **dict.fromkeys(("head_dim", "d_kv"), 16),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "max_seq_len", "max_source_positions"), 32),
    **dict.fromkeys(("moe_intermediate_size", "projector_input_dim"), 24),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"), 6),
    **dict.fromkeys(("num_experts_per_tok", "num_experts_per_token", "moe_k", "moe_topk"), 2),
    **dict.fromkeys(("kv_lora_rank", "qk_nope_head_dim", "sliding_window", "state_size", "mamba_d_state"), 8),
    **dict.fromkeys(
        ("linear_key_head_dim", "index_head_dim", "laurel_rank", "hidden_size_per_layer_input"), 8
    ),
    **dict.fromkeys(("ssm_state_size", "mamba_head_dim", "linear_head_dim", "qk_rope_head_dim"), 8),
    **dict.fromkeys(("linear_num_value_heads", "linear_num_heads", "mamba_n_heads", "mamba_num_heads"), 4),
    **dict.fromkeys(("q_lora_rank", "linear_value_head_dim"), 12),
    **dict.fromkeys(("v_head_dim", "time_step_rank", "mamba_dt_rank"), 6),
    **dict.fromkeys(("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size"), 40),
    **dict.fromkeys(("shared_intermediate_size", "out_hidden_size", "projector_output_dim"), 20),
    **dict.fromkeys(
        ("first_k_dense_replace", "n_group", "topk_group", "num_expert_group", "num_dense_layers"), 1
    ),
    "word_embed_proj_dim": 32,
    "index_n_heads": 2,
    "num_kv_shared_layers": 1,
    "mamba_d_ssm": 32,
    "lru_width": 48,
    "block_multiple_of": 16,
    "image_size": 28,
    "patch_size": 7,
    "num_global_layers": 2,
    "vision_output_dim": 96,
    "num_position_embeddings": 50,
    "position_embedding_size": 30,
    "fullatt_block_indexes": [1],
    "deepstack_visual_indexes": [0, 2],
    "cross_attention_layers": [1, 3],
    "full_attn_idxs": [1, 3],
}
BY_FAMILY: dict[str, dict[str, Any]] = {
    # what one family needs beside, where its defaults do not fit a small model
    "gpt_neo": {"attention_types": [[["global", "local"], 2]]},
    "mamba": {"intermediate_size": 128},
    "falcon_mamba": {"intermediate_size": 128},
    "mamba2": {"num_heads": 8, "head_dim": 16, "n_groups": 2},
    "bamba": {"mamba_d_head": 32},
    "granitemoehybrid": {"mamba_d_head": 32},
    "falcon_h1": {"mamba_d_head": 8},
    "lfm2_moe": {"layer_types": ["conv", "full_attention", "conv", "conv"]},
    "nemotron_h": {"layers_block_type": ["linear_attention", "moe", "full_attention", "mlp"]},
    "jamba": {"num_hidden_layers": 9},
    "kimi_linear": {"num_hidden_layers": 6},
    "gemma3n_text": {"num_hidden_layers": 10, "activation_sparsity_pattern": [0.0] * 10},
    "deepseek_v2": {"num_experts_per_tok": 2},
    "dots1": {"n_routed_experts": 6, "num_experts_per_tok": 2, "n_shared_experts": 1, "head_dim": 16},
    "hunyuan_v1_dense": {"head_dim": 16},
    "hunyuan_v1_moe": {"head_dim": 16, "num_experts": 6, "moe_topk": 2},
    "minimax": {"head_dim": 16},
    "ministral": {"head_dim": 16},
    "mistral4": {"qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "head_dim": 16},
    "glm4v_moe_text": {"head_dim": 16},
    "nemotron": {"num_key_value_heads": 2},
    "gemma4_text": {"num_hidden_layers": 12, "num_kv_shared_layers": 6},
    "dbrx": {
        "attn_config": {"kv_n_heads": 2, "rope_theta": 1e4},
        "ffn_config": {"moe_num_experts": 6, "moe_top_k": 2, "ffn_hidden_size": 24},
    },
    "idefics3": {"vision_config": {"num_attention_heads": 12}},
    "deberta-v2": {
        "relative_attention": True,
        "share_att_key": True,
        "position_buckets": 5,
        "max_relative_positions": -1,
    },
    "esm": {"vocab_size": 96},
    "laguna": {"num_attention_heads_per_layer": [4, 4, 4, 4]},
    "gemma4": {"vision_config": {}, "audio_config": {}},
}
SECTIONS = ("text_config", "vision_config", "audio_config")
_LISTS = (
    "rope_parameters", "per_layer_config", "layer_types", "mlp_layer_types", "layers_block_type",
    "no_rope_layers", "moe_layers", "attention_layers", "indexer_types", "transformers_version",
)  # fmt: skip
_HEADLESS = {
    "bert",
    "roberta",
    "xlm-roberta",
    "camembert",
    "mpnet",
    "distilbert",
    "ernie",
    "megatron-bert",
    "deberta-v2",
}


FAMILIES = [
    name
    for name in families().names
    if families().family(name).role == "model"
    and (name == "exaone" or families().family(name).source.startswith("transformers"))
]
"""Models of the tables that transformers has, or that are kept as such."""
BY_PUBLICATION = {
    # transformers gives rows to experts that compute nothing; a checkpoint has none, and neither does the
    # published count (LongCat-Flash: 560e9)
    "longcat_flash",
}


@cache
def known() -> frozenset[str]:
    """Families of the tables of which transformers builds models by themselves."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    named = (name for name in families().names if families().family(name).role == "model")
    return frozenset(name for name in named if name in CONFIG_MAPPING and _usual(CONFIG_MAPPING[name]))


def config_of(config: dict[str, Any]) -> Any:
    """The class of transformers for the keys of a config.json."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    family = families().of_model_type(config["model_type"]) or config["model_type"]
    kind = config["model_type"] if config["model_type"] in CONFIG_MAPPING else family
    dropped = ("model_type", "architectures", "quantization_config", "auto_map")
    keys = {key: copy.deepcopy(value) for key, value in config.items() if key not in dropped}
    return CONFIG_MAPPING[kind](**keys)


def built(config: dict[str, Any]) -> Any:
    """The model on the meta device, shapes alone, nothing drawn into them.

    Of the class that the config names, else the usual one.
    """
    import torch
    import transformers
    from transformers.initialization import no_init_weights

    real = config_of(config)
    named = (config.get("architectures") or [""])[0]
    with torch.device("meta"), no_init_weights():
        if hasattr(transformers, named):
            model = getattr(transformers, named)._from_config(real)
        else:
            model = _usual(type(real)).from_config(real)
    model.tie_weights()
    return model


def _usual(kind: Any) -> Any:
    """The auto class that builds what a class of configs is mostly used for, or None."""
    import transformers

    names = ["AutoModelForImageTextToText", "AutoModelForSpeechSeq2Seq", "AutoModelForSeq2SeqLM"]
    names += ["AutoModelForCausalLM", "AutoModelForMaskedLM"]
    if kind.model_type in _HEADLESS:
        names = ["AutoModel"]
    autos = [getattr(transformers, name) for name in names]
    return next((auto for auto in autos if kind in auto._model_mapping), None)


def parameters(module: Any) -> int:
    """Parameters of a module, shared ones once."""
    return sum(parameter.numel() for parameter in module.parameters())


def real_total(config: dict[str, Any]) -> int | None:
    """Parameters of the model that transformers builds, or None where it builds none."""
    try:
        model = built(config)
    except Exception:
        return None
    return parameters(model)


def defaults(family: str, given: dict[str, Any] | None = None) -> dict[str, Any]:
    """The config.json that the class of `family` writes of itself."""
    keys = config_of({"model_type": family, **(given or {})}).to_dict()
    return {key: value for key, value in keys.items() if key != "transformers_version"}


def standing_alone(kind: str) -> dict[str, Any] | None:
    """The config.json that the class of a model_type writes of itself, or None where it cannot."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    try:
        keys: dict[str, Any] = CONFIG_MAPPING[kind]().to_dict()
    except Exception:
        return None
    return {key: value for key, value in keys.items() if key != "transformers_version"}


def small(family: str) -> dict[str, Any]:
    """The defaults of `family` with small sizes, nested sections too."""
    own = BY_FAMILY.get(family, {})
    keys = _small(defaults(family, {key: own[key] for key in SECTIONS if key in own}))
    keys |= {key: value for key, value in own.items() if key not in SECTIONS}
    text = keys.get("text_config")
    if text:
        keys["text_config"] = {**small(text["model_type"]), **keys["text_config"]}
        keys["text_config"] |= BY_FAMILY.get(text["model_type"], {})
    return keys


def _small(keys: dict[str, Any]) -> dict[str, Any]:
    from transformers import PretrainedConfig

    common = set(PretrainedConfig().to_dict()) - {"tie_word_embeddings", "model_type"}
    found: dict[str, Any] = {}
    for key, value in keys.items():
        if key in SECTIONS and isinstance(value, dict):
            found[key] = _small(value)
        elif key not in common and key not in _LISTS and not key.endswith("_token_id") and value is not None:
            found[key] = SMALL.get(key, value)
    return {**found, "pad_token_id": 0}


def changes(keys: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, dict[str, Any]]]:
    """(name, config) for every key left out, turned over, doubled or halved, nested ones too."""
    for key, value in keys.items():
        if key in ("model_type", "pad_token_id"):
            continue
        name = ".".join((*path, key))
        if isinstance(value, dict):
            if key in SECTIONS:
                for inner, changed in changes(value, (*path, key)):
                    yield inner, {**keys, key: changed}
            continue
        yield f"{name} left out", {other: item for other, item in keys.items() if other != key}
        if isinstance(value, bool):
            yield f"{name} {not value}", {**keys, key: not value}
        elif isinstance(value, int):
            yield f"{name} doubled", {**keys, key: 2 * value}
            yield f"{name} halved", {**keys, key: value // 2 or 1}
