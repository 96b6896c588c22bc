"""What the reader makes of a config.json: right to the unit, with every default of the class."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shardwise.models import Transformer, count, explain_config, parse_config, read_config
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


def windows(model: Transformer) -> list[int | None]:
    """The window of each layer."""
    return [model.kinds[kind].attention.window for kind in model.kind_of_layer]


def experts(model: Transformer) -> list[int]:
    """The experts of each layer."""
    return [model.kinds[kind].feed_forward.experts for kind in model.kind_of_layer]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["file"])
def test_a_public_config_has_its_parameters_to_the_unit(row: dict[str, str]) -> None:
    """The count is the one in the index, and the model card's figure within one percent."""
    total = count(Transformer.read(CONFIGS / row["file"])).total

    assert total == int(row["parameters"])
    assert total / 1e9 == pytest.approx(float(row["published_billion"]), rel=0.01)


def test_a_folder_and_its_config_read_alike(tmp_path: Path) -> None:
    """The folder names the model; any other file names it by its stem."""
    folder = tmp_path / "my-model"
    folder.mkdir()
    for file in (folder / "config.json", tmp_path / "other.json"):
        file.write_text(json.dumps(LLAMA), encoding="utf-8")

    assert read_config(folder) == read_config(folder / "config.json")
    assert read_config(folder).name == "my-model"
    assert read_config(tmp_path / "other.json").name == "other"


def test_a_report_says_which_key_gave_each_dimension() -> None:
    """Keys that count are told from defaults of the class, facts of the family and keys that do nothing."""
    report = explain_config(CONFIGS / "qwen3_30b_a3b.json")

    assert report.used["expert_width"] == ("moe_intermediate_size", 768)
    assert report.used["qk_norm"] == ("fact of the family", "per_head")
    assert "intermediate_size" in report.ignored
    assert "router_aux_loss_coef" in report.ignored
    assert report.used["rotary_base"] == ("rope_theta", 1_000_000.0)
    assert "hidden_size" not in report.ignored
    assert explain_config(CONFIGS / "gemma_7b.json").used["tied_embeddings"] == ("default of the class", True)


Change = Callable[[Transformer], object]
DEFAULTS: list[tuple[str, dict[str, Any], Change, object]] = [
    (
        "llama: as many kv heads as heads",
        {"num_key_value_heads": ...},
        lambda m: m.kinds[0].attention.kv_heads,
        8,
    ),
    ("llama: null kv heads", {"num_key_value_heads": None}, lambda m: m.kinds[0].attention.kv_heads, 8),
    ("llama: head_dim from the hidden size", {}, lambda m: m.kinds[0].attention.head_dim, 8),
    ("llama: untied", {}, lambda m: m.tied_embeddings, False),
    ("mistral: a window of 4096", {"model_type": "mistral"}, lambda m: m.kinds[0].attention.window, 4096),
    (
        "mistral: null is no window",
        {"model_type": "mistral", "sliding_window": None},
        lambda m: m.kinds[0].attention.window,
        None,
    ),
    (
        "qwen2: query, key, value biases",
        {"model_type": "qwen2"},
        lambda m: m.kinds[0].attention.qkv_bias,
        True,
    ),
    ("qwen2: no output bias", {"model_type": "qwen2"}, lambda m: m.kinds[0].attention.output_bias, False),
    ("qwen3: heads of 128", {"model_type": "qwen3"}, lambda m: m.kinds[0].attention.head_dim, 128),
    ("gemma: tied", {"model_type": "gemma"}, lambda m: m.tied_embeddings, True),
    ("gemma: heads of 256", {"model_type": "gemma"}, lambda m: m.kinds[0].attention.head_dim, 256),
    ("gemma2: four norms", {"model_type": "gemma2"}, lambda m: m.kinds[0].norms, 4),
    (
        "gpt_neox: biases, untied",
        {"model_type": "gpt_neox", "num_key_value_heads": ...},
        lambda m: m.positions,
        0,
    ),
]


@pytest.mark.parametrize(
    ("change", "get", "value"), [row[1:] for row in DEFAULTS], ids=[row[0] for row in DEFAULTS]
)
def test_a_key_left_out_takes_the_default_of_the_class(
    change: dict[str, Any], get: Change, value: object
) -> None:
    """As transformers would build it."""
    keys = {key: item for key, item in (LLAMA | change).items() if item is not ... and key != "architectures"}
    if keys["model_type"] == "gemma":
        keys["num_attention_heads"] = 16

    assert get(parse_config(keys, "x")) == value


def test_learned_positions_are_counted_as_each_family_allocates_them() -> None:
    """GPT-2 holds n_positions vectors, OPT two more than max_position_embeddings, rotary families none."""
    assert parse_config(GPT2, "x").positions == 1024
    assert read_config(CONFIGS / "opt_350m.json").positions == 2050
    assert parse_config(LLAMA, "x").positions == 0


def test_opt_350m_has_a_narrow_embedding_and_no_final_norm() -> None:
    """word_embed_proj_dim 512 below hidden 1024, and do_layer_norm_before false."""
    model = read_config(CONFIGS / "opt_350m.json")

    assert (model.embedding_width, model.hidden_size, model.final_norm) == (512, 1024, False)


def test_gemma2_alternates_windows_in_runs_of_one() -> None:
    """Two kinds of layer, the first with a window; or as layer_types lists them."""
    model = parse_config(GEMMA2, "x")
    types = ["full_attention", "full_attention", "sliding_attention", "full_attention"]

    assert windows(model) == [4096, None, 4096, None]
    assert (len(model.runs), len(model.kinds)) == (4, 2)
    assert windows(parse_config(GEMMA2 | {"layer_types": types}, "x")) == [None, None, 4096, None]


def test_qwen2_slides_only_when_enabled_and_only_in_deep_layers() -> None:
    """use_sliding_window is false unless said; layers from max_window_layers on slide."""
    qwen = LLAMA | {
        "model_type": "qwen2",
        "architectures": None,
        "sliding_window": 64,
        "max_window_layers": 3,
    }

    assert windows(parse_config(qwen, "x")) == [None] * 4
    assert windows(parse_config(qwen | {"use_sliding_window": True}, "x")) == [None, None, None, 64]


@pytest.mark.parametrize(
    ("change", "pattern"),
    [
        ({}, [8, 8, 8, 8]),
        ({"decoder_sparse_step": 2}, [0, 8, 0, 8]),
        ({"mlp_only_layers": [0]}, [0, 8, 8, 8]),
        ({"mlp_only_layers": [3, 1], "decoder_sparse_step": 2}, [0, 0, 0, 0]),
    ],
)
def test_dense_and_sparse_layers_stand_where_the_config_puts_them(
    change: dict[str, Any], pattern: list[int]
) -> None:
    """Layer i routes when (i + 1) is a multiple of decoder_sparse_step and i is not in mlp_only_layers."""
    model = parse_config(MOE | change, "x")

    assert experts(model) == pattern
    assert model.layers == sum(run.layers for run in model.runs) == 4


def test_a_null_or_empty_key_of_another_family_is_let_pass() -> None:
    """Values that switch nothing on do not stop a config."""
    idle: dict[str, Any] = {
        "num_local_experts": None,
        "layer_types": None,
        "vision_config": {},
        "shared_head_dim": 0,
    }

    assert parse_config(LLAMA | idle, "x") == parse_config(LLAMA, "x")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["file"])
def test_architectures_alone_name_the_family(row: dict[str, str]) -> None:
    """A file without model_type is read by the class that it names."""
    keys = json.loads((CONFIGS / row["file"]).read_text(encoding="utf-8"))
    keys.setdefault("architectures", [{"opt": "OPTForCausalLM"}.get(keys["model_type"], "FalconForCausalLM")])
    named = parse_config(keys, "x")

    assert keys.pop("model_type") in families().family(named.family).model_types
    assert parse_config(keys, "x") == named
