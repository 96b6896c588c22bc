"""Numbers of a model that cost nothing: read as transformers does, written as Megatron-LM hears them."""

from __future__ import annotations

import json
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from megatron_by_hand import argv, parsed, stages
from plans_by_hand import megatron, plan

from shardwise.inputs import InputError
from shardwise.launch import emit, refusal
from shardwise.launch.megatron.families import known
from shardwise.models import Transformer, parse_config
from shardwise.models.catalogue import catalogue
from shardwise.models.constants import Constants, Rotary, Routing, Scaling

LLAMA: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 512, "max_position_embeddings": 4096,
}  # fmt: skip
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}


def constants(**keys: Any) -> Constants:
    """Those of a small Llama with `keys`."""
    found = parse_config({**LLAMA, **keys}, "test").constants
    assert found is not None
    return found


def rotary(**keys: Any) -> Rotary:
    """Rotary positions of a small Llama with `keys`."""
    found = constants(**keys).rotary
    assert found is not None
    return found


def written(model: Transformer, folder: Path) -> dict[str, list[str]]:
    """The arguments of Megatron-LM for `model` as bash expands them."""
    return parsed(argv(plan(megatron(1, 8, stages=stages(1, model.layers)), model=model), folder))


def test_what_a_file_leaves_out_is_the_class_s() -> None:
    """LlamaConfig of transformers 5.24.0 takes these."""
    assert constants() == Constants(
        norm_epsilon=1e-6, activation="silu", initial_deviation=0.02, rotary=Rotary(base=10_000.0)
    )


@pytest.mark.parametrize("section", ["rope_scaling", "rope_parameters"])
def test_scaling_is_read_from_either_section(section: str) -> None:
    """Its own length wins; without one it is the longest sequence of the model."""
    table = {**LLAMA3, "original_max_position_embeddings": 8192}

    assert rotary(rope_theta=5e5, **{section: table}).scaling == Scaling(
        kind="llama3", factor=8.0, original_length=8192
    )
    assert rotary(**{section: LLAMA3}).scaling == Scaling(kind="llama3", factor=8.0, original_length=4096)


def test_a_base_inside_the_section_wins() -> None:
    """As transformers 5 writes it; the older spelling of the type is read too."""
    assert rotary(rope_theta=1.0, rope_parameters={"rope_type": "default", "rope_theta": 5e6}).base == 5e6
    assert rotary(rope_scaling={"type": "linear", "factor": 4}).scaling == Scaling(kind="linear", factor=4.0)
    assert rotary(rope_scaling=None).scaling is None


def test_layers_that_turn_differently_are_told() -> None:
    """One section a kind of layer: equal ones are one, others have a kind that no client takes."""
    one, other = {"rope_type": "default", "rope_theta": 1e6}, {"rope_type": "default", "rope_theta": 1e4}
    same = rotary(rope_parameters={"full_attention": one, "sliding_attention": one})
    mixed = rotary(rope_parameters={"full_attention": one, "sliding_attention": other})

    assert same == Rotary(base=1e6)
    assert mixed.scaling is not None and mixed.scaling.kind == "by_layer"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("rope_theta", "big"),
        ("rope_theta", 0),
        ("rope_theta", True),
        ("rms_norm_eps", -1e-5),
        ("rope_scaling", [8]),
        ("rope_scaling", {"rope_type": "linear", "factor": "4"}),
        ("rope_scaling", {"rope_type": 3}),
    ],
)
def test_a_number_that_is_none_is_named(key: str, value: object) -> None:
    """The message names the key."""
    with pytest.raises(InputError, match=key):
        constants(**{key: value})


@given(st.floats(1e-9, 1e-2), st.integers(1, 10**9), st.floats(0.0, 1.0))
def test_numbers_arrive_as_they_are(epsilon: float, base: int, deviation: float) -> None:
    """Whatever a file says is what the model has, and JSON keeps it."""
    model = parse_config(
        {**LLAMA, "rms_norm_eps": epsilon, "rope_theta": base, "initializer_range": deviation}, "test"
    )

    assert model.constants == Constants(
        norm_epsilon=epsilon, activation="silu", initial_deviation=deviation, rotary=Rotary(base=float(base))
    )
    assert Transformer.model_validate_json(model.model_dump_json()) == model


@pytest.mark.parametrize("name", sorted(catalogue().models))
def test_the_catalogue_leaves_no_number_to_a_class(name: str) -> None:
    """A class default is rarely what a model was trained with: families with written numbers state theirs."""
    config = catalogue().models[name].config or {}
    family = Transformer.preset(name).family
    if family in known().families and family != "gpt2":
        assert {"rms_norm_eps", "rope_theta"} <= set(config)


@pytest.mark.parametrize("family", known().families)
def test_every_family_that_megatron_writes_has_its_numbers(family: str) -> None:
    """None is written with Megatron's defaults for want of a table."""
    table = files("shardwise.models") / "catalogue" / "constants.json"

    assert family in json.loads(table.read_text(encoding="utf-8"))["families"]


def test_megatron_hears_the_rotary_base(tmp_path: Path) -> None:
    """Another base trains another model without a word: it is always written."""
    given = written(Transformer.preset("llama-3.1-8b"), tmp_path)

    assert given["--rotary-base"] == ["500000"]
    assert given["--norm-epsilon"] == ["1e-05"]
    assert given["--rope-scaling-factor"] == ["8.0"] and "--use-rope-scaling" in given


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"rotary": Rotary(base=10_000.5)}, "whole number"),
        ({"rotary": Rotary(base=1e4, scaling=Scaling(kind="dynamic", factor=2))}, "dynamic"),
        ({"rotary": Rotary(base=1e4, scaling=Scaling(kind="yarn", factor=4))}, "yarn"),
        ({"rotary": Rotary(base=1e4, scaling=Scaling(kind="linear", factor=2.5))}, "whole number"),
        ({"activation": "gelu"}, "gelu"),
    ],
)
def test_what_megatron_cannot_hear_is_refused(changes: dict[str, Any], reason: str) -> None:
    """A number without an argument is an objection to the model, never dropped."""
    model = parse_config(LLAMA, "test")
    model = model.model_copy(update={"constants": constants().model_copy(update=changes)})
    told = refusal(megatron(1, 8, stages=stages(1, 4)), model, "megatron")

    assert told is not None and told.field == "model" and reason in told.reason


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"score": "sigmoid", "normalised": False}, "sum to one"),
        ({"groups": 8, "groups_per_token": 4}, "groups are chosen"),
    ],
)
def test_routing_without_an_argument_is_refused(changes: dict[str, Any], reason: str) -> None:
    """Mixtral chooses two experts: fewer than the groups asked for."""
    model = Transformer.preset("mixtral-8x7b")
    assert model.constants is not None
    numbers = model.constants.model_copy(update={"routing": Routing(**changes)})
    told = refusal(
        megatron(1, 8, stages=stages(1, 32)), model.model_copy(update={"constants": numbers}), "megatron"
    )

    assert told is not None and reason in told.reason


@pytest.mark.parametrize(
    ("name", "file", "line"),
    [
        ("llama-3.2-1b", "gpt_builders.py", "rope_scaling_factor=args.rope_scaling_factor"),
        ("kimi-k2", "megatron/core/transformer/transformer_config.py", "beta_fast: float = 1"),
    ],
)
def test_the_script_stops_where_megatron_is_deaf(name: str, file: str, line: str, tmp_path: Path) -> None:
    """A number that the releases do not hear: launch.sh runs only beside a checkout that was mended."""
    model = Transformer.preset(name)
    argv(plan(megatron(1, 8, stages=stages(1, model.layers)), model=model), tmp_path)
    code, runs = tmp_path / "lm" / file, tmp_path / "torchrun"
    code.parent.mkdir(parents=True)
    runs.write_text("#!/bin/sh\n", encoding="utf-8")
    runs.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "TRAIN_SCRIPT": str(tmp_path / "lm/pretrain_gpt.py")}
    told = {}
    for word, text in (("deaf", f"{line}0 # another number"), ("mended", f"    {line}\n")):
        code.write_text(text, encoding="utf-8")
        told[word] = subprocess.run(
            ["bash", str(tmp_path / "launch.sh")], env=environment, capture_output=True, text=True
        )

    assert told["deaf"].returncode == 1 and line in told["deaf"].stderr
    assert told["mended"].returncode == 0, told["mended"].stderr


def test_a_model_without_its_numbers_says_so() -> None:
    """A Transformer made by hand: the README tells what Megatron-LM makes of it."""
    model = parse_config(LLAMA, "test").model_copy(update={"constants": None})
    made = emit(plan(megatron(1, 8, stages=stages(1, 4)), model=model), "megatron")

    assert "--rotary-base" not in made["megatron_args.sh"]
    assert "Megatron's defaults until you set them" in made["README.md"]
