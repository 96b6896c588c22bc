"""Parameters by component, and FLOPs a token."""

from __future__ import annotations

import pytest

from shardwise.models import Attention, Block, FeedForward, Run, Transformer, count, training_flops_per_token

WIDE = Attention(heads=4, kv_heads=2, head_dim=8)
DENSE = Block(attention=WIDE, feed_forward=FeedForward(width=48))
SPARSE = Block(
    attention=WIDE,
    feed_forward=FeedForward(width=16, experts=8, experts_per_token=2, shared_width=24, shared_gate=True),
)


def stack(*runs: tuple[Block, int], tied: bool = False) -> Transformer:
    """A model of hidden size 32 and vocabulary 100."""
    return Transformer(
        name="stack",
        family="test",
        hidden_size=32,
        vocab_size=100,
        runs=tuple(Run(block=block, layers=layers) for block, layers in runs),
        tied_embeddings=tied,
    )


def test_a_dense_layer_is_its_matrices_and_its_norms() -> None:
    """h q + 2 h kappa + q h, three h f when gated, two norms of h."""
    layer = count(stack((DENSE, 1))).layers[0]

    assert layer.attention == 32 * 32 + 2 * 32 * 16 + 32 * 32
    assert layer.dense == 3 * 32 * 48
    assert layer.replicated == 2 * 32
    assert layer.total == layer.active == 3072 + 4608 + 64


def test_a_sparse_layer_counts_all_experts_but_activates_few() -> None:
    """Total holds 8 experts, active 2; both hold router, shared expert and its gate."""
    layer = count(stack((SPARSE, 1))).layers[0]

    assert layer.experts == 8 * 3 * 32 * 16
    assert layer.dense == 3 * 32 * 24
    assert layer.replicated == 2 * 32 + 8 * 32 + 32
    assert layer.total - layer.active == 6 * 3 * 32 * 16


def test_tied_embeddings_are_counted_once() -> None:
    """Tying takes exactly one vocabulary times hidden size away."""
    assert count(stack((DENSE, 2))).total - count(stack((DENSE, 2), tied=True)).total == 100 * 32


def test_a_mixed_stack_is_the_sum_of_its_kinds_by_depth() -> None:
    """Equal blocks in separate runs are one kind; each layer knows its own."""
    model = stack((DENSE, 1), (SPARSE, 2), (DENSE, 1))
    counted = count(model)

    assert model.kinds == (DENSE, SPARSE)
    assert model.kind_of_layer == (0, 1, 1, 0)
    assert model.layers == 4
    dense, sparse = (layer.total for layer in counted.layers)
    assert counted.total == 2 * 100 * 32 + 32 + 2 * dense + 2 * sparse


def test_components_add_up_to_the_total() -> None:
    """Embedding, positions, head, final norm and layers: nothing is counted beside them."""
    for name in ("gpt2-xl", "opt-350m", "gemma-2-9b", "qwen1.5-moe-a2.7b", "deepseek-v3"):
        model = Transformer.preset(name)
        found = count(model)
        layers = sum(found.layers[kind].total for kind in model.kind_of_layer)

        assert found.total == found.embedding + found.positions + found.head + found.final_norm + layers


@pytest.mark.parametrize(
    ("name", "sequence", "giga"),
    [("llama-3.1-8b", 8192, 51.5), ("llama-3.1-70b", 8192, 449), ("llama-3.1-405b", 8192, 2524)],
)
def test_flops_a_token_are_those_of_published_runs(name: str, sequence: int, giga: float) -> None:
    """The counts behind NVIDIA's reported model TFLOP/s (Megatron Bridge), 6 (N - V h) + 6 L q s."""
    found = training_flops_per_token(Transformer.preset(name), sequence) / 1e9

    assert found == pytest.approx(giga, rel=0.002)


def test_a_window_cuts_attention_flops() -> None:
    """A query meets (s + 1) / 2 keys on average, under a window w at most w of them."""
    wide = stack((DENSE, 1))
    narrow = stack((DENSE.model_copy(update={"attention": WIDE.model_copy(update={"window": 64})}), 1))
    extra = training_flops_per_token(wide, 1024) - training_flops_per_token(narrow, 1024)

    assert extra == pytest.approx(6 * (32 + 32) * (1025 / 2 - (64 * 65 / 2 + 960 * 64) / 1024))


def test_only_active_experts_cost_flops() -> None:
    """An expert more, not chosen more often, costs its router row alone."""
    forward = SPARSE.feed_forward.model_copy(update={"experts": 9})
    more = stack((SPARSE.model_copy(update={"feed_forward": forward}), 1))

    assert training_flops_per_token(more, 64) - training_flops_per_token(stack((SPARSE, 1)), 64) == 6 * 32
