"""Parameter counts and layer patterns equal those of the models that transformers builds."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from clients.model_builder import (
    BY_PUBLICATION,
    FAMILIES,
    SECTIONS,
    built,
    defaults,
    known,
    parameters,
    real_total,
    small,
    standing_alone,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from shardwise.inputs import InputError
from shardwise.models import Transformer, count, parse_config, read_config
from shardwise.models.catalogue import catalogue
from shardwise.models.families import families

pytestmark = pytest.mark.clients

CONFIGS = Path(__file__).parents[1] / "data" / "hf_configs"
KNOWN = [
    row["file"]
    for row in csv.DictReader((CONFIGS / "index.csv").read_text(encoding="utf-8").splitlines())
    if row["oracle"] == "transformers"
]
CATALOGUED = [
    name
    for name, entry in catalogue().models.items()
    if entry.config is not None and entry.config["model_type"] != "longcat_flash"
]
UNBUILDABLE = {
    # classes whose own defaults build no model, or not one that could run
    "deepseek_v2", "dots1", "glm4_moe", "glm4v_moe", "hunyuan_v1_dense", "hunyuan_v1_moe", "lfm2_moe",
    "ministral", "nemotron", "dbrx", "olmo_hybrid", "gemma4", "idefics3", "aya_vision", "esm",
}  # fmt: skip


def layer_modules(model: Any, layers: int) -> list[Any]:
    """The decoder layers: the first list of modules that is as long as the stack."""
    lists = (module for module in model.modules() if type(module).__name__ == "ModuleList")
    return list(next(modules for modules in lists if len(modules) == layers))


@pytest.mark.parametrize("file", KNOWN)
def test_a_public_config_has_the_parameters_that_transformers_allocates(file: str) -> None:
    """Unit-exact, for every public config of a family that transformers knows."""
    config = json.loads((CONFIGS / file).read_text(encoding="utf-8"))

    assert count(read_config(CONFIGS / file)).total == parameters(built(config))


@pytest.mark.parametrize("name", CATALOGUED)
def test_a_catalogued_model_has_the_parameters_that_transformers_allocates(name: str) -> None:
    """Unit-exact, for every model of the catalogue that is kept as a config."""
    config = catalogue().models[name].config

    assert config is not None
    assert count(Transformer.preset(name)).total == parameters(built(config))


@pytest.mark.parametrize("family", FAMILIES)
def test_what_a_class_writes_of_itself_is_read_as_it_is_built(family: str) -> None:
    """The default config of every family: each of its keys is known, and the count is its own."""
    if family not in known() or family in UNBUILDABLE | BY_PUBLICATION:
        pytest.skip("transformers builds no model of it by default")
    config = defaults(family)

    assert count(parse_config(config, "defaults")).total == parameters(built(config))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_default_of_the_table_is_that_of_the_class(family: str) -> None:
    """What a key left out is taken for; further-token layers count only where a file has the key."""
    if family not in known():
        pytest.skip("transformers does not know it")
    spelled = families().family(family).dimensions.values()
    base = small(family)
    real = defaults(family, {key: base[key] for key in SECTIONS if key in base})
    differ = {
        one.keys[0]: (one.default, real[one.keys[0]])
        for one in spelled
        if one.keys and isinstance(one.default, int) and isinstance(real.get(one.keys[0]), int)
        if real[one.keys[0]] not in (0, one.default) and one.keys[0] != "num_nextn_predict_layers"
    }

    assert differ == {}


def test_no_architecture_of_transformers_is_read_wrong() -> None:
    """Whatever the class of a model_type writes of itself is counted as it is built, or refused by name.

    All of them, also those of no table: so that a new release of transformers cannot be misread unseen.
    """
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    right, wrong, unnamed = 0, [], []
    for kind in sorted(set(CONFIG_MAPPING.keys()) - BY_PUBLICATION):
        config = standing_alone(kind)
        if config is None:
            continue
        try:
            mine = count(parse_config(config, "defaults")).total
        except InputError as error:
            unnamed += [] if error.field and len(error.reason.split()) > 3 else [kind]
            continue
        real = real_total(config)
        right += real == mine
        wrong += [] if real in (mine, None) else [(kind, mine, real)]

    assert wrong == []
    assert unnamed == []
    assert right >= 155


SWITCH = st.booleans()
FLAGS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "gpt2": {"n_inner": st.sampled_from([None, 48, 100]), "tie_word_embeddings": SWITCH},
    "gpt_neox": {"attention_bias": SWITCH, "tie_word_embeddings": SWITCH},
    "opt": {
        "enable_bias": SWITCH,
        "do_layer_norm_before": SWITCH,
        "word_embed_proj_dim": st.sampled_from([16, 64]),
        "tie_word_embeddings": SWITCH,
    },
    "llama": {"attention_bias": SWITCH, "mlp_bias": SWITCH, "tie_word_embeddings": SWITCH},
    "mistral": {"sliding_window": st.sampled_from([None, 8]), "tie_word_embeddings": SWITCH},
    "mixtral": {
        "num_local_experts": st.integers(2, 5),
        "sliding_window": st.sampled_from([None, 8]),
        "tie_word_embeddings": SWITCH,
    },
    "qwen2": {
        "use_sliding_window": SWITCH,
        "max_window_layers": st.integers(0, 6),
        "sliding_window": st.just(8),
    },
    "qwen3": {
        "attention_bias": SWITCH,
        "use_sliding_window": SWITCH,
        "max_window_layers": st.integers(0, 6),
        "sliding_window": st.just(8),
    },
    "gemma": {"attention_bias": SWITCH, "tie_word_embeddings": SWITCH},
    "gemma2": {"attention_bias": SWITCH, "tie_word_embeddings": SWITCH, "sliding_window": st.just(8)},
    "qwen2_moe": {
        "qkv_bias": SWITCH,
        "num_experts": st.integers(2, 5),
        "num_experts_per_tok": st.integers(1, 2),
        "moe_intermediate_size": st.sampled_from([24, 40]),
        "shared_expert_intermediate_size": st.sampled_from([24, 56]),
        "decoder_sparse_step": st.integers(1, 3),
        "mlp_only_layers": st.sampled_from([[], [0], [1]]),
        "use_sliding_window": SWITCH,
        "max_window_layers": st.integers(0, 6),
        "sliding_window": st.just(8),
    },
    "qwen3_moe": {
        "attention_bias": SWITCH,
        "num_experts": st.integers(2, 5),
        "num_experts_per_tok": st.integers(1, 2),
        "moe_intermediate_size": st.sampled_from([24, 40]),
        "decoder_sparse_step": st.integers(1, 3),
        "mlp_only_layers": st.sampled_from([[], [0], [1]]),
    },
}
HEAD_DIM = {"llama", "mistral", "mixtral", "qwen3", "gemma", "gemma2", "qwen3_moe"}
UNGROUPED = {"gpt2", "gpt_neox", "opt"}


@st.composite
def small_configs(draw: st.DrawFn, family: str) -> dict[str, Any]:
    """A small config of `family`, every switch drawn."""
    heads = draw(st.sampled_from([2, 4]))
    config = {
        "model_type": family,
        "vocab_size": draw(st.integers(30, 40)),
        "hidden_size": heads * draw(st.sampled_from([8, 16])),
        "num_hidden_layers": draw(st.integers(2, 5)),
        "num_attention_heads": heads,
        "ffn_dim" if family == "opt" else "intermediate_size": draw(st.sampled_from([32, 72])),
        "max_position_embeddings": 32,
        "pad_token_id": 0,
    }
    if family not in UNGROUPED:
        config["num_key_value_heads"] = draw(st.sampled_from([1, 2]))
    if family in HEAD_DIM:
        config["head_dim"] = draw(st.sampled_from([8, 12]))
    if family == "gpt2":
        del config["intermediate_size"]
    return config | {key: draw(values) for key, values in FLAGS[family].items()}


@pytest.mark.parametrize("family", sorted(FLAGS))
def test_every_switch_of_a_family_counts_as_in_transformers(family: str) -> None:
    """Whole model and each layer agree, and so does which layers attend through a window."""

    @settings(max_examples=30, deadline=None, derandomize=True, database=None)
    @given(small_configs(family))
    def holds(config: dict[str, Any]) -> None:
        mine = parse_config(config, "drawn")
        model = built(config)
        counted = count(mine)
        assert counted.total == parameters(model)
        layers = layer_modules(model, mine.layers)
        assert [counted.layers[kind].total for kind in mine.kind_of_layer] == [*map(parameters, layers)]
        windows = [mine.kinds[kind].attention.window for kind in mine.kind_of_layer]
        assert windows == _real_windows(model.config, mine.layers)

    holds()


def _real_windows(config: Any, layers: int) -> list[int | None]:
    window = getattr(config, "sliding_window", None)
    types = getattr(config, "layer_types", None) or ["sliding_attention"] * layers
    return [window if word == "sliding_attention" else None for word in types]
