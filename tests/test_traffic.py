"""Bytes that cross links, worked by hand: layers, embedding and head."""

from __future__ import annotations

from typing import Any

import pytest

from shardwise import Cluster, Request, Training, price
from shardwise.plans import read_strategy

LAYERS, HIDDEN, VOCABULARY, LENGTH = 32, 4096, 128_256, 2048
PARAMETERS = 8_030_261_248
BATCH = 16


def sent(nodes: int, model: str = "llama-3.1-8b", **choices: Any) -> dict[str, int]:
    """Bytes of a card and step by axis, of a model on DGX H100."""
    request = Request(
        model=model,
        cluster=Cluster.preset("dgx-h100", nodes=nodes),
        training=Training(global_batch_size=BATCH, sequence_length=LENGTH),
    )
    strategy = read_strategy(
        {"micro_batch_size": 1, **choices}, request.model, "test", request.training, request.cluster.gpus
    )
    return {axis: sum(tiers.values()) for axis, tiers in price(request, strategy).traffic_bytes.items()}


@pytest.mark.parametrize(
    ("stack", "zero_1", "zero_2"),
    [
        ("deepspeed-2024", 2 * 2, 2 * 2),
        ("deepspeed-2023", 2, 2),
        ("colossal-2023", 2 * 2, 2),
        ("megatron-deepspeed-2020", 2, 2),
    ],
)
def test_a_step_sums_gradients_whole_or_not(stack: str, zero_1: int, zero_2: int) -> None:
    """Bytes a parameter of the sums, beside 2 of the weights gathered after the step, embedding and head too.

    DeepSpeed since 0.12.4 all-reduces buckets of ZeRO-1 and ZeRO-2, before that it reduced to the owner and
    in 2020 scattered; ZeRO-2 sums each of the two micro-batches.
    """
    found = [
        sent(1, backend="deepspeed", software_stack=stack, zero_stage=zero, gradient_dtype="bf16")["data"]
        for zero in (1, 2)
    ]

    assert found[0] == pytest.approx((zero_1 + 2) * PARAMETERS * 7 / 8, rel=1e-4)
    assert found[1] == pytest.approx((2 * zero_2 + 2) * PARAMETERS * 7 / 8, rel=1e-4)


def test_zero_1_that_sums_gradients_whole_moves_them_twice() -> None:
    """DeepSpeed of 2022 all-reduced them, then gathered weights: 3 x 2 bytes a parameter; ZeRO-0 does not."""
    stack = {"backend": "deepspeed", "software_stack": "megatron-deepspeed-2022", "gradient_dtype": "bf16"}
    whole, plain = (sent(1, zero_stage=zero, **stack)["data"] for zero in (1, 0))

    assert whole == pytest.approx((2 * 2 + 2) * PARAMETERS * 7 / 8, rel=1e-4)
    assert plain == pytest.approx(2 * 2 * PARAMETERS * 7 / 8, rel=1e-4)


def test_fully_sharded_ends_are_gathered_once_a_micro_batch() -> None:
    """FSDP: layers before each pass, embedding and head once; two micro-batches, fp32 reductions."""
    found = sent(1, backend="fsdp", zero_stage=3, recompute="none")
    ends = 2 * VOCABULARY * HIDDEN + HIDDEN
    layers = PARAMETERS - ends

    assert found["data"] == pytest.approx(2 * (layers * (2 * 2 + 4) + ends * (2 + 4)) * 7 / 8, rel=1e-4)


@pytest.mark.parametrize("chunks", [1, 2, 4])
def test_chunks_of_a_stage_share_the_embedding(chunks: int) -> None:
    """Interleaved or not, the embedding takes 4 T h (t - 1) / t bytes of a micro-batch once."""
    found = sent(
        1, backend="megatron", zero_stage=0, tensor_parallel=4, pipeline_parallel=2, sequence_parallel=True,
        virtual_pipeline=chunks, recompute="none",
    )  # fmt: skip
    layer, end = 16 * LENGTH * HIDDEN * 3 / 4, 4 * LENGTH * HIDDEN * 3 / 4

    assert found["tensor"] == pytest.approx(BATCH * (LAYERS / 2 * layer + end), rel=1e-4)


@pytest.mark.parametrize(("precision", "width"), [("bf16", 2), ("fp8", 1)])
@pytest.mark.parametrize("split", [True, False])
def test_sequence_parallel_ranks_gather_a_layer_s_operands(precision: str, width: int, split: bool) -> None:
    """Two pairs a pass gather what was quantised before and scatter sums of 16 bits; ends stay in 16 bits.

    Without sequence parallel all-reduces add up 16-bit numbers.
    """
    found = sent(
        1, backend="megatron", zero_stage=0, tensor_parallel=8, sequence_parallel=split, precision=precision,
        recompute="none",
    )  # fmt: skip
    states = LENGTH * HIDDEN * 7 / 8
    layer = 4 * ((width if split else 2) + 2) * states

    assert found["tensor"] == pytest.approx(BATCH * (LAYERS * layer + 2 * 4 * states), rel=1e-4)


@pytest.mark.parametrize("backend", ["deepspeed", "megatron"])
def test_first_and_last_stage_sum_the_gradient_of_a_tied_embedding(backend: str) -> None:
    """Llama-3.2 1B in two stages of one card: b_g V h once a step, beside 2 x 2 T h a micro-batch."""
    found = sent(1, "llama-3.2-1b", backend=backend, pipeline_parallel=2, zero_stage=1, gradient_dtype="bf16")
    handed, hidden = BATCH / 4 * 2 * 2 * LENGTH, 2048

    assert found["pipeline"] - handed * hidden == pytest.approx(2 * VOCABULARY * hidden, rel=1e-2)


def test_one_card_with_both_ends_sums_no_tied_embedding() -> None:
    """Under a schedule that lays first and last chunk on one card there is one copy."""
    usual, vee = (
        sent(
            1, "llama-3.2-1b", backend="megatron", pipeline_parallel=2, zero_stage=1, virtual_pipeline=chunks,
            pipeline_schedule=name, gradient_dtype="bf16",
        )
        for name, chunks in (("interleaved", 2), ("zb-v", 2))
    )  # fmt: skip

    assert usual["pipeline"] - vee["pipeline"] == pytest.approx(2 * VOCABULARY * 2048, rel=1e-2)
