"""What training pays before products in 8 and 4 bits, beside the products themselves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from shardwise.costs.cards import training_factor
from shardwise.costs.columns import Strategies
from shardwise.costs.law import law
from shardwise.costs.layout import Layout
from shardwise.costs.products import (
    Cut,
    Local,
    Passes,
    Product,
    product_seconds,
    quantise_seconds,
)
from shardwise.hardware import Cluster
from shardwise.hardware.catalogue import gemm_curve
from shardwise.models import Stage, Strategy, Training, Transformer
from shardwise.models.strategy import ELEMENT_BYTES, Precision

M, N, K = 4096.0, 14336.0, 8192.0


def layout(node: str, precision: str, tensor: int = 1) -> Layout:
    strategy = Strategy.model_validate(
        {
            "backend": "megatron",
            "software_stack": "megatron-bridge-2025",
            "loss_kernel": "megatron",
            "gradient_dtype": "fp32",
            "precision": precision,
            "data_parallel": 8 // tensor,
            "tensor_parallel": tensor,
            "sequence_parallel": tensor > 1,
            "micro_batch_size": 1,
            "gradient_accumulation_steps": 1,
            "stages": (Stage(layers=32),),
        }
    )
    training = Training(global_batch_size=8 // tensor, sequence_length=4096)
    cluster = Cluster.preset(node, nodes=1)
    return Layout(Transformer.preset("llama-3.1-8b"), training, cluster, Strategies.of([strategy]))


def passes(made: Layout, m: float = M, n: float = N, trained: float = 1.0) -> Passes:
    sides = (np.array([side]) for side in (m, n, K))
    return Local.whole(*sides).passes(made, trained)


def moving(made: Layout, moved: float, elements: float) -> float:
    """Seconds in which so many bytes an element move."""
    return moved * elements / (law("hbm_share") * made.cluster.node.gpu.hbm_bytes_per_s)


@pytest.mark.parametrize(
    ("node", "precision", "moved"),
    [
        ("dgx-b200", "fp8", 2 + 2 + 1),
        ("dgx-h100", "fp8", 2 + 2 + 1 + 1),
        ("dgx-b200", "mxfp8", 2 + 2 * (1 + 1 / 32) + 2 / 32),
        ("dgx-b200", "nvfp4", 2 + 2 + 2 * (1 / 2 + 1 / 16) + 2 / 16),
    ],
)
def test_an_input_is_read_and_written_as_its_recipe_says(
    node: str, precision: Precision, moved: float
) -> None:
    """Product by its curve and the card's factor; reads for the largest value, read, writes on both sides.

    The gradient of the output is made narrow once for both products of the backward.
    """
    made = layout(node, precision)
    gpu = made.cluster.node.gpu
    alone = replace(gemm_curve(gpu, precision), launch_seconds=0.0, quantise_bytes=0.0).seconds(
        M, N, K,
        peak_flops_per_s=gpu.peak_flops_per_s(precision) or 0.0,
        hbm_bytes_per_s=gpu.hbm_bytes_per_s,
        bytes_per_element=ELEMENT_BYTES[precision],
        sms=gpu.sms,
    )  # fmt: skip
    product = (training_factor(made.cluster, precision) or 0.0) * float(alone)
    started = gemm_curve(gpu, "bf16").launch_seconds
    found = passes(made)

    assert float(found.forward[0]) == pytest.approx(product + started + moving(made, moved, M * K), rel=2e-3)
    both = 2 * (product + started)
    assert float(found.backward[0]) == pytest.approx(both + moving(made, moved, M * N), rel=2e-3)
    assert float(found.weight[0]) == pytest.approx(product + started, rel=2e-3)


def test_a_frozen_weight_has_one_product_in_the_backward() -> None:
    """The gradient of the input needs that of the output narrow all the same."""
    made = layout("dgx-b200", "mxfp8")
    trained, frozen = passes(made), passes(made, trained=0.0)

    assert frozen.forward == trained.forward
    assert frozen.backward == pytest.approx(trained.backward - trained.weight)
    assert frozen.weight == 0.0


def test_what_is_quantised_is_the_input_alone() -> None:
    """Twice the columns of a wide product take twice its own time and no more of the input's quantisation."""
    made = layout("dgx-b200", "mxfp8")
    once, twice = (float(passes(made, n=columns * N).forward[0]) for columns in (16, 32))

    assert 0 < 2 * once - twice < 0.1 * once
    assert passes(made, m=0.0).forward == 0.0


@pytest.mark.parametrize("cut", ["column", "row"])
def test_sequence_parallel_quantises_its_own_tokens_before_it_gathers(cut: Cut) -> None:
    """Of four ranks each makes a quarter of inputs and of gradients narrow, by tokens or by columns."""
    made = layout("dgx-b200", "mxfp8", tensor=4)
    found = Local.of(made, Product(int(N), int(K), cut))

    assert found.read == pytest.approx(M * K / 4)
    assert found.written == pytest.approx(M * N / 4)


def test_without_sequence_parallel_every_rank_quantises_what_all_share() -> None:
    """Inputs of a matrix cut by columns are whole on every rank, and so are gradients of one cut by rows."""
    made = layout("dgx-b200", "mxfp8", tensor=4)
    off = replace(made.strategies, sequence_parallel=np.zeros(1, dtype=np.int64))
    plain = Layout(made.transformer, made.training, made.cluster, off)

    assert Local.of(plain, Product(int(N), int(K), "column")).read == pytest.approx(M * K)
    assert Local.of(plain, Product(int(N), int(K), "row")).written == pytest.approx(M * N)


def test_products_in_16_bits_quantise_nothing() -> None:
    """The head of an 8-bit run costs what it costs in a 16-bit run, which has no quantisation."""
    sides = [np.array([side]) for side in (M, N, K)]
    narrow, wide = layout("dgx-b200", "mxfp8"), layout("dgx-b200", "bf16")

    assert product_seconds(narrow, *sides, linear=False) == product_seconds(wide, *sides, linear=False)
    assert quantise_seconds(wide, np.array([M * K])) == 0.0
    assert passes(wide).forward == product_seconds(wide, *sides, linear=True)
