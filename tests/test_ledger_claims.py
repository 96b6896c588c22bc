"""Claims often made about sharding memory and traffic, each at its right value and under its convention.

The claims are those of two widely copied pages: a side-by-side table of ZeRO stages for 30 B parameters
on 8 cards of 74.5 GiB (A) and a small calculator for 70 B parameters on 64 cards (B).
"""

from __future__ import annotations

import math
from typing import Any

import pytest

from shardwise.costs.scheme import Scheme, SideBySide, side_by_side

GIB = 2**30
P = 30_000_000_000
CARD = int(74.5 * GIB)


def table(gpus: int = 8, parameters: int = P, card_bytes: int = CARD, **options: Any) -> SideBySide:
    """The side-by-side table of claim A unless told otherwise."""
    return side_by_side(parameters, gpus, card_bytes=card_bytes, **options)


def scheme(name: str, **options: Any) -> Scheme:
    """One column of a table."""
    gpus = int(options.pop("gpus", 8))
    parameters = int(options.pop("parameters", P))
    found = table(gpus, parameters, **options)
    return next(column for column in found.schemes if column.name == name)


@pytest.mark.parametrize(
    ("name", "each", "gib"),
    [("DP", 16.0, 447.0), ("ZeRO-1", 5.5, 153.7), ("ZeRO-2", 3.75, 104.8), ("ZeRO-3", 2.0, 55.9)],
)
def test_bytes_a_parameter_and_a_card(name: str, each: float, gib: float) -> None:
    """A1, A2, A4, A6: 2 weight + 2 gradient + 12 optimizer bytes, sharded over 8."""
    column = scheme(name)

    assert column.bytes_per_parameter == each
    assert round(column.bytes_per_card / GIB, 1) == gib


@pytest.mark.parametrize(
    ("recipe", "each", "gib"),
    [
        ("zero-paper", 16.0, 447.03),
        ("megatron-bf16-adamw", 18.0, 502.9),
        ("megatron-fp16-adamw", 20.0, 558.8),
    ],
)
def test_data_parallel_by_recipe(recipe: str, each: float, gib: float) -> None:
    """A1: 16 bytes hold for the ZeRO paper's recipe only; Megatron keeps 18 (bf16) or 20 (fp16)."""
    column = scheme("DP", recipe=recipe)

    assert column.bytes_per_parameter == each
    assert column.bytes_per_card / GIB == pytest.approx(gib, abs=0.05)


def test_zero1_of_megatron_and_at_deepspeeds_step() -> None:
    """A2: Megatron's distributed optimizer keeps 6 + 12/8 = 7.5; DeepSpeed's step needs 4 + 16/8 = 6.0."""
    megatron = scheme("ZeRO-1", recipe="megatron-bf16-adamw")
    deepspeed = scheme("ZeRO-1", recipe="deepspeed-bf16-adamw")

    assert megatron.bytes_per_parameter == 7.5
    assert round(megatron.bytes_per_card / GIB, 1) == 209.5
    assert round(deepspeed.step_bytes_per_card / GIB, 1) == 167.6


def test_zero1_floor_is_a_floor_of_the_card_not_a_law() -> None:
    """A3: 4 bytes, 111.8 GiB: never on 74.5 GiB; on 141e9 bytes from 18 cards (12 P / (141e9 - 4 P))."""
    small = scheme("ZeRO-1")
    large = scheme("ZeRO-1", card_bytes=141_000_000_000)

    assert small.floor_bytes_per_parameter == 4.0
    assert round(small.floor_bytes_per_card / GIB, 1) == 111.8
    assert small.fits_from.any is None
    assert large.fits_from.any == math.ceil(12 * P / (141e9 - 4 * P))
    assert scheme("ZeRO-1", recipe="megatron-bf16-adamw").floor_bytes_per_parameter == 6.0


def test_zero2_at_deepspeeds_own_estimate() -> None:
    """A4: resident 2 + 14/8; DeepSpeed's estimator says 2 + 18/8 = 4.25 at the step, 118.7 GiB."""
    column = scheme("ZeRO-2", recipe="deepspeed-bf16-adamw")

    assert round(column.bytes_per_card / GIB, 2) == 104.77
    assert round(column.step_bytes_per_card / GIB, 1) == 118.7


@pytest.mark.parametrize(
    ("name", "any_count", "whole_nodes", "powers"),
    [("DP", None, None, None), ("ZeRO-1", None, None, None), ("ZeRO-2", 22, 24, 32), ("ZeRO-3", 7, 8, 8)],
)
def test_fits_from(name: str, any_count: int | None, whole_nodes: int | None, powers: int | None) -> None:
    """A3, A5, A6: "from 32 GPUs" is true of powers of two only; 22 by any count, 24 in whole nodes."""
    found = scheme(name).fits_from

    assert (found.any, found.whole_nodes, found.powers_of_two) == (any_count, whole_nodes, powers)


def test_fits_from_depends_on_card_and_recipe() -> None:
    """A5, A7: 21 at exactly 80e9 bytes, 17 on the 79.1 GiB a card exposes, 25 with fp32 gradients sharded."""
    assert scheme("ZeRO-2", card_bytes=80_000_000_000).fits_from.any == 21
    assert scheme("ZeRO-2", card_bytes=int(79.1 * GIB)).fits_from.any == 17
    wide = scheme("ZeRO-2", recipe="megatron-bf16-adamw").fits_from
    assert (wide.any, wide.whole_nodes) == (25, 32)


@pytest.mark.parametrize(
    ("name", "once", "accumulated"),
    [("DP", 2.0, 2.0), ("ZeRO-1", 2.0, 2.0), ("ZeRO-2", 2.0, 9.0), ("ZeRO-3", 3.0, 24.0)],
)
def test_traffic_in_multiples_of_p(name: str, once: float, accumulated: float) -> None:
    """A8, B5, B6: 2P, 2P, 2P, 3P hold at one micro-batch; at eight ZeRO-2 moves (m+1) P, ZeRO-3 3 m P."""
    column = scheme(name)

    assert column.traffic_parameters == once
    assert column.traffic_parameters_accumulated == accumulated


def test_traffic_in_bytes() -> None:
    """A8: 2P of 30 B bf16 is 120 GB times 7/8 = 105 GB; with fp32 gradients on the wire (4 + 2) P."""
    assert scheme("ZeRO-1").traffic_bytes_per_card == 105_000_000_000
    wide = scheme("ZeRO-1", recipe="megatron-bf16-adamw")
    assert wide.traffic_bytes_per_card == 6 * P * 7 // 8
    assert scheme("DP").traffic_bytes_per_card == 105_000_000_000


def test_fp8_gathers_do_not_halve_traffic() -> None:
    """A15: only gathers may be 8-bit: ZeRO-3 moves (1 + 1 + 2) of 6 bytes, ZeRO-1 3 of 4."""
    wide, narrow = scheme("ZeRO-3"), scheme("ZeRO-3", recipe="fp8-weights")
    first, second = scheme("ZeRO-1"), scheme("ZeRO-1", recipe="fp8-weights")

    assert narrow.traffic_bytes_per_card / wide.traffic_bytes_per_card == pytest.approx(4 / 6)
    assert second.traffic_bytes_per_card / first.traffic_bytes_per_card == pytest.approx(3 / 4)


def test_eight_bit_matmul_saves_little_state() -> None:
    """A14: 8-bit weights alone save 6.25 %; two MXFP8 copies beside bf16 weights cost more, not less."""
    plain = scheme("DP").bytes_per_parameter
    weights = scheme("DP", recipe="fp8-weights").bytes_per_parameter
    kept = scheme("DP", recipe="megatron-fp8-adamw").bytes_per_parameter
    mx = scheme("DP", recipe="megatron-mxfp8-adamw").bytes_per_parameter

    assert 1 - weights / plain == pytest.approx(0.0625)
    assert (kept, mx) == (20.0, 20.0625)


def test_optimizer_share() -> None:
    """A18: three quarters of 16 bytes; 67 % of 18; 57 % of 14 with bf16 moments."""
    shares = [
        table(recipe=name).recipe.optimizer_bytes / table(recipe=name).recipe.total_bytes
        for name in ("zero-paper", "megatron-bf16-adamw", "bf16-states-adamw")
    ]

    assert [round(share, 2) for share in shares] == [0.75, 0.67, 0.57]


def test_every_replicated_state_is_a_floor() -> None:
    """A20: floors of 16, 4, 2 and 0 bytes a parameter."""
    assert [column.floor_bytes_per_parameter for column in table().schemes] == [16.0, 4.0, 2.0, 0.0]


def test_percentages_at_one_convention() -> None:
    """B4: at 16 bytes and 8 cards 34.4, 23.4 and 12.5 %; at 12 bytes 41.7, 27.1 and 12.5 %."""

    def percents(recipe: str) -> list[float]:
        columns = table(recipe=recipe).schemes
        return [round(100 * c.bytes_per_parameter / columns[0].bytes_per_parameter, 1) for c in columns[1:]]

    assert percents("zero-paper") == [34.4, 23.4, 12.5]
    assert percents("fp16-no-master") == [41.7, 27.1, 12.5]


def test_seventy_billion_by_class() -> None:
    """B1, B2: 140 GB weights, 140 GB gradients, 840 GB fp32 Adam with master (560 GB without)."""
    with_master = table(64, 70_000_000_000).recipe
    without = table(64, 70_000_000_000, recipe="fp16-no-master").recipe

    assert with_master.weights_bytes * 70 == 140
    assert with_master.gradients_bytes * 70 == 140
    assert with_master.optimizer_bytes * 70 == 840
    assert without.optimizer_bytes * 70 == 560


@pytest.mark.parametrize(
    ("recipe", "gigabytes"),
    [
        ("zero-paper", 17.5),
        ("fp8-no-master", 10.9),
        ("fp16-no-master", 13.1),
        ("fp8-weights-gradients", 15.3),
        ("fp8-weights", 16.4),
        ("megatron-bf16-adamw", 19.7),
        ("megatron-mxfp8-adamw", 21.9),
    ],
)
def test_zero3_of_seventy_billion_on_64(recipe: str, gigabytes: float) -> None:
    """B15, B18: 17.5 GB at 16 bytes; the copied calculator's own formula gives 10.9, never 3.3."""
    column = scheme("ZeRO-3", gpus=64, parameters=70_000_000_000, recipe=recipe)

    assert round(column.bytes_per_card / 1e9, 1) == gigabytes


def test_stage_two_keeps_whole_weights() -> None:
    """B16: w + (g + o) / N: 150.9 GB at 2 + 2 + 8 bytes, 79.8 GB with 8-bit weights and gradients."""
    plain = scheme("ZeRO-2", gpus=64, parameters=70_000_000_000, recipe="fp16-no-master")
    eight = scheme("ZeRO-2", gpus=64, parameters=70_000_000_000, recipe="fp8-no-master")

    assert round(plain.bytes_per_card / 1e9, 1) == 150.9
    assert round(eight.bytes_per_card / 1e9, 1) == 79.8


def test_stages_zero_and_one_without_master() -> None:
    """B17: 840 and 288.8 GB without a master copy; 1,120 and 293.1 GB with it."""
    parameters = 70_000_000_000
    plain = [scheme(n, gpus=64, parameters=parameters, recipe="fp16-no-master") for n in ("DP", "ZeRO-1")]
    master = [scheme(n, gpus=64, parameters=parameters) for n in ("DP", "ZeRO-1")]

    assert [round(c.bytes_per_card / 1e9, 1) for c in plain] == [840.0, 288.8]
    assert [round(c.bytes_per_card / 1e9, 1) for c in master] == [1120.0, 293.1]


def test_offload_moves_states_to_the_host() -> None:
    """Optimizer offload takes 12/N off the card and asks the node for 24 bytes a parameter of its share."""
    plain = scheme("ZeRO-2")
    offloaded = scheme("ZeRO-2", offload="optimizer")

    assert plain.bytes_per_parameter - offloaded.bytes_per_parameter == 12 / 8
    assert offloaded.host_bytes_per_node == 24 * P
    assert plain.host_bytes_per_node == 0
