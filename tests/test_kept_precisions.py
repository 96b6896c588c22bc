"""What lies in 8 bits, or in fp32 under autocast: weights, inputs of products, and copies of either."""

from __future__ import annotations

from typing import Any

import pytest

from shardwise.costs import Ledger, price
from shardwise.costs.law import law
from shardwise.costs.saved_sets import saved_bytes
from shardwise.hardware import Cluster
from shardwise.models import Stage, Strategy, Training, Transformer

KIB, GIB = 1024, 2**30
LAYERS, LAYER, ROOT = 32, 218_112_000, 2 * 128256 * 4096 + 4096
"""Layers of Llama-3.1 8B, parameters of one; of embedding, head and final norm."""


def ledger(
    preset: str = "dgx-h100",
    cards: int = 8,
    full: int = 0,
    steps: int = 1,
    job: dict[str, Any] | None = None,
    **knobs: Any,
) -> Ledger:
    """Llama-3.1 8B at 4,096 tokens on `cards` cards, one sequence a micro-batch."""
    values: dict[str, Any] = {
        "data_parallel": cards,
        "shard_group_size": cards if knobs.get("zero_stage") else 1,
        "gradient_dtype": "fp32",
        "gradient_accumulation_steps": steps,
        "stages": (Stage(layers=LAYERS, recompute_full_layers=full),),
    }
    training = Training(global_batch_size=cards * steps, sequence_length=4096, **(job or {}))
    cluster = Cluster.of_gpus(preset, cards)
    strategy = Strategy(**{**values, **knobs})
    return price(Transformer.preset("llama-3.1-8b"), training, cluster, [strategy])[0]


def megatron(preset: str, stack: str, precision: str = "fp8", **more: Any) -> Ledger:
    """Megatron without sharding of weights."""
    return ledger(
        preset,
        backend="megatron",
        software_stack=stack,
        precision=precision,
        loss_kernel="megatron",
        zero_stage=1,
        reshard_after_forward=False,
        **more,
    )


def fsdp(stack: str, zero: int, **more: Any) -> Ledger:
    """FSDP in bf16."""
    return ledger(
        backend="fsdp", software_stack=stack, zero_stage=zero, reshard_after_forward=zero == 3, **more
    )


def term(found: Ledger, moment: str, name: str) -> float:
    """Bytes of a term."""
    return found.stages[0].moments_kib[moment].get(name, 0) * KIB


@pytest.mark.parametrize(
    ("preset", "stack", "each"),
    [
        ("dgx-h100", "megatron-core-2025", 4),
        ("dgx-b200", "megatron-core-2025", 3),
        ("dgx-h100", "nemo-fp8-weights-2025", 2),
        ("dgx-b200", "nemo-fp8-weights-2025", 1),
    ],
)
def test_a_card_that_reads_operands_transposed_holds_no_transposed_copy(
    preset: str, stack: str, each: int
) -> None:
    """A byte of fp8 lies beside 16-bit weights or in their place, before Blackwell once more transposed.

    Embedding and head stay in 16 bits: no 8-bit product reads them.
    """
    found = megatron(preset, stack)

    assert term(found, "step", "weights") == pytest.approx(each * LAYERS * LAYER + 2 * ROOT, rel=1e-6)
    assert found.recipe_bytes["weights"] == each


def test_frozen_weights_lie_in_8_bits_where_the_stack_keeps_them_so() -> None:
    """Under adapters once, on Hopper too: their transposed copy is made anew in each backward."""
    job: dict[str, Any] = {"trainable": "lora(16)"}
    each = {
        preset: term(megatron(preset, "nemo-fp8-weights-2025", job=job), "step", "frozen_weights")
        / (LAYERS * LAYER + 2 * ROOT)
        for preset in ("dgx-h100", "dgx-b200")
    }

    assert each == {"dgx-h100": pytest.approx(1), "dgx-b200": pytest.approx(1)}


def test_8_bit_products_keep_their_inputs_in_8_bits() -> None:
    """Of 34 h Llama-3 8B spares 2 h of norms and 3.5 h of the last matrix; attention's copy adds h."""
    block = Transformer.preset("llama-3.1-8b").kinds[0]
    unsplit, split, _ = saved_bytes(block, 4096, "fused", inputs_bits=8)
    short, long = (
        term(megatron("dgx-h100", "megatron-core-2025", precision), "forward", "activations")
        for precision in ("fp8", "bf16")
    )

    assert unsplit + split == 29.5 * 4096 + 4 * 32
    assert long - short == pytest.approx(4.5 * 4096 * 4096 * LAYERS, rel=1e-6)


def test_a_router_reads_its_input_in_16_bits() -> None:
    """So the feed-forward's input of a layer of experts does not halve."""
    block = Transformer.preset("mixtral-8x7b").kinds[0]
    halved, whole = (saved_bytes(block, 4096, "fused", inputs_bits=bits)[0] for bits in (8, 16))

    assert whole - halved == 1 * 4096


def test_adapters_read_inputs_in_16_bits() -> None:
    """Frozen 8-bit products keep none, so nothing shrinks."""
    job: dict[str, Any] = {"trainable": "lora(16)"}
    short, long = (
        term(megatron("dgx-h100", "megatron-core-2025", precision, job=job), "forward", "activations")
        for precision in ("fp8", "bf16")
    )

    assert short == long


def test_fsdp_without_a_policy_gathers_and_holds_fp32() -> None:
    """Autocast casts what is gathered: frozen weights and units are 4 bytes, inputs of layers too."""
    found = fsdp("atorch-2024", 3, full=LAYERS, job={"trainable": "lora(16)", "lora_targets": ["q_proj"]})
    usual = fsdp("fsdp-hf-2023", 3, full=LAYERS, job={"trainable": "lora(16)", "lora_targets": ["q_proj"]})

    for name in ("frozen_weights", "gathered_units"):
        assert term(found, "forward", name) == pytest.approx(2 * term(usual, "forward", name), rel=1e-6)


def test_layers_wrapped_from_outside_return_keys_and_values() -> None:
    """Of a recomputed layer stay its fp32 input, and 16-bit keys and values: 4 h + 2 x 2 x 1024 a token."""
    found = fsdp("atorch-2024", 3, full=LAYERS)

    assert term(found, "forward", "activations") == (4 * 4096 + 4 * 1024) * 4096 * LAYERS


def test_autocast_copies_frozen_fp32_weights() -> None:
    """Without FSDP each product keeps a 16-bit copy for its backward; none stays where layers run again."""
    job: dict[str, Any] = {"trainable": "lora(8)", "lora_targets": ["q_proj"]}
    kept, again = (fsdp("litgpt-mixed-2023", 0, full=full, job=job) for full in (0, LAYERS))
    layers = 2 * LAYER * LAYERS

    copies, left = (term(each, "forward", "autocast_copies") for each in (kept, again))
    assert copies - left == pytest.approx(layers, rel=1e-6)
    assert term(kept, "forward", "frozen_weights") == pytest.approx(4 * (LAYER * LAYERS + ROOT), rel=1e-6)


def test_a_flat_unit_has_a_gradient_of_its_frozen_weights() -> None:
    """Unreduced between micro-batches it is whole, in the type of the reduction."""
    job: dict[str, Any] = {"trainable": "lora(8)", "lora_targets": ["q_proj"], "master_weights": False}
    whole, shard = (
        fsdp(
            "litgpt-2023", 3, steps=2, gradient_dtype="bf16", job={**job, "sync_each_batch": synced}
        )
        for synced in (False, True)
    )  # fmt: skip
    apart = fsdp("fsdp-hf-2023", 3, steps=2, gradient_dtype="bf16", job=job)
    adapters = 8 * (4096 + 4096) * LAYERS

    assert term(whole, "forward", "gradients") == pytest.approx(2 * (LAYERS * LAYER + adapters), rel=1e-5)
    assert term(shard, "forward", "gradients") == pytest.approx(2 * (LAYERS * LAYER + adapters) / 8, rel=1e-5)
    assert term(apart, "forward", "gradients") == pytest.approx(2 * adapters / 8, abs=KIB)


def test_deepspeed_without_zero_flattens_fp32_gradients_beside_themselves() -> None:
    """In fp16 each is cast, then all are put into one tensor: 8 bytes a parameter at the step; sharded, 4."""
    values: dict[str, Any] = {
        "backend": "deepspeed",
        "software_stack": "deepspeed-2024",
        "precision": "fp16",
        "gradient_dtype": "fp16",
        "reshard_after_forward": False,
        "loss_kernel": "hf-eager",
    }
    none, first = (ledger(zero_stage=zero, **values) for zero in (0, 1))
    parameters = LAYERS * LAYER + ROOT

    assert term(none, "step", "step_copy") == pytest.approx(8 * parameters, rel=1e-6)
    assert term(first, "step", "step_copy") == pytest.approx(4 * parameters / 8, rel=1e-6)


@pytest.mark.parametrize(("preset", "narrow"), [("dgx-h100", False), ("ws-8x-rtx-4090", True)])
def test_nccl_opens_few_channels_over_pci_express(preset: str, narrow: bool) -> None:
    """A group takes 0.6 GiB over NVLink; over PCI Express 40 MiB, beside the context of one card."""
    found = term(ledger(preset, backend="fsdp", software_stack="fsdp-eager-2023", zero_stage=3,
                        reshard_after_forward=True), "forward", "runtime")  # fmt: skip
    base, each = ("alone_bytes", "narrow_group_bytes") if narrow else ("bytes", "group_bytes")

    assert found == pytest.approx(law(f"runtime_{base}") + law(f"runtime_{each}"), abs=KIB)
    assert (found < 1.1 * GIB) == narrow


def test_a_product_keeps_what_was_gathered_for_it_where_autograd_keeps_its_input() -> None:
    """Of 4 tensor ranks each keeps 4 h a token of norms' outputs, no quarter; unsplit nothing changes."""

    def kept(name: str, split: bool) -> float:
        cut = {
            "tensor_parallel": 4,
            "sequence_parallel": split,
            "cards": 4,
            "data_parallel": 1,
            "shard_group_size": 1,
        }
        return term(megatron("dgx-h100", name, "bf16", **cut), "forward", "activations")

    again, whole = "nanotron-2024", "nanotron-gathered-2024"
    assert kept(whole, True) - kept(again, True) == pytest.approx(0.75 * 4 * 4096 * 4096 * LAYERS, rel=1e-6)
    assert kept(whole, False) == kept(again, False)
