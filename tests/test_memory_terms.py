"""Terms of card memory, each against its formula worked by hand for Llama-3.1 8B."""

from __future__ import annotations

from typing import Any

import pytest

from shardwise.costs import Ledger, price
from shardwise.costs.law import law
from shardwise.costs.saved_sets import saved_bytes, score_bytes
from shardwise.costs.sharding import whole_below
from shardwise.hardware import Cluster
from shardwise.models import Stage, Strategy, Training, Transformer
from shardwise.models.backend import backend
from shardwise.models.stack import stack

KIB, GIB = 1024, 2**30
H, LAYERS, VOCABULARY = 4096, 32, 128256
LAYER, ROOT = 218_112_000, 2 * VOCABULARY * H + H
"""Parameters of one layer; of embedding, head and final norm."""


def ledger(
    length: int = 4096, cards: int = 8, kept: int = LAYERS, master: bool = True, **knobs: Any
) -> Ledger:
    """FSDP over `cards` cards of 80 GB; layers that are not kept are recomputed whole."""
    full = LAYERS - kept
    values: dict[str, Any] = {
        "backend": "fsdp",
        "software_stack": "fsdp-eager-2023",
        "data_parallel": cards,
        "zero_stage": 3,
        "shard_group_size": cards,
        "reshard_after_forward": True,
        "gradient_dtype": "fp32",
        "stages": (Stage(layers=LAYERS, recompute_full_layers=full),),
    }
    strategy = Strategy(**{**values, **knobs})
    batch = strategy.data_parallel * strategy.micro_batch_size
    training = Training(global_batch_size=batch, sequence_length=length, master_weights=master)
    cluster = Cluster.of_gpus("dgx-h100", cards)
    return price(Transformer.preset("llama-3.1-8b"), training, cluster, [strategy])[0]


def term(found: Ledger, moment: str, name: str, stage: int = 0) -> float:
    """Bytes of a term."""
    return found.stages[stage].moments_kib[moment].get(name, 0) * KIB


def test_the_live_layer_is_a_saved_set_and_half_a_layer_of_gradients() -> None:
    """Eager layers of 8B save 41.03 h a token: 168,072 bytes; at 4,096 tokens 1.5 of it."""
    block = Transformer.preset("llama-3.1-8b").kinds[0]
    unsplit, split, _ = saved_bytes(block, H, "eager")

    assert unsplit + split == 168_064
    assert term(ledger(kept=0), "backward", "live_layer") == pytest.approx(1.5 * 168_064 * 4096, abs=KIB)


def test_scores_of_unfused_attention_have_no_gradients_beside_them() -> None:
    """5 a s bytes a token stand once in the live layer, the rest one and a half times."""
    block = Transformer.preset("llama-3.1-8b").kinds[0]
    unsplit, split, _ = saved_bytes(block, H, "unfused", 4096)
    scores = score_bytes(block, "unfused", 4096)
    found = ledger(
        kept=0,
        backend="megatron",
        software_stack="megatron-2022",
        zero_stage=0,
        shard_group_size=1,
        reshard_after_forward=False,
        loss_kernel="megatron",
    )

    assert scores == 5 * 32 * 4096
    assert term(found, "backward", "live_layer") == pytest.approx(
        (1.5 * (unsplit + split) - 0.5 * scores) * 4096, abs=KIB
    )


def test_inputs_kept_by_full_recompute_leave_no_holes() -> None:
    """The allocator's share is of everything but them and the live layer."""
    found = ledger(kept=0)
    moment = found.stages[0].moments_kib["backward"]
    whole = sum(moment.values()) - moment["fragmentation"] - moment["runtime"]
    uniform = moment["activations"] + moment["live_layer"]

    assert moment["activations"] * KIB == LAYERS * 2 * H * 4096
    assert moment["fragmentation"] == pytest.approx(law("fragmentation_share") * (whole - uniform), abs=60)


def test_kept_layers_do_leave_holes() -> None:
    """With every layer kept, its saved set counts too."""
    moment = ledger().stages[0].moments_kib["forward"]
    whole = sum(moment.values()) - moment["fragmentation"] - moment["runtime"]

    assert moment["fragmentation"] == pytest.approx(law("fragmentation_share") * whole, abs=60)


def test_memory_planned_before_the_run_has_no_holes() -> None:
    """OneFlow places every block when it compiles the graph."""
    found = ledger(
        backend="megatron",
        software_stack="oneflow-2021",
        zero_stage=0,
        shard_group_size=1,
        reshard_after_forward=False,
        loss_kernel="megatron",
    )

    assert all("fragmentation" not in terms for terms in found.stages[0].moments_kib.values())


def test_memory_planned_before_the_run_is_refused_at_its_own_peak_alone() -> None:
    """Where no block leaves a hole the least that is needed is the peak; a cache's least is less."""
    planned, cached = ledger(software_stack="llmq-2026"), ledger(software_stack="fsdp-compile-2024")

    assert planned.refusal_kib == planned.peak_kib
    assert cached.refusal_kib < cached.peak_kib
    assert planned.peak_kib < cached.refusal_kib


def test_liger_holds_the_logits_of_a_chunk_and_two_gradients() -> None:
    """4,096 tokens in 32 shares (128,256 / 4,096 = 31.3) of 128: 2 x 128 V, and gradients 2 T h and 2 V h."""
    knobs: dict[str, Any] = {"backend": "deepspeed", "software_stack": "deepspeed-liger-2025"}
    found = ledger(loss_kernel="chunked", **knobs)
    wide = ledger(loss_kernel="chunked", length=4160, **knobs)
    rest = 2 * VOCABULARY * H

    assert term(found, "forward", "logits") == 2 * 128 * VOCABULARY + 2 * 4096 * H + rest
    assert term(wide, "forward", "logits") == pytest.approx(
        2 * 256 * VOCABULARY + 2 * 4160 * H + rest, abs=KIB
    )


def test_a_loss_in_place_of_the_logits_holds_them_once_a_chunk_at_a_time() -> None:
    """2 bytes an entry, and half of it in two chunks."""
    whole, halves = (ledger(loss_kernel=name) for name in ("in-place", "in-place-2"))

    assert term(whole, "forward", "logits") == 2 * 4096 * VOCABULARY
    assert term(halves, "forward", "logits") == 4096 * VOCABULARY


def test_gathered_units_and_their_gradients_stand_apart() -> None:
    """Backward: root and two layers in 16 bits; gradients of a layer in 16 and 32 bits, of the head in 16."""
    found = ledger(kept=0)

    assert term(found, "backward", "gathered_units") == pytest.approx(2 * ROOT + 4 * LAYER, abs=3 * KIB)
    assert term(found, "backward", "unsharded_gradients") == pytest.approx(
        6 * LAYER + 2 * (VOCABULARY * H + H), abs=3 * KIB
    )
    assert term(found, "gradients", "gathered_units") == 0
    assert term(found, "gradients", "unsharded_gradients") == pytest.approx(6 * ROOT, abs=3 * KIB)


def test_the_embedding_output_is_the_first_layers_input() -> None:
    """It is kept apart only until the loss, once, however many micro-batches are in flight."""
    found = ledger()

    assert term(found, "forward", "embedding_output") == 2 * H * 4096
    assert term(found, "backward", "embedding_output") == 0


def test_sequence_parallel_gathers_the_whole_sequence() -> None:
    """Input and gradient of one product, 2 x 2 T h, though every saved tensor is split."""
    whole = ledger(cards=2, data_parallel=1, tensor_parallel=2, shard_group_size=1, sequence_parallel=True)
    split = ledger(cards=2, data_parallel=1, tensor_parallel=2, shard_group_size=1)

    assert term(whole, "backward", "tensor_buffers") == 4 * H * 4096
    assert term(whole, "forward", "tensor_buffers") == 4 * H * 4096
    assert term(split, "backward", "tensor_buffers") == 0


def test_context_ranks_hold_keys_and_values_on_their_way() -> None:
    """Two buffers of keys and values, 8 kappa T; gathered all of them, with gradients; none without."""
    cut: dict[str, Any] = {"data_parallel": 4, "context_parallel": 2}
    ring = ledger(length=8192, cards=8, context_parallel_kind="ring", **cut)
    gathered = ledger(length=8192, cards=8, context_parallel_kind="all_gather", **cut)

    assert term(ring, "backward", "context_buffers") == 8 * 1024 * 4096
    assert term(gathered, "backward", "context_buffers") == 8 * 1024 * 8192
    assert term(ledger(), "backward", "context_buffers") == 0


def test_overlapped_reduction_takes_a_second_bucket() -> None:
    """DeepSpeed with overlap_comm: two reduce buckets and one of the all-gather, 5e8 elements each."""
    knobs: dict[str, Any] = {"backend": "deepspeed", "zero_stage": 2, "reshard_after_forward": False}
    plain = ledger(software_stack="megatron-deepspeed-2022", **knobs)
    overlapped = ledger(software_stack="deepspeed-2024", **knobs)

    assert term(plain, "backward", "buckets") == pytest.approx(2 * 2 * 5e8, abs=KIB)
    assert term(overlapped, "backward", "buckets") == pytest.approx(3 * 2 * 5e8, abs=KIB)


def test_a_model_built_before_it_is_cut_lies_whole_on_each_card() -> None:
    """All weights in 16 bits beside their shards, at load."""
    knobs: dict[str, Any] = {"backend": "deepspeed", "zero_stage": 3, "loss_kernel": "chunked"}
    whole = ledger(software_stack="deepspeed-liger-2025", **knobs)
    cut = ledger(software_stack="deepspeed-2024", **knobs)
    weights = 2 * (LAYERS * LAYER + ROOT)
    runtime = term(whole, "step", "runtime")

    assert whole.load_kib * KIB == pytest.approx(weights + weights / 8 + runtime, rel=1e-4)
    assert cut.load_kib * KIB == pytest.approx(14 / 2 * weights / 8 + runtime, rel=1e-4)


def test_adam_over_all_parameters_together_brings_a_temporary() -> None:
    """Foreach: four more bytes a parameter of the shard, at the step alone; a fused step has none."""
    together = ledger(kept=0)
    fused = ledger(kept=0, software_stack="fsdp-compile-2024")

    assert term(together, "step", "step_temporary") == pytest.approx(
        4 * (LAYERS * LAYER + ROOT) / 8, abs=40 * KIB
    )
    assert term(together, "gradients", "step_temporary") == term(fused, "step", "step_temporary") == 0


def test_zero3_steps_a_sub_group_at_a_time() -> None:
    """DeepSpeed ZeRO-3 on one card copies 1e9 gradients to fp32, ZeRO-2 all of them."""
    knobs: dict[str, Any] = {
        "backend": "deepspeed",
        "software_stack": "deepspeed-2024",
        "cards": 1,
        "gradient_dtype": "bf16",
    }
    third = ledger(**knobs)
    second = ledger(zero_stage=2, reshard_after_forward=False, **knobs)

    assert term(third, "step", "step_copy") == pytest.approx(4e9, rel=1e-4)
    assert term(second, "step", "step_copy") == pytest.approx(4 * (LAYERS * LAYER + ROOT), rel=1e-4)


def test_the_roots_gradients_are_reduced_last() -> None:
    """At the end of the backward only those of layers are shards; accumulated ones are all kept."""
    once = ledger(kept=0)
    twice = ledger(kept=0, gradient_accumulation_steps=2)

    assert term(once, "gradients", "gradients") == pytest.approx(4 * LAYERS * LAYER / 8, rel=1e-4)
    assert term(once, "step", "gradients") == pytest.approx(4 * (LAYERS * LAYER + ROOT) / 8, rel=1e-4)
    assert term(twice, "gradients", "gradients") == term(twice, "step", "gradients")


def test_gradients_that_go_to_the_host_leave_one_layers_shard_in_the_pool() -> None:
    """Offloaded: 4 N_layer / d beside the gathered root, not the shards of all layers."""
    held, gone = (ledger(offload_optimizer=place, offload_params=place) for place in ("none", "cpu"))

    assert term(held, "backward", "stream_pools") == pytest.approx(
        4 * (LAYERS * LAYER + ROOT) / 8 + 2 * ROOT, abs=40 * KIB
    )
    assert term(gone, "backward", "stream_pools") == pytest.approx(4 * LAYER / 8 + 2 * ROOT, abs=3 * KIB)


def test_embedding_and_head_may_be_units_of_their_own() -> None:
    """torchtune: the head is gathered at the loss, neither in the backward."""
    apart = ledger(kept=0, software_stack="torchtune-eager-2024")
    head = VOCABULARY * H + H

    assert term(apart, "forward", "gathered_units") == pytest.approx(2 * head, abs=3 * KIB)
    assert term(apart, "backward", "gathered_units") == pytest.approx(4 * LAYER, abs=3 * KIB)
    assert term(apart, "backward", "unsharded_gradients") == pytest.approx(6 * LAYER, abs=3 * KIB)


def test_a_stack_may_keep_states_in_its_own_way() -> None:
    """OneFlow in 16 bits: fp32 variables, gradients and moments, 16 bytes, where Megatron has 20."""
    knobs: dict[str, Any] = {
        "backend": "megatron",
        "zero_stage": 0,
        "shard_group_size": 1,
        "reshard_after_forward": False,
        "loss_kernel": "megatron",
        "precision": "fp16",
        "gradient_dtype": "fp16",
    }
    own, usual = (
        ledger(software_stack="oneflow-2021", **knobs),
        ledger(software_stack="megatron-2022", **knobs),
    )

    assert (own.recipe, own.recipe_bytes) == (
        "oneflow-fp16-adam",
        {"weights": 4, "gradients": 4, "optimizer": 8, "frozen": 0},
    )
    assert sum(usual.recipe_bytes.values()) == 20


def test_a_stack_is_as_its_parent_but_for_what_it_says() -> None:
    """Liger under DeepSpeed: times of DeepSpeed, fused layers."""
    child, parent = stack("deepspeed-liger-2025"), stack("deepspeed-2024")

    assert child.memory_factor == parent.memory_factor
    assert (child.activation_set, parent.activation_set) == ("fused", "hf-eager")


def test_16_bit_weights_whole_on_one_card_are_used_in_place() -> None:
    """Without a master copy nothing is gathered; fp32 weights are still cast unit by unit."""
    knobs: dict[str, Any] = {
        "cards": 1,
        "gradient_dtype": "bf16",
        "zero_stage": 2,
        "reshard_after_forward": False,
    }
    in_place, cast = ledger(master=False, **knobs), ledger(**knobs)

    for moment in ("forward", "backward"):
        assert term(in_place, moment, "gathered_units") == term(in_place, moment, "unsharded_gradients") == 0
    assert term(cast, "backward", "gathered_units") == pytest.approx(2 * (LAYERS * LAYER + ROOT), rel=1e-4)
    assert term(in_place, "gradients", "gradients") == pytest.approx(2 * (LAYERS * LAYER + ROOT), rel=1e-4)


@pytest.mark.parametrize(("name", "software"), [("deepspeed", "deepspeed-2024"), ("megatron", "nemo-2024")])
def test_a_warning_names_the_stage_from_which_the_ledger_cuts_a_state(name: Any, software: str) -> None:
    """Below it a data rank holds as much as without ZeRO, from it on an eighth; Megatron cuts no gradient."""
    known = backend(name)
    held: dict[int, Ledger] = {
        stage: ledger(
            backend=name, software_stack=software, zero_stage=stage, gradient_dtype="bf16",
            shard_group_size=8 if stage else 1, reshard_after_forward=stage == 3,
        )
        for stage in known.zero_stages
    }  # fmt: skip
    told = whole_below(known)

    assert set(told) == ({"optimizer"} if name == "megatron" else {"weights", "gradients", "optimizer"})
    for state in ("weights", "gradients", "optimizer"):
        whole = term(held[0], "step", state)
        for stage, found in held.items():
            share = 8 if stage >= told.get(state, 4) else 1
            assert term(found, "step", state) == pytest.approx(whole / share, rel=1e-3)


def test_fp32_training_doubles_activations_and_gathered_units() -> None:
    """No 16-bit copies: 4 bytes an activation and a gathered weight."""
    half, single = ledger(kept=0), ledger(kept=0, precision="fp32")

    for name in ("activations", "live_layer"):
        assert term(single, "backward", name) == pytest.approx(2 * term(half, "backward", name), rel=1e-6)
    assert term(single, "forward", "gathered_units") == pytest.approx(4 * ROOT, abs=3 * KIB)
