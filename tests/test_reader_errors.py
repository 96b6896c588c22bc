"""What the reader refuses, and how: one error with key, value, place, reason and what would be legal."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardwise.inputs import InputError
from shardwise.models import Transformer, count, parse_config, read_config
from shardwise.models.families import families

CONFIGS = Path(__file__).parent / "data" / "hf_configs"
ROWS = list(csv.DictReader((CONFIGS / "index.csv").read_text(encoding="utf-8").splitlines()))

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "vocab_size": 100,
}
MOE: dict[str, Any] = LLAMA | {
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "head_dim": 16,
    "moe_intermediate_size": 32,
    "num_experts": 8,
    "num_experts_per_tok": 2,
}
GPT2: dict[str, Any] = {"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 100}
GEMMA2: dict[str, Any] = LLAMA | {"architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2"}


def refusal(config: dict[str, Any]) -> InputError:
    """The one error that `config` gives."""
    with pytest.raises(InputError) as caught:
        parse_config(config, "some/config.json")
    return caught.value


def test_a_family_without_a_table_is_refused_by_name(tmp_path: Path) -> None:
    """The refusal names the family, its line, keys that were met, and families that can be read."""
    keys: dict[str, Any] = {"model_type": "rwkv", "architectures": ["RwkvForCausalLM"]}
    keys |= {"attention_hidden_size": 64, "vocab_size": 9}
    (tmp_path / "config.json").write_text(json.dumps(keys, indent=1), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_config(tmp_path)
    error = caught.value

    assert (error.code, error.field, error.value) == ("unknown-family", "model_type", "rwkv")
    assert error.origin == f"{tmp_path / 'config.json'}:2"
    assert "attention_hidden_size, vocab_size" in error.reason
    assert error.legal
    assert set(error.legal) <= set(families().model_types)


def test_a_bare_infinity_stops_only_the_key_that_counts(tmp_path: Path) -> None:
    """Infinity is no JSON: let pass under a key that changes nothing, refused under one that does."""
    file = tmp_path / "config.json"
    file.write_text(json.dumps(LLAMA | {"time_step_limit": [0.0, float("inf")]}), encoding="utf-8")
    assert read_config(file).layers == 4

    file.write_text(json.dumps(LLAMA | {"hidden_size": float("nan")}), encoding="utf-8")
    with pytest.raises(InputError, match=r"hidden_size = NaN \(from .*\): is not a finite number"):
        read_config(file)


def test_the_most_telling_keys_of_an_unknown_family_come_first() -> None:
    """Nested configs, then keys no family spells, before those that every family has."""
    error = refusal(
        LLAMA | {"model_type": "new", "use_cache": True, "kv_lora_rank": 8, "text_config": {"a": 1}}
    )

    assert "the file holds text_config, kv_lora_rank, hidden_size" in error.reason


MUTATIONS: list[tuple[str, dict[str, Any], dict[str, Any], str, str]] = [
    # name, config, change (... takes the key out), field of the error, words of its reason
    ("hidden size missing", LLAMA, {"hidden_size": ...}, "hidden_size", "must give it"),
    ("layers missing", LLAMA, {"num_hidden_layers": ...}, "num_hidden_layers", "must give it"),
    ("vocabulary missing", LLAMA, {"vocab_size": ...}, "vocab_size", "must give it"),
    ("width missing", LLAMA, {"intermediate_size": ...}, "intermediate_size", "must give it"),
    ("gpt2 width missing", GPT2, {"n_embd": ...}, "n_embd", "must give it"),
    ("experts missing", MOE, {"num_experts": ...}, "num_experts", "must give it"),
    ("hidden size null", LLAMA, {"hidden_size": None}, "hidden_size", "whole number"),
    ("hidden size text", LLAMA, {"hidden_size": "64"}, "hidden_size", "whole number"),
    ("hidden size float", LLAMA, {"hidden_size": 64.0}, "hidden_size", "whole number"),
    ("hidden size true", LLAMA, {"hidden_size": True}, "hidden_size", "whole number"),
    ("hidden size list", LLAMA, {"hidden_size": [64]}, "hidden_size", "whole number"),
    ("hidden size zero", LLAMA, {"hidden_size": 0}, "hidden_size", "at least 1"),
    ("hidden size negative", LLAMA, {"hidden_size": -64}, "hidden_size", "at least 1"),
    ("hidden size huge", LLAMA, {"hidden_size": 10**400}, "hidden_size", "at most 1048576"),
    ("layers huge", LLAMA, {"num_hidden_layers": 10**6}, "num_hidden_layers", "at most 4096"),
    ("vocabulary zero", LLAMA, {"vocab_size": 0}, "vocab_size", "at least 1"),
    ("heads do not divide", LLAMA, {"num_attention_heads": 7}, "num_attention_heads", "no head_dim is given"),
    ("gpt2 heads do not divide", GPT2, {"n_head": 7}, "n_head", "does not divide n_embd = 64"),
    ("kv heads exceed heads", LLAMA, {"num_key_value_heads": 16}, "num_key_value_heads", "do not divide"),
    ("kv heads do not divide", LLAMA, {"num_key_value_heads": 3}, "num_key_value_heads", "do not divide"),
    ("head_dim zero", LLAMA, {"head_dim": 0}, "head_dim", "at least 1"),
    ("tied as text", LLAMA, {"tie_word_embeddings": "yes"}, "tie_word_embeddings", "true or false"),
    ("bias as number", LLAMA, {"attention_bias": 1}, "attention_bias", "true or false"),
    ("positions negative", GPT2, {"n_positions": -1}, "n_positions", "at least 1"),
    (
        "more chosen than experts",
        MOE,
        {"num_experts_per_tok": 9},
        "num_experts_per_tok",
        "exceeds num_experts = 8",
    ),
    ("expert width negative", MOE, {"moe_intermediate_size": -1}, "moe_intermediate_size", "at least 1"),
    ("sparse step zero", MOE, {"decoder_sparse_step": 0}, "decoder_sparse_step", "at least 1"),
    ("dense layers no list", MOE, {"mlp_only_layers": 1}, "mlp_only_layers", "must be a list"),
    ("dense layer too deep", MOE, {"mlp_only_layers": [4]}, "mlp_only_layers", "the 4 layers are 0 to 3"),
    ("dense layer negative", MOE, {"mlp_only_layers": [-1]}, "mlp_only_layers", "at least 0"),
    ("dense layer twice", MOE, {"mlp_only_layers": [1, 1]}, "mlp_only_layers", "twice"),
    ("dense layer as text", MOE, {"mlp_only_layers": ["1"]}, "mlp_only_layers", "whole numbers"),
    ("two spellings", MOE, {"num_local_experts": 4}, "num_local_experts", "contradicts num_experts = 8"),
    ("window zero", MOE, {"use_sliding_window": True, "sliding_window": 0}, "sliding_window", "at least 1"),
    ("layer types too few", GEMMA2, {"layer_types": ["full_attention"]}, "layer_types", "names 1 layers"),
    ("layer type unknown", GEMMA2, {"layer_types": ["linear_attention"]}, "layer_types", "not known"),
    (
        "window missing",
        GEMMA2,
        {"layer_types": ["sliding_attention"] * 4, "sliding_window": None},
        "layer_types",
        "sliding_window gives none",
    ),
    ("model type a number", LLAMA, {"model_type": 3}, "model_type", "must be a word"),
    ("architectures a word", LLAMA, {"architectures": "Llama"}, "architectures", "must be a list"),
    ("no name at all", LLAMA, {"model_type": ..., "architectures": ...}, "model_type", "names a family"),
    ("other head", LLAMA, {"architectures": ["LlamaForTokenClassification"]}, "architectures", "is not read"),
    ("two families", LLAMA, {"architectures": ["OPTForCausalLM"]}, "architectures", "is of the family opt"),
    ("latent attention", LLAMA, {"kv_lora_rank": 512}, "kv_lora_rank", "may change the weights"),
    (
        "experts in a dense family",
        LLAMA,
        {"num_local_experts": 8},
        "num_local_experts",
        "may change the weights",
    ),
    ("layer types in llama", LLAMA, {"layer_types": ["full_attention"] * 4}, "layer_types", "may change"),
    (
        "nested text_config",
        LLAMA,
        {"text_config": {"hidden_size": 1}},
        "text_config",
        "may change the weights",
    ),
    ("own code", LLAMA, {"auto_map": {"AutoModel": "x.Y"}}, "auto_map", "may change the weights"),
    ("misspelt key", LLAMA, {"head_dims": 8}, "head_dims", "may change the weights"),
    ("cross attention", GPT2, {"add_cross_attention": True}, "add_cross_attention", "only with false"),
    (
        "shared expert in qwen3",
        MOE,
        {"shared_expert_intermediate_size": 64},
        "shared_expert_intermediate_size",
        "only",
    ),
    ("heads too wide", LLAMA, {"hidden_size": 2**20}, "num_attention_heads", "makes head_dim 131072"),
    (
        "more than can be counted",
        LLAMA,
        {"hidden_size": 2**19, "intermediate_size": 2**30, "num_hidden_layers": 4096},
        "hidden_size",
        "parameters",
    ),
]


@pytest.mark.parametrize(
    ("config", "change", "field", "words"), [m[1:] for m in MUTATIONS], ids=[m[0] for m in MUTATIONS]
)
def test_a_malformed_config_gives_one_error_at_its_key(
    config: dict[str, Any], change: dict[str, Any], field: str, words: str
) -> None:
    """The unchanged config reads; the changed one is refused with key, value and origin."""
    parse_config(config, "some/config.json")
    changed = {key: value for key, value in (config | change).items() if value is not ...}

    error = refusal(changed)

    assert (error.field, error.origin) == (field, "some/config.json")
    assert words in error.reason
    assert error.message.isprintable()
    assert len(error.message) < 600


@pytest.mark.parametrize(
    ("change", "legal"),
    [
        ({"hidden_size": -64}, ["64"]),
        ({"hidden_size": "64"}, ["64"]),
        ({"hidden_size": 64.0}, ["64"]),
        ({"vocab_size": 2**40}, ["67108864"]),
        ({"num_attention_heads": 7}, ["8", "4", "2"]),
        ({"num_key_value_heads": 3}, ["2", "4", "1"]),
        ({"tie_word_embeddings": "yes"}, ["true", "false"]),
        ({"kv_lora_rank": 8, "num_attention_headz": 8}, ["num_attention_heads"]),
    ],
)
def test_the_error_offers_the_nearest_legal_values(change: dict[str, Any], legal: list[str]) -> None:
    """Best first; for a key that is unknown, the nearest known keys."""
    error = refusal(dict(reversed((LLAMA | change).items())))

    assert error.legal[: len(legal)] == legal


GOLDEN: list[tuple[dict[str, Any], str]] = [
    (
        {"hidden_size": -64},
        "hidden_size = -64 (from model/config.json:6): must be at least 1; legal: 64",
    ),
    (
        {"num_attention_heads": 7},
        "num_attention_heads = 7 (from model/config.json:8): does not divide hidden_size = 64, "
        "and no head_dim is given; legal: 8, 4, 2",
    ),
    (
        {"model_type": "rwkv", "architectures": ["RwkvForCausalLM"], "attention_hidden_size": 64},
        "model_type = rwkv (from model/config.json:5): the family rwkv (RwkvForCausalLM) cannot be read yet; "
        "the file holds attention_hidden_size, hidden_size, num_hidden_layers, num_attention_heads, "
        "num_key_value_heads, intermediate_size, vocab_size; legal: llama, qwen3, mixtral, deepseek_v3, gpt2",
    ),
]


@pytest.mark.parametrize(("change", "message"), GOLDEN)
def test_the_message_reads_as_written(
    change: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one line a person sees, with the line of the key in the file."""
    monkeypatch.chdir(tmp_path)
    Path("model").mkdir()
    Path("model/config.json").write_text(json.dumps(LLAMA | change, indent=1), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_config("model")

    assert caught.value.message == message


def test_the_line_of_a_key_is_that_of_the_outer_object(tmp_path: Path) -> None:
    """A key of the same name in a nested object or in a string is passed over."""
    text = '{"note": "\\"hidden_size\\": 1",\n "rope_scaling": {"hidden_size": 1},\n "hidden_size": 0,\n'
    keys = {key: value for key, value in LLAMA.items() if key != "hidden_size"}
    (tmp_path / "config.json").write_text(text + json.dumps(keys)[1:], encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_config(tmp_path)

    assert caught.value.origin == f"{tmp_path / 'config.json'}:3"


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.integers(-3, 70),
    st.floats(allow_nan=False),
    st.text(max_size=8),
    st.lists(st.integers(-2, 9), max_size=5),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)
KEYS = sorted({key for name in families().names for key in families().family(name).keys})


@settings(max_examples=400, deadline=None, derandomize=True, database=None)
@given(
    st.sampled_from([LLAMA, MOE, GPT2, GEMMA2]),
    st.dictionaries(st.one_of(st.sampled_from(KEYS), st.text(max_size=12)), JUNK, max_size=3),
)
def test_any_config_reads_or_gives_an_input_error(config: dict[str, Any], change: dict[str, Any]) -> None:
    """Whatever stands under a key, there is a model with parameters or one InputError, nothing else."""
    try:
        model = parse_config(config | change, "x")
    except InputError as error:
        assert error.reason
        assert error.message.isprintable()
    else:
        assert 0 < count(model).active <= count(model).total
        assert Transformer.model_validate_json(model.model_dump_json()) == model


@pytest.mark.parametrize(
    ("key", "value", "field", "reason"),
    [
        ("text_config", "llama", "text_config", "must be an object of keys"),
        ("text_config", [], "text_config", "must be an object of keys"),
        ("quantization_config", "fp8", "quantization_config", "must be an object of keys"),
        ("quantization_config", False, "quantization_config", "must be an object of keys"),
        ("quantization_config", {"quant_method": 8}, "quantization_config.quant_method", "must be a word"),
        ("quantization_config", {"bits": "four"}, "quantization_config.bits", "must be a whole number"),
        ("rope_parameters", "linear", "rope_parameters", "must be an object of keys"),
    ],
)
def test_a_broken_nested_object_is_refused_though_nothing_of_it_is_read(
    key: str, value: object, field: str, reason: str
) -> None:
    """A file that is broken in one place is not to be trusted in others."""
    with pytest.raises(InputError) as caught:
        parse_config({**LLAMA, key: value}, "config.json")

    assert (caught.value.field, caught.value.reason) == (field, reason)


@pytest.mark.parametrize("value", [None, {}, {"torch_dtype": "bfloat16"}])
def test_a_language_model_of_which_nothing_is_told_is_refused(value: object) -> None:
    """The class would build one of its own defaults, which is nobody's model."""
    whole = json.loads((CONFIGS / "gemma3_27b.json").read_text(encoding="utf-8"))
    with pytest.raises(InputError) as caught:
        parse_config({**whole, "text_config": value}, "config.json")

    assert (caught.value.field, caught.value.code) == ("text_config", "missing")


def test_an_unknown_whole_names_the_part_that_can_be_read() -> None:
    """A new model of several parts has, as a rule, a language model of a known family."""
    keys = {"model_type": "seen_vl", "vision_config": {"model_type": "siglip_vision_model"}}
    plain = refusal({**keys, "text_config": {"model_type": "rwkv"}})
    known = refusal({**keys, "text_config": LLAMA})

    assert known.code == plain.code == "unknown-family"
    assert "text_config can be read" in known.reason
    assert "can be read" not in plain.reason
