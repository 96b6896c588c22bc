"""torchtitan's options: what is written, for which models, and what is refused."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from plans_by_hand import fsdp, plan, tiny
from pydantic import ValidationError

from shardwise.launch import emit, refusal
from shardwise.launch.torchtitan.schema import TitanOptions
from shardwise.launch.torchtitan.write import options
from shardwise.models import Stage, Strategy, Transformer

LLAMA = Transformer.preset("llama-3.1-8b")


def layers(**counts: Any) -> tuple[Stage, ...]:
    """The one stage of the Llama model."""
    return (Stage(layers=32, **counts),)


def hybrid() -> Strategy:
    """Two replicas of eight cards, two-way tensor parallel."""
    return fsdp(
        3, 16, shard_group_size=8, tensor_parallel=2, sequence_parallel=True, micro_batch_size=2,
        gradient_accumulation_steps=4, stages=layers(recompute_selective_layers=32),
    )  # fmt: skip


def test_arguments_and_file_say_the_same() -> None:
    """The arguments of 0.3 and the TOML of 0.2 hold one set of options."""
    files = emit(plan(hybrid(), model=LLAMA, sequence=8192), "torchtitan")
    lines = {line.strip() for line in files["torchtitan_args.sh"].splitlines()}
    tables = tomllib.loads(files["torchtitan_0_2.toml"])

    assert {"--module llama3", "--config llama3_8b", "activation-checkpoint:selective"} <= lines
    assert "--parallelism.data_parallel_replicate_degree 2" in lines
    assert "--parallelism.tensor_parallel_degree 2" in lines
    assert "--training.global_batch_size 128" in lines
    assert "--compile.no_enable" in lines
    assert tables["model"] == {"name": "llama3", "flavor": "8B"}
    assert tables["parallelism"]["data_parallel_shard_degree"] == 8
    assert tables["activation_checkpoint"] == {"mode": "selective", "selective_ac_option": "2"}


def test_the_kind_of_recomputation_stands_last() -> None:
    """It is a subcommand: nothing may follow it, so further arguments go before."""
    script = emit(plan(hybrid(), model=LLAMA), "torchtitan")["launch.sh"]

    assert script.rstrip().endswith('"$@" "${TORCHTITAN_ARGS[@]}"')


@pytest.mark.parametrize(
    ("strategy", "model", "field"),
    [
        (fsdp(3, 8), tiny(), "model"),
        (fsdp(3, 8, gradient_dtype="bf16", stages=layers()), LLAMA, "gradient_dtype"),
        (fsdp(3, 8, stages=layers(recompute_full_layers=3)), LLAMA, "recompute_full_layers"),
        (fsdp(3, 8, loss_kernel="compiled", stages=layers()), LLAMA, "loss_kernel"),
        (fsdp(3, 4, tensor_parallel=2, stages=layers()), LLAMA, "sequence_parallel"),
        (
            fsdp(3, 8, offload_optimizer="cpu", offload_params="cpu", stages=layers(offloaded_layers=3)),
            LLAMA,
            "offloaded_layers",
        ),
    ],
)
def test_what_it_cannot_say_is_refused(strategy: Strategy, model: Transformer, field: str) -> None:
    """Never dropped: the choice is named."""
    objection = refusal(strategy, model, "torchtitan")

    assert objection is not None and objection.field == field


@pytest.mark.parametrize(
    ("section", "change"),
    [
        ("parallelism", {"tensor_parallel_degree": -3}),
        ("parallelism", {"pipeline_parallel_degree": 2}),
        ("training", {"global_batch_size": 100}),
        ("training", {"batch_size": 1}),
        ("compile", {"components": []}),
    ],
)
def test_the_schema_is_stricter_than_the_parser(section: str, change: dict[str, Any]) -> None:
    """torchtitan's own parser takes a degree of -3, and any batch until it runs."""
    good = options(plan(hybrid(), model=LLAMA)).model_dump()
    TitanOptions.model_validate(good)

    with pytest.raises(ValidationError):
        TitanOptions.model_validate({**good, section: {**good[section], **change}})
