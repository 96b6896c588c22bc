"""A hundred and more ways to spoil a config.json: each gives one clear message, in bounded memory."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shardwise.inputs import InputError
from shardwise.models import parse_config, read_config

CONFIGS = Path(__file__).parent / "data" / "hf_configs"
HUGE = 10**30
FILES = {
    # file, and the keys of it that are spoiled one by one
    "llama3_1_8b": (
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "intermediate_size",
        "vocab_size",
    ),
    "gpt2_large": ("n_embd", "n_layer", "n_head", "vocab_size"),
    "deepseek_v3": ("kv_lora_rank", "n_routed_experts", "moe_intermediate_size", "v_head_dim"),
    "mixtral_8x22b": ("num_local_experts", "num_experts_per_tok"),
    "jamba_1_5_mini": ("mamba_d_state", "attn_layer_period"),
    "falcon_40b_rw": ("num_kv_heads", "hidden_size"),
    "chatglm3_6b": ("padded_vocab_size", "multi_query_group_num", "ffn_hidden_size"),
    "bge_large_bert": ("max_position_embeddings", "type_vocab_size"),
    "gemma3_27b": ("text_config.hidden_size", "vision_config.num_hidden_layers", "vision_config.hidden_size"),
    "qwen2_5_vl_7b": ("hidden_size", "vision_config.depth", "vision_config.num_heads"),
    "qwen3_5_35b_a3b": ("text_config.linear_num_key_heads", "text_config.num_experts"),
}
VALUES: dict[str, Any] = {
    "text": "many",
    "huge": HUGE,
    "negative": -5,
    "a part": 1.5,
    "true": True,
    "list": [1],
    "nothing listed": [],
    "object": {"a": 1},
}


def loaded(name: str) -> dict[str, Any]:
    """The keys of a public config."""
    found: dict[str, Any] = json.loads((CONFIGS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def changed(keys: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """The config with one key set, or taken out (...)."""
    head, dot, rest = path.partition(".")
    if dot:
        return {**keys, head: changed(keys[head], rest, value)}
    return {key: item for key, item in {**keys, head: value}.items() if item is not ...}


def spoiled() -> Iterator[tuple[str, dict[str, Any]]]:
    """(name, config) of every key with every wrong value."""
    for name, paths in FILES.items():
        keys = loaded(name)
        for path in paths:
            for word, value in VALUES.items():
                yield f"{name} {path} {word}", changed(keys, path, value)


LLAMA = loaded("llama3_1_8b")
GPT_OSS = loaded("gpt_oss_20b")
QWEN = loaded("qwen3_5_35b_a3b")
MLLAMA = loaded("llama3_2_11b_vision")
NEMOTRON = {key: value for key, value in loaded("nemotron_h_56b").items() if key != "time_step_limit"}
EXAONE = {"model_type": "exaone4", "vocab_size": 512, "hidden_size": 64, "intermediate_size": 96,
          "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2}  # fmt: skip
NAS = loaded("nemotron_super_49b")
OPENELM = loaded("openelm_270m")
CONTRADICTIONS: list[tuple[str, dict[str, Any]]] = [
    ("heads do not divide the hidden size", LLAMA | {"num_attention_heads": 30, "num_key_value_heads": 30}),
    ("more key-value heads than heads", LLAMA | {"num_key_value_heads": 64}),
    ("key-value heads that do not divide", LLAMA | {"num_key_value_heads": 5}),
    ("one layer type too few", GPT_OSS | {"layer_types": GPT_OSS["layer_types"][1:]}),
    ("one layer type too many", GPT_OSS | {"layer_types": [*GPT_OSS["layer_types"], "full_attention"]}),
    ("an unknown layer type", GPT_OSS | {"layer_types": ["full"] * 24}),
    ("no window for sliding layers", GPT_OSS | {"sliding_window": None}),
    ("two spellings that differ", GPT_OSS | {"experts_per_token": 5}),
    ("more experts chosen than there are", GPT_OSS | {"num_experts_per_tok": 33, "experts_per_token": 33}),
    ("a pattern of the wrong length", NEMOTRON | {"hybrid_override_pattern": "M-*"}),
    ("an unknown letter in a pattern", NEMOTRON | {"hybrid_override_pattern": "X" * 118}),
    ("a pattern that is no word", NEMOTRON | {"hybrid_override_pattern": 118}),
    ("a section that is no object", QWEN | {"text_config": "qwen"}),
    ("a section of another family", changed(QWEN, "text_config.model_type", "llama")),
    ("a section of no family", changed(QWEN, "text_config.model_type", "nothing")),
    ("a tower as text", changed(loaded("gemma3_27b"), "text_config.model_type", "siglip_vision_model")),
    ("a model as tower", changed(loaded("gemma3_27b"), "vision_config.model_type", "llama")),
    ("an audio section nobody knows", loaded("gemma3_27b") | {"audio_config": {"hidden_size": 8}}),
    ("sides of an image that differ", changed(loaded("gemma3_27b"), "vision_config.image_size", [896, 448])),
    ("cross layers before the stack", changed(MLLAMA, "text_config.cross_attention_layers", [3, -1])),
    ("no experts at all", loaded("mixtral_8x22b") | {"num_local_experts": 0}),
    ("layers without end", LLAMA | {"num_hidden_layers": 4097}),
    ("a heap of everything", LLAMA | {"head_dim": 64, "intermediate_size": 2**30, "num_hidden_layers": 4096}
     | {"hidden_size": 2**20}),
    ("experts of nothing", loaded("mixtral_8x22b") | {"num_local_experts": []}),
    ("widths of nothing", LLAMA | {"intermediate_size": []}),
    ("no layers", LLAMA | {"num_hidden_layers": 0}),
    ("no heads", LLAMA | {"num_attention_heads": 0}),
    ("no key-value heads", LLAMA | {"num_key_value_heads": 0}),
    ("no vocabulary", LLAMA | {"vocab_size": 0}),
    ("no width", LLAMA | {"hidden_size": 0}),
    ("no latent", loaded("deepseek_v3") | {"kv_lora_rank": 0}),
    ("classes that are no words", LLAMA | {"architectures": [["LlamaForCausalLM"]]}),
    ("classes of a section that are no words", changed(QWEN, "text_config.architectures", [[1]])),
    ("a period of one kind of letter", EXAONE | {"sliding_window_pattern": "LLLL"}),
    ("a period of one letter", EXAONE | {"sliding_window_pattern": "L"}),
    ("blocks that are no list", NAS | {"block_configs": {"ffn": 1}}),
    ("blocks that are no objects", NAS | {"block_configs": [1] * 80}),
    ("one block too few", NAS | {"block_configs": NAS["block_configs"][1:]}),
    ("a fraction that is none", {**OPENELM, "ffn_multipliers": ["1.5"] * 16}),
    ("a fraction without end", {**OPENELM, "ffn_multipliers": [float("inf")] * 16}),
    ("nothing", {}),
    ("a family that nobody knows", {"model_type": "resnet", "architectures": ["ResNetModel"]}),
    ("two families", LLAMA | {"model_type": "gpt2"}),
]  # fmt: skip
WAYS = [*spoiled(), *CONTRADICTIONS]


def nested(depth: int, inner: Any) -> Any:
    """An object in an object, and so on."""
    for _ in range(depth):
        inner = {"text_config": inner}
    return inner


def test_there_are_more_than_a_hundred() -> None:
    """And no two are alike."""
    assert len(WAYS) > 150
    assert len({name for name, _ in WAYS}) == len(WAYS)


@pytest.mark.parametrize("config", [config for _, config in WAYS], ids=[name for name, _ in WAYS])
def test_a_spoiled_config_gives_one_clear_message(config: dict[str, Any]) -> None:
    """One line that names a key, its value, the place and a reason; no other exception."""
    with pytest.raises(InputError) as caught:
        parse_config(config, "some/config.json")
    error = caught.value

    assert error.field
    assert error.origin == "some/config.json"
    assert len(error.reason) > 5
    assert error.message.isprintable()
    assert len(error.message) < 700


@pytest.mark.parametrize("name", FILES)
def test_a_key_left_out_is_the_default_of_its_class_or_one_message(name: str) -> None:
    """Every key of a public config taken out in turn: a model or an InputError, nothing else."""
    keys = loaded(name)
    for key in keys:
        try:
            model = parse_config(changed(keys, key, ...), "some/config.json")
        except InputError as error:
            assert error.message.isprintable()
        else:
            assert model.layers > 0


HOSTILE: dict[str, Any] = {
    "sections in sections": {"model_type": "llava", "text_config": nested(300, {"model_type": "llava"})},
    "a composite as text": {"model_type": "llava", "text_config": {"model_type": "gemma3"}},
    "a deep value": LLAMA | {"hidden_size": nested(400, 1)},
    "a deep unknown key": LLAMA | {"weird": nested(400, 1)},
    "lists in lists": GPT_OSS | {"layer_types": [[[["full_attention"]]]] * 24},
    "a long list": GPT_OSS | {"layer_types": ["full_attention"] * 200_000},
    "many keys": LLAMA | {f"layer_{index}": index for index in range(1, 50_000)},
    "a long word": LLAMA | {"model_type": "x" * 1_000_000},
    "a long key": LLAMA | {"hidden_" + "x" * 1_000_000: 1},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_config_is_refused_soon_and_in_little_memory(name: str, tmp_path: Path) -> None:
    """Deep or endless: one message, within seconds, whatever is nested."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(HOSTILE[name]), encoding="utf-8")
    begun = time.process_time()
    with pytest.raises(InputError) as caught:
        read_config(path)

    assert time.process_time() - begun < 10
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 1000


def test_a_file_of_a_hundred_megabytes_is_not_read_whole(tmp_path: Path) -> None:
    """Refused by size, with a peak far below the file's."""
    path = tmp_path / "config.json"
    with path.open("wb") as file:
        file.write(b'{"model_type": "llama", "pad": "')
        for _ in range(100):
            file.write(b"x" * 2**20)
        file.write(b'"}')
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="is larger than") as caught:
            read_config(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert caught.value.code == "too-large"
    assert peak < 40 * 2**20


def test_the_largest_stack_is_read_in_seconds() -> None:
    """4096 layers of alternating kinds."""
    words = ["sliding_attention", "full_attention"] * 2048
    begun = time.process_time()
    model = parse_config(GPT_OSS | {"num_hidden_layers": 4096, "layer_types": words}, "x")

    assert time.process_time() - begun < 5
    assert (model.layers, len(model.runs), len(model.kinds)) == (4096, 4096, 2)
