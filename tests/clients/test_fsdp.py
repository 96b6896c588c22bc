"""The emitted `fsdp_plan.py`, imported and trained with on four gloo ranks, against one process."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from clients.ranks import run_ranks
from plans_by_hand import fsdp, plan, stage, tiny

from shardwise.launch import emit
from shardwise.models import Strategy, Transformer

pytestmark = pytest.mark.clients

WORLD, PARAMETERS, TIED, NORMS = 4, 180_800, 164_416, 9 * 64
ADAPTERS = 4 * 4 * (64 + 64 + 64 + 32)
"""Rank 4 on queries and values of four layers."""
FP32: dict[str, Any] = {"precision": "fp32", "gradient_dtype": "fp32"}
MIXED = stage(recompute_full_layers=2, recompute_selective_layers=1)
CUT: dict[str, Any] = {"tensor_parallel": 2, "stages": MIXED, **FP32}


def over(ranks: int, kind: str = "all_gather") -> dict[str, Any]:
    """A sequence over some ranks."""
    return {"context_parallel": ranks, "context_parallel_kind": kind}


class Case(NamedTuple):
    """A plan, and the elements of the weights that each rank must hold."""

    strategy: Strategy
    elements: int
    model: Transformer = tiny()
    job: dict[str, Any] = {}
    """Further fields of the job."""
    least: float = 0.18
    """By how much three steps lower the loss at least."""


CASES = {
    "zero 2": Case(fsdp(2, WORLD, **FP32), PARAMETERS // 4),
    "zero 3": Case(fsdp(3, WORLD, **FP32), PARAMETERS // 4),
    "zero 3 full": Case(fsdp(3, WORLD, stages=stage(recompute_full_layers=3), **FP32), PARAMETERS // 4),
    "inputs on the host": Case(
        fsdp(3, WORLD, stages=stage(recompute_full_layers=3), **FP32),
        PARAMETERS // 4,
        job={"offload_activations": True},
    ),
    "zero 3 selective": Case(
        fsdp(3, WORLD, stages=stage(recompute_selective_layers=4), **FP32), PARAMETERS // 4
    ),
    "zero 2 bf16": Case(fsdp(2, WORLD, stages=MIXED), PARAMETERS // 4),
    "zero 3 fp16": Case(
        fsdp(3, WORLD, precision="fp16", gradient_dtype="fp32", stages=MIXED), PARAMETERS // 4
    ),
    "zero 3 bf16 gradients": Case(fsdp(3, WORLD, gradient_dtype="bf16"), PARAMETERS // 4),
    "accumulated": Case(
        fsdp(3, WORLD, micro_batch_size=2, gradient_accumulation_steps=2, **FP32), PARAMETERS // 4
    ),
    "hybrid": Case(fsdp(3, WORLD, shard_group_size=2, stages=MIXED, **FP32), PARAMETERS // 2),
    "tensor": Case(fsdp(3, 2, **CUT), (PARAMETERS - NORMS) // 4 + NORMS // 2),
    "sequence": Case(fsdp(3, 2, sequence_parallel=True, **CUT), (PARAMETERS - NORMS) // 4 + NORMS // 2),
    "sequence bf16": Case(
        fsdp(2, 2, tensor_parallel=2, sequence_parallel=True), (PARAMETERS - NORMS) // 4 + NORMS // 2
    ),
    "tensor hybrid": Case(
        fsdp(3, 2, shard_group_size=1, sequence_parallel=True, **CUT), (PARAMETERS - NORMS) // 2 + NORMS
    ),
    "tied mistral": Case(
        fsdp(3, 2, sequence_parallel=True, **CUT),
        (TIED - NORMS) // 4 + NORMS // 2,
        tiny("mistral", tied=True),
    ),
    "biased qwen2": Case(
        fsdp(3, 2, sequence_parallel=True, **CUT),
        (PARAMETERS + 4 * 128 - NORMS) // 4 + NORMS // 2,
        tiny("qwen2", qkv_bias=True),
    ),
    "offloaded": Case(
        fsdp(
            3, WORLD, offload_optimizer="cpu", offload_params="cpu", stages=stage(offloaded_layers=4), **FP32
        ),
        PARAMETERS // 4,
    ),
    "frozen ends": Case(
        fsdp(3, WORLD, **FP32), PARAMETERS // 4, job={"frozen": ["embedding", "head"]}, least=0.01
    ),
    "adapters": Case(
        fsdp(3, WORLD, stages=MIXED, **FP32),
        (PARAMETERS + ADAPTERS) // 4,
        job={"trainable": "lora(4)", "lora_targets": ["q_proj", "v_proj"]},
        least=0.01,
    ),
    "late reduction": Case(
        fsdp(2, WORLD, micro_batch_size=2, gradient_accumulation_steps=2, **FP32),
        PARAMETERS // 4,
        job={"sync_each_batch": False},
    ),
    "no master": Case(fsdp(3, WORLD), PARAMETERS // 4, job={"master_weights": False}, least=0.01),
    "context gathered": Case(fsdp(3, 1, **over(4), stages=MIXED, **FP32), PARAMETERS // 4),
    "context around": Case(fsdp(2, 2, **over(2, "ring"), **FP32), PARAMETERS // 4),
    "context hybrid": Case(fsdp(3, 2, **over(2), shard_group_size=2, **FP32), PARAMETERS // 2),
    "context bf16": Case(fsdp(3, 2, **over(2, "ring"), micro_batch_size=2), PARAMETERS // 4),
    "context and tensor": Case(
        fsdp(3, 1, **over(2), sequence_parallel=True, **CUT), (PARAMETERS - NORMS) // 4 + NORMS // 2
    ),
    "root offloaded": Case(
        fsdp(3, WORLD, offload_optimizer="cpu", offload_params="cpu", **FP32), PARAMETERS // 4
    ),
    "offloaded in part": Case(
        fsdp(
            3, WORLD, offload_optimizer="cpu", offload_params="cpu", stages=stage(offloaded_layers=2), **FP32
        ),
        PARAMETERS // 4,
    ),
}
"""Names of all plans trained, with what they must leave on a rank."""


DTYPES = {
    "frozen ends": ["bfloat16", "float32"],
    "adapters": ["bfloat16", "float32"],
    "no master": ["bfloat16"],
}
"""Types of the weights where they are not float32."""


def job_of(case: Case, *, refused: bool = False, layers: int = 4) -> dict[str, Any]:
    """What the worker needs: the emitted text and the model to build."""
    made = plan(case.strategy, model=case.model, **case.job)
    return {
        "module": emit(made, "fsdp")["fsdp_plan.py"],
        "family": case.model.family,
        "tied": case.model.tied_embeddings,
        "layers": layers,
        "job": case.job,
        "sequences": made.request.training.global_batch_size,
        "refused": refused,
    }


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """What the four ranks tell of all plans, trained one after the other."""
    job = {name: job_of(case) for name, case in CASES.items()}
    job["eight ranks"] = job_of(Case(fsdp(3, 8, **FP32), 0), refused=True)
    job["three layers"] = job_of(Case(fsdp(3, WORLD, **FP32), 0), refused=True, layers=3)
    return run_ranks("worker_fsdp.py", job, WORLD, tmp_path_factory.mktemp("fsdp"), 300)


@pytest.mark.parametrize("name", CASES)
def test_losses_and_norms_equal_those_of_one_process(found: list[Any], name: str) -> None:
    """Three steps on one batch, which lower the loss by 0.2 or more: float32 within 5e-5, bfloat16 2e-2."""
    precise = CASES[name].strategy.precision == "fp32"
    plain = found[0][name]["plain"]
    for rank in found:
        losses, norms = rank[name]["losses"], rank[name]["norms"]

        assert losses[0] - losses[-1] > CASES[name].least
        assert losses == pytest.approx(plain["losses"], abs=5e-5 if precise else 2e-2)
        assert norms == pytest.approx(plain["norms"], rel=1e-4 if precise else 3e-2)


@pytest.mark.parametrize("name", CASES)
def test_each_rank_holds_its_share(found: list[Any], name: str) -> None:
    """float32 shards of the planned size, one unit a layer and the root, resharded at stage 3 only."""
    case = CASES[name]
    for rank in found:
        assert rank[name]["elements"] == case.elements
        assert rank[name]["dtypes"] == DTYPES.get(name, ["float32"])
        assert rank[name]["units"] == 5
        assert rank[name]["reshard"] == [case.strategy.zero_stage == 3] * 4


@pytest.mark.parametrize("name", CASES)
def test_ranks_read_the_data_of_their_coordinate(found: list[Any], name: str) -> None:
    """Data-parallel ranks are numbered once each; ranks of one tensor or one sequence read the same."""
    strategy = CASES[name].strategy
    inner = strategy.tensor_parallel * strategy.context_parallel
    expected = [[rank // inner, strategy.data_parallel] for rank in range(WORLD)]

    assert [rank[name]["data_rank"] for rank in found] == expected


@pytest.mark.parametrize("name", CASES)
def test_exactly_the_chosen_layers_run_twice(found: list[Any], name: str) -> None:
    """The first layers, whole or in part, pass twice through their first norm for each micro-batch."""
    strategy = CASES[name].strategy
    held = strategy.stages[0]
    again = held.recompute_full_layers + held.recompute_selective_layers
    each = [2 if index < again else 1 for index in range(held.layers)]
    for rank in found:
        assert rank[name]["passes"] == [strategy.gradient_accumulation_steps * count for count in each]


def test_recomputed_layers_cost_their_flops_again(found: list[Any]) -> None:
    """The products of a whole layer but the last, whose result nobody needs; in part those not kept.

    Two FLOPs a weight and token, one sequence of 32 tokens: q, k, v, o, gate and up of three whole layers;
    k, o and up of four layers in part, as the ledger prices it: every second product is kept.
    """
    query, key, inner = 64 * 64, 64 * 32, 64 * 128
    for rank in found:
        base = rank["zero 3"]["flops"]

        assert rank["zero 3 full"]["flops"] - base == 3 * 2 * 32 * (2 * query + 2 * key + 2 * inner)
        assert rank["zero 3 selective"]["flops"] - base == 4 * 2 * 32 * (key + query + inner)


def test_a_model_of_no_memory_gets_its_first_weights(found: list[Any]) -> None:
    """`load` without weights: the model's own deviation of 0.02, norms of one, rotary frequencies."""
    for rank in found:
        first = rank["zero 3"]["first"]

        assert first["deviation"] == pytest.approx(0.02, rel=0.1)
        assert first["norms"] == [1.0]
        assert first["rotary"] == pytest.approx([10_000 ** (-part / 8) for part in range(8)])


@pytest.mark.parametrize(
    ("name", "words"), [("eight ranks", "for 8 ranks, 4"), ("three layers", "for 4 layers")]
)
def test_another_world_or_model_is_refused(found: list[Any], name: str, words: str) -> None:
    """The module knows what it was written for."""
    for rank in found:
        assert words in rank[name]["error"]


def test_gradients_that_overflow_halve_the_scale() -> None:
    """The step is left out; after `steady` good ones the scale doubles; it never falls below one."""
    torch = pytest.importorskip("torch")
    from shardwise.launch.fsdp.parts.scaled import LossScale

    scale = LossScale(4.0)
    assert not scale.held(torch.tensor(float("inf"))) and scale.value == 2.0
    assert all(scale.held(torch.tensor(1.0)) for _ in range(LossScale.steady)) and scale.value == 4.0
    assert not any(scale.held(torch.tensor(float("nan"))) for _ in range(5)) and scale.value == 1.0
