"""Element-wise work and losses: bytes that kernels read and write follow from what a stack fuses."""

from __future__ import annotations

import numpy as np
import pytest

from shardwise import Cluster, Request, Strategy, Training, Transformer, price
from shardwise.costs.attention import core_seconds
from shardwise.costs.columns import Strategies
from shardwise.costs.elementwise import memory_seconds, moved_sets
from shardwise.costs.kernels import head_seconds
from shardwise.costs.layout import Layout
from shardwise.costs.logits import loss_moved_bytes
from shardwise.costs.products import memory_rate
from shardwise.models.recipe import losses
from shardwise.models.stack import stacks
from shardwise.models.strategy import Stage
from shardwise.plans import read_strategy

TOKENS = 4096


def layout(model: str, stack: str, loss: str = "eager", tensor: int = 1) -> Layout:
    """One micro-batch of 4096 tokens on one DGX A100."""
    transformer, cluster = Transformer.preset(model), Cluster.preset("dgx-a100-80gb")
    strategy = Strategy(
        backend=stacks()[stack].backend,
        software_stack=stack,
        data_parallel=8 // tensor,
        tensor_parallel=tensor,
        shard_group_size=8 // tensor,
        zero_stage=3,
        reshard_after_forward=True,
        loss_kernel=loss,
        stages=(Stage(layers=transformer.layers),),
    )
    training = Training(global_batch_size=8 // tensor, sequence_length=TOKENS)
    return Layout(transformer, training, cluster, Strategies.of([strategy]))


def bytes_a_token(model: str, stack: str) -> float:
    """Bytes a token that a layer's forward moves beside its products and attention."""
    priced = layout(model, stack)
    return float(memory_seconds(priced, priced.blocks[0])[0]) * memory_rate(priced) / TOKENS


def test_a_fused_llama_layer_by_hand() -> None:
    """Llama 2 7B: h = q = kappa = 4096, f = 11008: 20 h + 4 (q + kappa) + 6 f = 180,736 bytes a token."""
    assert bytes_a_token("llama-2-7b", "fsdp-compile-2024") == pytest.approx(180_736)


def test_an_eager_llama_layer_by_hand() -> None:
    """The same by operations: 2 x 36 h + 12 h of norms and sums, 20 (q + kappa), 10 f = 617,984 bytes."""
    assert bytes_a_token("llama-2-7b", "deepspeed-2024") == pytest.approx(617_984)
    assert bytes_a_token("llama-2-7b", "fsdp-eager-2023") == pytest.approx(617_984)


def test_a_gradient_copied_to_fp32_before_it_is_added_moves_twelve_bytes_more() -> None:
    """DeepSpeed's BF16_Optimizer: 2 read and 4 written, then 4, 4 and 4, where a 16-bit sum moves 6."""
    request = Request(
        model="llama-2-7b",
        cluster=Cluster.preset("dgx-a100-80gb"),
        training=Training(global_batch_size=32, sequence_length=1024),
    )
    strategies = [
        read_strategy(
            {"backend": "deepspeed", "zero_stage": 1, "micro_batch_size": 1, "gradient_dtype": kind},
            request.model, "test", request.training, 8,
        )
        for kind in ("fp32", "bf16")
    ]  # fmt: skip
    wide, narrow = (price(request, strategy).terms_ns["accumulation"] for strategy in strategies)
    parameters, batches = 6_738_415_616, 4

    assert (wide - narrow) / 1e9 == pytest.approx(12 * parameters * batches / (0.85 * 2.039e12), rel=1e-2)


def test_a_sum_of_gradients_moves_its_own_width() -> None:
    """Megatron Core adds into bf16 or fp32: 2 bytes written, then 2 + 2 or 4 + 4 of the sum."""
    request = Request(
        model="llama-2-7b",
        cluster=Cluster.preset("dgx-a100-80gb"),
        training=Training(global_batch_size=32, sequence_length=1024),
    )
    added = []
    for kind in ("bf16", "fp32"):
        values = {"backend": "megatron", "zero_stage": 1, "micro_batch_size": 1, "gradient_dtype": kind}
        strategy = read_strategy(values, request.model, "test", request.training, 8)
        added.append(price(request, strategy).terms_ns["accumulation"])

    assert added[0] / added[1] == pytest.approx(6 / 10, rel=1e-3)


def test_the_first_gradient_of_a_card_alone_is_taken_as_it_lies() -> None:
    """PyTorch adds from the second micro-batch on; where gradients are reduced the first is copied, too."""

    def added(cards: int, batches: int) -> int:
        request = Request(
            model="llama-3.2-1b",
            cluster=Cluster.of_gpus("dgx-a100-80gb", cards),
            training=Training(global_batch_size=cards * batches, sequence_length=1024),
        )
        values = {"backend": "fsdp", "zero_stage": 0, "micro_batch_size": 1}
        strategy = read_strategy(values, request.model, "test", request.training, cards)
        return price(request, strategy).terms_ns.get("accumulation", 0)

    assert added(1, 1) == 0 < added(8, 1)
    assert added(1, 4) == pytest.approx(3 * added(8, 1), rel=1e-3)


def test_scores_scaled_and_masked_by_operators_move_eight_bytes_more() -> None:
    """Scale and mask read and write 2 bytes a head, query and key, and so do their gradients."""
    found = []
    for stack in ("deepspeed-written-out-2021", "megatron-deepspeed-2022"):
        priced = layout("gpt2", stack)
        found.append(np.concatenate(core_seconds(priced, priced.blocks[0].mixers[0])) * memory_rate(priced))
    scores = TOKENS * 12 * TOKENS

    assert found[0] - found[1] == pytest.approx([8 * scores, 8 * scores], rel=1e-6)


def test_grouped_keys_are_written_out_where_the_stack_does() -> None:
    """Llama 3.1 8B: q = 4096, kappa = 1024: Hugging Face's code writes 4 q more than torchtitan's."""
    more = bytes_a_token("llama-3.1-8b", "deepspeed-2024") - bytes_a_token("llama-3.1-8b", "fsdp-eager-2023")

    assert more == pytest.approx(4 * 4096)


def test_every_stack_says_what_it_moves_and_eager_moves_most() -> None:
    """Each set of saved activations has its bytes for each kind of norm; no set moves less than the fused."""
    sets = moved_sets()
    fused = sets["fused"]
    for name in {stack.moved_set or stack.activation_set for stack in stacks().values()}:
        mine = sets[name]
        assert set(mine.norm) == {"rms", "layer", "scale", "none"}
        assert all(mine.norm[kind] >= fused.norm[kind] for kind in mine.norm)
        assert mine.rotated >= fused.rotated and mine.gated >= fused.gated


def test_a_layer_norm_is_one_kernel_in_any_stack() -> None:
    """Only the root-mean-square norm has no kernel of its own in plain torch; states in fp32 move twice."""
    for name, moved in moved_sets().items():
        assert moved.norm["layer"] == (8 if name == "hf-kbit" else 4)


def test_tensor_parallel_leaves_norms_whole_without_sequence_parallel() -> None:
    """Over two ranks the split part halves, residuals and norms do not."""
    whole, halved = (
        layout("llama-2-7b", "fsdp-compile-2024"),
        layout("llama-2-7b", "fsdp-compile-2024", tensor=2),
    )
    one, two = (float(memory_seconds(one, one.blocks[0])[0]) * memory_rate(one) for one in (whole, halved))

    assert one - two == pytest.approx(TOKENS * (4 * 8192 + 6 * 11008) / 2)


@pytest.mark.parametrize("loss", sorted(losses()))
def test_a_loss_takes_the_time_of_what_it_moves(loss: str) -> None:
    """Head and loss differ between two losses by the bytes moved of 32,000 entries a token."""
    mine, other = (layout("llama-2-7b", "deepspeed-2024", name) for name in (loss, "chunked"))
    moved = (loss_moved_bytes(mine) - loss_moved_bytes(other))[0] * TOKENS * 32000

    assert float((head_seconds(mine) - head_seconds(other))[0]) == pytest.approx(
        moved / memory_rate(mine), abs=1e-12
    )
