"""`accelerate_fsdp2.yaml`: what is written, what its schema refuses, what the YAML cannot say."""

from __future__ import annotations

from typing import Any

import pytest
from plans_by_hand import fsdp, plan, stage, tiny
from pydantic import ValidationError

from shardwise.launch import emit, refusal
from shardwise.launch.accelerate.schema import AccelerateConfig
from shardwise.launch.accelerate.write import config
from shardwise.launch.notes import notes
from shardwise.models import Strategy, Transformer

BF16: dict[str, Any] = {"gradient_dtype": "bf16"}
GOOD = fsdp(3, 16, shard_group_size=8, **BF16)


def read(text: str) -> dict[str, Any]:
    """The YAML subset we write: `key: value` with JSON values, one level of sections."""
    import json

    found: dict[str, Any] = {}
    section = found
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if line.startswith("#"):
            continue
        if not value:
            section = found.setdefault(key, {})
        elif line.startswith(" "):
            section[key.strip()] = json.loads(value)
        else:
            found[key] = json.loads(value)
    return found


@pytest.mark.parametrize(
    "strategy",
    [GOOD, fsdp(2, 8, **BF16), fsdp(3, 8, stages=stage(recompute_full_layers=4), **BF16)],
)
def test_the_schema_reads_what_is_written(strategy: Strategy) -> None:
    """The text holds the configuration, no more and no less."""
    text = emit(plan(strategy), "accelerate")["accelerate_fsdp2.yaml"]

    assert AccelerateConfig.model_validate(read(text)) == config(plan(strategy))


def test_processes_fill_the_machines_and_the_mesh() -> None:
    """Two machines of eight, two replicas of a group of eight; a single group needs no mesh."""
    written = config(plan(GOOD))
    single = config(plan(fsdp(3, 16, **BF16)))

    assert (written.num_machines, written.num_processes) == (2, 16)
    assert written.parallelism_config is not None
    assert written.parallelism_config.parallelism_config_dp_replicate_size == 2
    assert single.parallelism_config is None


@pytest.mark.parametrize(
    ("family", "layer"),
    [("llama", "LlamaDecoderLayer"), ("gpt2", "GPT2Block"), ("mixtral", "MixtralDecoderLayer")],
)
def test_the_layer_class_is_that_of_the_family(family: str, layer: str) -> None:
    """The unit FSDP shards is one decoder layer."""
    made = plan(GOOD, model=tiny(family))

    assert config(made).fsdp_config.fsdp_transformer_layer_cls_to_wrap == layer


WRONG: dict[str, dict[str, Any]] = {
    "an unknown key at the top": {"fsdp": True},
    "an unknown key in the section": {"fsdp_config": {"fsdp_reshard": True}},
    "FSDP 1": {"fsdp_config": {"fsdp_version": 1}},
    "a switch in quotes": {"fsdp_config": {"fsdp_offload_params": "false"}},
    "the sharding strategy of FSDP 1": {"fsdp_config": {"fsdp_sharding_strategy": "FULL_SHARD"}},
    "no class to wrap": {"fsdp_config": {"fsdp_transformer_layer_cls_to_wrap": ""}},
    "machines not filled": {"num_machines": 3},
    "a mesh of another world": {"num_processes": 32},
    "float16": {"mixed_precision": "fp16"},
    "a processor": {"use_cpu": True},
}


@pytest.mark.parametrize("name", WRONG)
def test_the_schema_refuses_what_the_client_lets_pass(name: str) -> None:
    """One change to a good file, and the schema refuses it."""
    good = config(plan(GOOD)).model_dump(exclude_none=True)
    AccelerateConfig.model_validate(good)
    changed = {**good, **WRONG[name]}
    changed["fsdp_config"] = {**good["fsdp_config"], **changed["fsdp_config"]}

    with pytest.raises(ValidationError):
        AccelerateConfig.model_validate(changed)


CANNOT: dict[str, tuple[Strategy, Transformer, str]] = {
    "tensor parallel": (fsdp(3, 4, tensor_parallel=2, **BF16), tiny(), "tensor_parallel"),
    "float32 gradients": (fsdp(3, 8), tiny(), "gradient_dtype"),
    "some layers recomputed": (
        fsdp(3, 8, stages=stage(recompute_full_layers=1), **BF16),
        tiny(),
        "recompute_full_layers",
    ),
    "selective recomputation": (
        fsdp(3, 8, stages=stage(recompute_selective_layers=4), **BF16),
        tiny(),
        "recompute_selective_layers",
    ),
    "some layers offloaded": (
        fsdp(3, 8, offload_optimizer="cpu", offload_params="cpu", stages=stage(offloaded_layers=1), **BF16),
        tiny(),
        "offloaded_layers",
    ),
    "a family whose layers are not known": (GOOD, tiny("megatron"), "model"),
    "a compiled loss": (fsdp(3, 8, loss_kernel="compiled", **BF16), tiny(), "loss_kernel"),
}


@pytest.mark.parametrize("name", CANNOT)
def test_what_the_yaml_cannot_say_is_refused(name: str) -> None:
    """The objection names the choice; the FSDP module may still carry it."""
    strategy, model, field = CANNOT[name]
    objection = refusal(strategy, model, "accelerate")

    assert objection is not None
    assert objection.field == field
    assert refusal(strategy, model, "fsdp") is None
    assert refusal(GOOD, tiny(), "accelerate") is None


@pytest.mark.parametrize(("full", "told"), [(0, False), (4, True)])
def test_keys_and_values_of_wrapped_layers_are_to_be_switched_off(full: int, told: bool) -> None:
    """Layers recomputed from outside return them, which no plan prices: the folder says how to stop it."""
    found = notes(plan(fsdp(3, 8, stages=stage(recompute_full_layers=full))), "accelerate")

    assert any("use_cache = False" in note for note in found) == told
