"""Scripts one to eight of first users: what an expert would answer, within the tolerance an expert gives."""

from __future__ import annotations

from typing import Any

import pytest

from shardwise import NoPlan, Plan, Request, plan
from shardwise.models import Strategy
from shardwise.plans import Check, read_question, read_strategy
from shardwise.plans.report import price
from shardwise.solver import Case, check, compare, curve

pytestmark = pytest.mark.slow

GB = 10**9
TOLERANCE = 0.15


def ask(model: str, preset: str, gpus: int, batch: int, length: int, **more: Any) -> Request:
    """A request on a catalogue node type."""
    training = {"global_batch_size": batch, "sequence_length": length, **more.pop("training", {})}
    cluster = {"preset": preset, "gpus": gpus}
    return Request.model_validate({"model": model, "cluster": cluster, "training": training, **more})


def given(request: Request, **knobs: Any) -> Strategy:
    """A strategy for it, completed."""
    return read_strategy(knobs, request.model, "test", request.training, request.cluster.gpus)


def near(expected: float) -> Any:
    """Within the experts' tolerance."""
    return pytest.approx(expected, rel=TOLERANCE)


def test_1_eight_billion_on_eight_cards() -> None:
    """ZeRO-2 keeps 2 P + 14 P / 8 = 30.1 GB of states, ZeRO-3 16 P / 8 = 16.1 GB; both fit."""
    request = ask("llama-3.1-8b", "dgx-a100-80gb", 8, 64, 4096)
    judged: dict[int, Check] = {}
    for stage, states in ((2, 30.1), (3, 16.1)):
        knobs = {"zero_stage": stage, "micro_batch_size": 1, "recompute": "full"}
        judged[stage] = check(request, given(request, backend="deepspeed", **knobs))
        terms = judged[stage].memory.terms_bytes
        held = sum(terms.get(name, 0) for name in ("weights", "gradients", "optimizer")) / GB
        assert held == near(states)
        assert terms["activations"] / GB == near(1.1)
        assert judged[stage].memory.verdict == "fits"
    assert judged[3].memory.total_bytes < judged[2].memory.total_bytes
    loss = judged[2].loss_percent
    assert loss is not None and loss > 10, "a larger micro-batch without recompute is faster"


def test_2_seventy_billion_on_sixteen_cards() -> None:
    """States alone are 70.6 GB a card: no plain fit without offload or fewer bytes; ways out are told."""
    request = ask("llama-3.1-70b", "dgx-a100-80gb", 16, 64, 4096)
    full = given(request, backend="fsdp", zero_stage=3, micro_batch_size=1, recompute="full")
    terms = price(request, [full])[0].stages[0].terms_kib
    states = sum(terms[name] for name in ("weights", "gradients", "optimizer")) * 1024 / GB
    assert states == near(70.6)
    plain = check(request, full)
    assert plain.verdict in ("risky", "does_not_fit")

    bare = plan(request.changed({"choose.offload_optimizer": "none"}))
    if isinstance(bare, Plan):
        assert bare.memory.total_bytes / bare.memory.usable_bytes > 0.8, "only with small margin"
    else:
        assert isinstance(bare, NoPlan)
        sets = " ".join(cure.set for cure in bare.cures)
        assert "offload_optimizer=cpu" in sets
        assert "adamw-8bit" in sets
        assert "cluster.nodes=3" in sets
    offloaded = plan(request)
    assert isinstance(offloaded, Plan)
    assert offloaded.strategy.offload_optimizer == "cpu"
    assert {offer.set for offer in offloaded.offers} >= {"optimizer=adamw-8bit", "nodes=3"}


def test_3_what_nvlink_would_give() -> None:
    """1.2 to 1.4 times at 4 sequences a card; near none where 8 micro-batches share one reduction."""
    question = read_question(None, {"model": "qwen2.5-1.5b"}, _TWO_CARDS)
    cases = [
        Case("pcie", {"cluster.link": "pcie", "cluster.island_gpus": 1}),
        Case("nvlink", {"cluster.link": "pairs", "cluster.island_gpus": 2}),
    ]
    gains = {}
    for batch in (8, 64):
        found = compare(question.request.changed({"training.global_batch_size": batch}), cases)
        steps = {row.name: row.step_seconds or 0.0 for row in found.rows}
        gains[batch] = steps["pcie"] / steps["nvlink"]
    assert 1.2 < gains[8] < 1.4
    assert gains[64] < 1.1


_TWO_CARDS = (
    "cluster.gpu=A100-PCIe-80GB", "cluster.gpus_per_node=2", "cluster.link=pcie", "cluster.island_gpus=1",
    "global_batch_size=8", "sequence_length=2048", "backend=deepspeed", "zero_stage=0", "micro_batch_size=4",
    "offload_optimizer=none",
)  # fmt: skip


def test_4_a_four_bit_base_on_two_cards() -> None:
    """DeepSpeed does not divide a 4-bit base: none of its layouts fits 24 GB; FSDP divides it and fits.

    Turing cards have fp16 alone. With every layer recomputed about 19 GB, 13 of them weights, beside CUDA.
    """
    request = Request.model_validate(
        {
            "model": "mixtral-8x7b",
            "cluster": {"gpu": "TITAN-RTX", "gpus_per_node": 2, "link": "pcie"},
            "training": {"global_batch_size": 16, "sequence_length": 1024, "trainable": "qlora(16)"},
        }
    )
    refused = plan(request.changed({"choose.backend": "deepspeed", "limits.memory_margin": 0.0}))
    assert isinstance(refused, NoPlan)
    assert any("frozen weights" in reason for reason in refused.reasons)
    fits = plan(request)
    assert isinstance(fits, Plan)
    assert (fits.strategy.backend, fits.strategy.precision) == ("fsdp", "fp16")
    assert fits.memory.verdict == "fits"
    lean = check(
        request, given(request, backend="fsdp", micro_batch_size=1, recompute="full", precision="fp16")
    )
    terms = lean.memory.terms_bytes
    assert terms["frozen_weights"] / GB == near(13)
    assert (lean.memory.total_bytes - terms["runtime"]) / GB == near(19)


def test_5_the_host_decides() -> None:
    """All offloaded on one card: 18 bytes a parameter and half more of pinned slack exceed 744 GB."""
    request = ask(
        "qwen2.5-32b", "NC80adis_H100_v5", 1, 16, 2048,
        choose={"backend": "deepspeed"}, limits={"host_memory_bytes": 744 * GB},
    )  # fmt: skip
    knobs = {"zero_stage": 3, "offload_optimizer": "cpu", "offload_params": "cpu", "recompute": "full"}
    strategy = given(request, backend="deepspeed", micro_batch_size=1, **knobs)
    layers = request.model.layers
    stages = tuple(stage.model_copy(update={"offloaded_layers": layers}) for stage in strategy.stages)
    judged = check(request, strategy.model_copy(update={"stages": stages}))
    assert judged.memory.verdict == "fits"
    assert judged.memory.host_verdict in ("risky", "does_not_fit")
    assert judged.memory.host_bytes_per_node / GB == near(885)


def test_6_zero_2_cannot_hold_mixtral() -> None:
    """2 x 46.7 = 93 GB of weights stay on each card at any batch; ZeRO-3 needs offload or sixteen cards."""
    request = ask("mixtral-8x7b", "dgx-h100", 8, 64, 4096, choose={"zero_stage": 2})
    answer = plan(request)
    assert isinstance(answer, NoPlan)
    assert {member.limit for member in answer.conflict} == {
        "choose.zero_stage",
        "cluster.node.gpu.memory_usable_bytes",
    }
    assert any("weights 87.0" in reason for reason in answer.reasons)
    two = check(request, given(request, backend="deepspeed", zero_stage=2, micro_batch_size=1))
    hints = [warning.hint for warning in two.warnings if warning.code == "card-too-small"]
    assert len(hints) == 1 and "weights, whole on each of 8 data ranks below ZeRO stage 3" in hints[0]
    three = plan(request.changed({"choose.zero_stage": 3, "choose.offload_optimizer": "none"}))
    assert isinstance(three, NoPlan)
    assert any(cure.set == "cluster.nodes=2" for cure in three.cures)


def test_7_four_key_value_heads() -> None:
    """tensor_parallel 8 is refused with its reason; the plan spreads experts, tensors by 4 at most."""
    request = ask("qwen3-30b-a3b", "dgx-h100", 8, 64, 4096, choose={"backend": "megatron"})
    refused = plan(request.changed({"choose.tensor_parallel": 8}))
    assert isinstance(refused, NoPlan)
    assert any("kv_heads 4" in reason for reason in refused.reasons)
    best = plan(request)
    assert isinstance(best, Plan)
    assert best.strategy.tensor_parallel <= 4
    assert best.strategy.expert_parallel > 1


def test_8_the_curve() -> None:
    """8, 16, 32 and 64 divide 512, others tell the nearest that do; speed grows nearly with the cards."""
    request = ask("llama-3.1-8b", "dgx-h100", 8, 512, 4096)
    rows = curve(request, range(8, 65, 8)).rows
    exact = [row.gpus for row in rows if row.global_batch_exact]
    assert exact == [8, 16, 32, 64]
    nearest = {row.gpus: row.nearest_exact_batches for row in rows}
    assert 504 in nearest[24] and 480 in nearest[40]
    speed = {row.gpus: row.tokens_per_second or 0.0 for row in rows}
    assert [speed[count] for count in exact] == sorted(speed[count] for count in exact)
    assert speed[64] / speed[8] > 8 * 0.85, "near linear on 400 Gb/s a card"
    assert all(row.needs_reshard for row in rows[1:])
    assert [row.gpus_per_node for row in rows] == [8] * 8
