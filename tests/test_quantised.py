"""What training pays before products in 8 and 4 bits, beside the products themselves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from shardwise.costs.cards import training_factor
from shardwise.costs.columns import Strategies
from shardwise.costs.law import law
from shardwise.costs.layout import Layout
from shardwise.costs.products import LINEAR_BYTES, product_seconds
from shardwise.hardware import Cluster
from shardwise.hardware.catalogue import gemm_curve
from shardwise.models import Stage, Strategy, Training, Transformer

M, N, K = 4096.0, 14336.0, 8192.0


def layout(node: str, precision: str) -> Layout:
    strategy = Strategy.model_validate(
        {
            "backend": "megatron",
            "software_stack": "megatron-bridge-2025",
            "loss_kernel": "megatron",
            "gradient_dtype": "fp32",
            "precision": precision,
            "data_parallel": 8,
            "micro_batch_size": 1,
            "gradient_accumulation_steps": 1,
            "stages": (Stage(layers=32),),
        }
    )
    training = Training(global_batch_size=8, sequence_length=4096)
    cluster = Cluster.preset(node, nodes=1)
    return Layout(Transformer.preset("llama-3.1-8b"), training, cluster, Strategies.of([strategy]))


def seconds(made: Layout, m: float = M, n: float = N, *, linear: bool = True) -> float:
    return float(product_seconds(made, np.array([m]), np.array([n]), np.array([K]), linear=linear)[0])


@pytest.mark.parametrize(
    ("node", "precision", "moved"),
    [
        ("dgx-b200", "fp8", 2 + 2 + 1),
        ("dgx-h100", "fp8", 2 + 2 + 1 + 1),
        ("dgx-b200", "mxfp8", 2 + 2 * (1 + 1 / 32) + 2 / 32),
        ("dgx-b200", "nvfp4", 2 + 2 + 2 * (1 / 2 + 1 / 16) + 2 / 16),
    ],
)
def test_an_input_is_read_and_written_as_its_recipe_says(node: str, precision: str, moved: float) -> None:
    """Product by its curve and the card's factor; reads for the largest value, read, writes on both sides."""
    made = layout(node, precision)
    gpu = made.cluster.node.gpu
    alone = replace(gemm_curve(gpu, precision), launch_seconds=0.0, quantise_bytes=0.0).seconds(
        M, N, K,
        peak_flops_per_s=gpu.peak_flops_per_s(precision) or 0.0,
        hbm_bytes_per_s=gpu.hbm_bytes_per_s,
        bytes_per_element=LINEAR_BYTES[precision],
        sms=gpu.sms,
    )  # fmt: skip
    product = (training_factor(made.cluster, precision) or 0.0) * float(alone)
    started = gemm_curve(gpu, "bf16").launch_seconds
    read = moved * M * K / (law("hbm_share") * gpu.hbm_bytes_per_s)

    assert seconds(made) == pytest.approx(product + started + read, rel=2e-3)


def test_what_is_quantised_is_the_input_alone() -> None:
    """Twice the columns of a wide product take twice its own time and no more of the quantisation."""
    made = layout("dgx-b200", "mxfp8")
    once, twice = seconds(made, n=16 * N), seconds(made, n=32 * N)

    assert 0 < 2 * once - twice < 0.1 * once
    assert seconds(made, m=0.0) == 0.0


def test_products_in_16_bits_quantise_nothing() -> None:
    """The head of an 8-bit run costs what it costs in a 16-bit run."""
    assert seconds(layout("dgx-b200", "mxfp8"), linear=False) == seconds(layout("dgx-b200", "bf16"))
