"""The host's part of a layer: operations it launches by what a stack fuses, and hooks of sharded units."""

from __future__ import annotations

from typing import Any

import pytest

from shardwise.costs import Ledger, price
from shardwise.costs.adapter_work import adapter_seconds
from shardwise.costs.columns import WORDS, Strategies
from shardwise.costs.experts import floor_seconds, gate_bytes
from shardwise.costs.launches import launch_sets, layer_launches
from shardwise.costs.law import law
from shardwise.costs.layout import Layout
from shardwise.costs.products import memory_rate
from shardwise.costs.saved_sets import Routed, saved_bytes
from shardwise.hardware import Cluster
from shardwise.models import Stage, Strategy, Training, Transformer
from shardwise.models.stack import stacks


def layout(model: str = "llama-2-7b", stack: str = "fsdp-eager-2023", **job: Any) -> Layout:
    """One strategy of 8 cards with 8 sequences."""
    zero = job.pop("zero_stage", 3)
    transformer = Transformer.preset(model)
    strategy = Strategy(
        backend=stacks()[stack].backend,
        software_stack=stack,
        data_parallel=8,
        zero_stage=zero,
        shard_group_size=8 if zero else 1,
        reshard_after_forward=zero == 3,
        loss_kernel="eager",
        stages=(Stage(layers=transformer.layers),),
    )
    training = Training.model_validate({"global_batch_size": 8, "sequence_length": 256, **job})
    cluster = Cluster.preset("dgx-a100-80gb")
    return Layout(transformer, training, cluster, Strategies.of([strategy]))


def launched(model: str = "llama-2-7b", stack: str = "fsdp-eager-2023", **job: Any) -> float:
    """Operations of a layer's forward."""
    found = layout(model, stack, **job)
    return float(layer_launches(found, found.blocks[0])[0])


def priced(found: Layout, strategies: list[Strategy]) -> Ledger:
    """The ledger of the one strategy of a layout."""
    return price(found.transformer, found.training, found.cluster, strategies)[0]


def test_operations_of_a_llama_layer_by_hand() -> None:
    """Hugging Face's code: 7 products, 2 x 8 of norms, 10 of rotation, 2 of SwiGLU, 2 sums, 1 core;
    torchtitan's rotates in 6; keys of groups are written out twice; fused 4 products, 2 norms, 2, 1, 2, 1."""
    assert launched(stack="deepspeed-2024") == 7 + 16 + 10 + 2 + 2 + 1
    assert launched(stack="fsdp-eager-2023") == 7 + 16 + 6 + 2 + 2 + 1
    assert launched("llama-3.1-8b", "deepspeed-2024") == 38 + 2
    assert launched(stack="fsdp-compile-2024") == 4 + 2 + 2 + 1 + 2 + 1


def test_attention_written_out_is_seven_operations() -> None:
    """Two products, scale, mask, softmax, dropout, copy in place of one kernel."""
    fused, unfused = launched(stack="fsdp-compile-2024"), launched(stack="megatron-2022")
    assert unfused - fused == 7 - 1


def test_adapters_and_a_packed_base_launch_more() -> None:
    """Seven matrices: four operations an adapter, no dropout; three more for each 4-bit product."""
    plain = launched()
    assert launched(trainable="lora(8)") - plain == 7 * 4
    assert launched(trainable="qlora(8)") - plain == 7 * 4 + 7 * 3
    theirs = launched(stack="fsdp-hf-2024")
    assert launched(stack="fsdp-hf-2024", trainable="lora(8)") - theirs == 7 * (4 + 2)
    assert launched(stack="fsdp-hf-2024", trainable="qlora(8)") - theirs == 7 * (4 + 2 + 2) + 7 * 3


@pytest.mark.parametrize(("way", "each"), [("lora(8)", (12, 0)), ("qlora(8)", (12, 18))])
def test_peft_casts_inputs_and_outputs_of_its_adapters(way: str, each: tuple[int, int]) -> None:
    """An adapter in fp32 reads its input through two casts; beside a 4-bit base its output is fp32 too."""

    def beside(stack: str) -> float:
        found = layout(stack=stack, trainable=way)
        return float(adapter_seconds(found, found.blocks[0])[1][0] * memory_rate(found))

    inputs = 6 * 4096 + 11008
    outputs = 5 * 4096 + 2 * 11008
    cast = 256 * (each[0] * inputs + each[1] * outputs)
    assert beside("fsdp-hf-2023") - beside("fsdp-qlora-2024") == pytest.approx(cast)


def test_a_balanced_router_evens_time_memory_and_adapters_alike() -> None:
    """The busiest rank over the mean is one number of a stack: experts' bytes, saved copies, adapters."""
    job = {"trainable": "lora(8)", "lora_targets": "mlp"}
    even, uneven = (layout("mixtral-8x7b", name, **job) for name in ("automodel-2025", "fsdp-compile-2024"))
    block = even.blocks[0]

    def of_experts(found: Layout) -> tuple[float, float, float]:
        adapters, gates = adapter_seconds(found, block)[1][0], gate_bytes(found, block)[0]
        name = WORDS["software_stack"][found.strategies.software_stack[0]]
        dispatched = saved_bytes(block, 4096, "fused", routed=Routed.of(stacks()[name]))[2]
        return float(adapters), float(gates), dispatched

    assert even.blocks[0].feed_forward.experts and not even.blocks[0].feed_forward.shared_width
    for one, other in zip(of_experts(uneven), of_experts(even), strict=True):
        assert one / other == pytest.approx(law("expert_imbalance"))


def test_the_host_takes_its_time_for_each_operation() -> None:
    """The floor of a layer's forward is the stack's seconds of a launch times the launches."""
    found = layout()
    each = stacks()["fsdp-eager-2023"].host_launch_seconds
    assert float(floor_seconds(found, found.blocks[0])[0]) == pytest.approx(each * 34)


def test_every_stack_says_what_it_launches() -> None:
    """Each set of kernels has its launches for each kind of norm; none launches less than the fused."""
    sets, kinds = launch_sets(), {"rms", "layer", "scale", "none"}
    fused = sets["fused"]
    for name in {stack.moved_set or stack.activation_set for stack in stacks().values()}:
        mine = sets[name]
        assert set(mine.norm) == kinds
        assert all(mine.norm[kind] >= fused.norm[kind] for kind in kinds)
        assert mine.rotated >= fused.rotated and mine.gated >= fused.gated


def strategy_of(found: Layout, stack: str, zero: int, micro: int = 1) -> Strategy:
    """Eight data ranks."""
    return Strategy(
        backend=stacks()[stack].backend,
        software_stack=stack,
        data_parallel=8,
        micro_batch_size=micro,
        zero_stage=zero,
        shard_group_size=8 if zero else 1,
        reshard_after_forward=zero == 3,
        loss_kernel="eager",
        gradient_dtype="fp32",
        stages=(Stage(layers=found.transformer.layers),),
    )


def host_seconds(zero: int, sequence: int, stack: str = "fsdp-eager-2023", way: str = "all") -> float:
    """Seconds a step that the ledger gives to hooks of sharded units."""
    found = layout(stack=stack, sequence_length=sequence, trainable=way)
    ledger = priced(found, [strategy_of(found, stack, zero)])
    return ledger.terms_ns.get("host_overhead", 0) / 1e9


def test_hooks_of_sharded_units_show_where_the_device_waits_for_the_host() -> None:
    """Short passes wait for the launches of a layer's unit: at most U launches forward, 1.6 times that
    backward; long ones hide them; whole weights have none."""
    each = stacks()["fsdp-eager-2023"].host_launch_seconds * law("unit_launches")
    most = each * (1 + law("host_backward_floor")) * 32

    assert 0.7 * most < host_seconds(3, 128) <= most
    assert host_seconds(3, 65_536) < 0.01 * most
    assert host_seconds(0, 128) == 0


def test_adapters_are_units_where_weights_are_sharded_alone() -> None:
    """Under FSDP1 14 units more a layer where weights are cut over ranks; under plain data parallel none."""
    assert host_seconds(3, 128, way="lora(16)") > 5 * host_seconds(3, 128)
    assert host_seconds(0, 128, way="lora(16)") == 0


def test_short_steps_are_the_hosts() -> None:
    """Where the host is the slower one, half the sequence takes as long; where it is the faster one, half."""

    def seconds(sequence: int) -> float:
        found = layout(stack="deepspeed-2024", sequence_length=sequence, zero_stage=0)
        return priced(found, [strategy_of(found, "deepspeed-2024", 0)]).terms_ns["compute"] / 1e9

    assert seconds(128) > 0.9 * seconds(256)
    assert seconds(8192) < 0.55 * seconds(16_384)
