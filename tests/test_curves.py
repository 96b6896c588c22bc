"""Measured curves: published points come out again, and physics holds for any input."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardwise.hardware import Gpu, catalogue, network
from shardwise.hardware.collective import bus_share as share_of
from shardwise.hardware.collective import knots_of
from shardwise.inputs import InputError

MIB = 2**20
SIDES = st.integers(1, 32768)


def gemm_flops(name: str, precision: str, m: int, n: int, k: int, size: float) -> float:
    """FLOP/s of one matrix product by the curve of a card."""
    card = catalogue.gpu(name)
    seconds = catalogue.gemm_curve(name, precision).seconds(
        m,
        n,
        k,
        peak_flops_per_s=card.peak_flops_per_s(precision) or 0.0,
        hbm_bytes_per_s=card.hbm_bytes_per_s,
        bytes_per_element=size,
        sms=card.sms,
    )
    return 2.0 * m * n * k / float(seconds)


def bus(payload: float, ranks: int, kind: Any) -> float:
    """Bytes each rank moves for a tensor of `payload` bytes."""
    return payload * share_of(kind, ranks)


@pytest.mark.parametrize(
    ("name", "precision", "share"),
    [
        ("H100-SXM-80GB", "bf16", 0.774),
        ("H200-SXM", "bf16", 0.771),
        ("B200-SXM", "bf16", 0.678),
        ("H100-SXM-80GB", "fp8", 0.635),
        ("B200-SXM", "mxfp8", 0.593),
    ],
)
def test_large_products_reach_the_measured_share_of_peak(name: str, precision: str, share: float) -> None:
    """Mean of m 4,096 to 16,384 by n = k 8,192 and 16,384 by aiconfigurator: shapes no fit has seen."""
    size = 2.0 if precision == "bf16" else 1.0
    peak = catalogue.gpu(name).peak_flops_per_s(precision) or 0.0
    shapes = [(m, side, side) for m in (4096, 8192, 16384) for side in (8192, 16384)]
    reached = np.mean([gemm_flops(name, precision, *shape, size) for shape in shapes]) / peak

    assert reached == pytest.approx(share, rel=0.08)


@pytest.mark.parametrize(
    ("name", "precision", "shape", "tflops"),
    [
        ("H100-SXM-80GB", "bf16", (256, 4096, 4096), 459.1),
        ("H100-SXM-80GB", "bf16", (256, 8192, 8192), 609.0),
        ("A100-SXM-80GB", "bf16", (1024, 8192, 8192), 258.2),
        ("A100-SXM-80GB", "bf16", (8192, 2048, 2048), 254.2),
        ("B200-SXM", "bf16", (8192, 16384, 16384), 1681.6),
        ("GB300", "fp4", (4096, 16384, 16384), 5502.2),
        ("B300-SXM", "fp4", (8192, 8192, 8192), 4500.6),
    ],
)
def test_measured_products(name: str, precision: str, shape: tuple[int, int, int], tflops: float) -> None:
    """Single points of the same tables, within the 90 % error of the fit (at most 30 %)."""
    size = {"bf16": 2.0, "fp4": 0.5625}[precision]

    assert gemm_flops(name, precision, *shape, size) / 1e12 == pytest.approx(tflops, rel=0.3)


@settings(deadline=None)
@given(m=SIDES, n=SIDES, k=SIDES, faster=st.floats(1, 8), precision=st.sampled_from(["bf16", "fp8"]))
def test_a_faster_card_is_never_slower(m: int, n: int, k: int, faster: float, precision: str) -> None:
    """More peak or more memory bandwidth never lengthens a product, and no product beats the peak."""
    card = catalogue.gpu("H100-SXM-80GB")
    curve = catalogue.gemm_curve(card, precision)
    peak, hbm = card.peak_flops_per_s(precision) or 0.0, card.hbm_bytes_per_s
    seconds = [
        float(curve.seconds(m, n, k, peak_flops_per_s=p, hbm_bytes_per_s=h, bytes_per_element=2, sms=132))
        for p, h in ((peak, hbm), (peak * faster, hbm), (peak, hbm * faster))
    ]

    assert seconds[1] <= seconds[0]
    assert seconds[2] <= seconds[0]
    assert seconds[0] > 2.0 * m * n * k / peak


def test_no_work_takes_no_time() -> None:
    """An expert without tokens costs nothing, also where tiles are quantised."""
    curve = catalogue.gemm_curve("B200-SXM", "bf16")
    seconds = curve.seconds(
        [0, 1], 4096, 4096, peak_flops_per_s=1e15, hbm_bytes_per_s=1e12, bytes_per_element=2, sms=148
    )

    assert seconds[0] == 0
    assert seconds[1] > curve.launch_seconds


def test_waves_are_quantised() -> None:
    """One tile more than a full wave costs a second wave: 132 tiles of 128 x 128 on 132 multiprocessors."""
    curve = replace(catalogue.gemm_curve("H100-SXM-80GB", "bf16"), wave_exponent=1.0)
    shape: dict[str, Any] = {
        "peak_flops_per_s": 1e15,
        "hbm_bytes_per_s": 1e15,
        "bytes_per_element": 2,
        "sms": 132,
    }
    full, more = (
        curve.seconds(np.array([132 * 128, 132 * 128 + 1]), 128, 8192, **shape) - curve.launch_seconds
    )

    assert more == pytest.approx(2 * full, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "precision", "grade"),
    [
        ("H100-SXM-80GB", "bf16", "M"),
        ("H100-SXM-80GB", "fp16", "A"),
        ("A100-SXM-40GB", "bf16", "A"),
        ("RTX-4090", "fp8", "A"),
        ("MI300X", "bf16", "A"),
    ],
)
def test_grades_say_what_was_measured(name: str, precision: str, grade: str) -> None:
    """Grade M only for that card and that arithmetic; every other curve names whose it is."""
    curve = catalogue.gemm_curve(name, precision)

    assert (curve.gpu, curve.precision, curve.grade) == (name, precision, grade)


def test_every_card_has_all_curves() -> None:
    """Whatever a card can do has a curve, measured or assumed, with positive rates."""
    for name in catalogue.gpu_names():
        card = catalogue.gpu(name)
        for precision in card.precisions:
            assert 0 < catalogue.gemm_curve(card, precision).e_max < 1
        attention = catalogue.attention_curve(card)
        assert attention.forward_flops_per_s(4096, 128) < (
            card.bf16_flops_per_s or card.fp16_flops_per_s or 0
        )
        assert catalogue.p2p_bytes_per_s(card) > 0
        for ranks in (1, 2, 8, 72):
            assert catalogue.collective_curve(card, ranks, "all_to_all").rate_bytes_per_s > 0


def test_arithmetic_a_card_lacks_has_no_curve() -> None:
    """fp8 on A100 is an error that names what the card has."""
    with pytest.raises(InputError) as error:
        catalogue.gemm_curve("A100-SXM-80GB", "fp8")

    assert error.value.legal == ["bf16", "fp16", "fp32"]


@pytest.mark.parametrize(
    ("name", "kernel", "passes", "length", "head_dim", "tflops"),
    [
        ("A100-SXM-80GB", "flash2", "both", 1024, 128, 133),
        ("A100-SXM-80GB", "flash2", "both", 2048, 128, 155),
        ("A100-SXM-80GB", "flash2", "both", 16384, 64, 171),
        ("A100-SXM-80GB", "prefill", "forward", 2048, 128, 124),
        ("H100-SXM-80GB", "flash2", "both", 8192, 128, 308),
        ("H100-SXM-80GB", "prefill", "forward", 2048, 128, 373),
        ("B200-SXM", "prefill", "forward", 16384, 128, 1212),
        ("GB200", "prefill", "forward", 4096, 128, 1034),
        ("B300-SXM", "prefill", "forward", 8192, 128, 1322),
        ("GB300", "prefill", "forward", 8192, 128, 1479),
        ("L40S", "prefill", "forward", 1024, 64, 112),
    ],
)
def test_measured_attention(
    name: str, kernel: str, passes: str, length: int, head_dim: int, tflops: float
) -> None:
    """Knots are the published points: flash-attention figures and aiconfigurator's tables."""
    curve = catalogue.attention_curve(name, kernel)
    speed = curve.forward_backward_flops_per_s if passes == "both" else curve.forward_flops_per_s

    assert float(speed(length, head_dim)) / 1e12 == pytest.approx(tflops)


def test_doubled_exponentials_speed_attention_more_than_products() -> None:
    """Blackwell Ultra's special functions are twice as many: attention gains, 16-bit products do not."""
    for older, newer in (("B200-SXM", "B300-SXM"), ("GB200", "GB300")):
        speeds = [catalogue.attention_curve(name).forward_flops_per_s(8192, 128) for name in (older, newer)]
        peaks = [catalogue.gpu(name).bf16_flops_per_s for name in (older, newer)]
        assert peaks[0] == peaks[1]
        assert 1.15 < float(speeds[1] / speeds[0]) < 1.3


def test_attention_between_and_beyond_the_knots() -> None:
    """Linear between lengths, a s^2 + b s seconds beyond, falling with the root below; flat over heads."""
    both = catalogue.attention_curve("A100-SXM-80GB").forward_backward_flops_per_s
    seconds = [float(length**2 / both(length, 128)) for length in (8192, 16384, 65536)]
    linear = (2 * seconds[0] - seconds[1] / 2) / 8192
    square = (seconds[0] - 8192 * linear) / 8192**2

    assert float(both(3072, 128)) / 1e12 == pytest.approx((155 + 173) / 2)
    assert float(both(2048, 96)) / 1e12 == pytest.approx((155 + 140) / 2)
    assert seconds[2] == pytest.approx(square * 65536**2 + linear * 65536)
    assert float(both(10**9, 256)) / 1e12 == pytest.approx(182 / (2 * 182 / 189 - 1), rel=1e-4)
    assert float(both(128, 128)) / 1e12 == pytest.approx(99 / 2)
    assert float(both(2048, 32)) / 1e12 == pytest.approx(140 / 2)


@pytest.mark.parametrize(("length", "tflops"), [(1024, 423), (2048, 521), (4096, 579), (16384, 616)])
def test_attention_of_a_named_kernel(length: int, tflops: float) -> None:
    """FlashAttention 3 on H100, forward, head size 128; its backward is derived and slower."""
    curve = catalogue.attention_curve("H100-SXM-80GB", "flash3")

    assert float(curve.forward_flops_per_s(length, 128)) / 1e12 == pytest.approx(tflops)
    assert curve.forward_backward_flops_per_s(length, 128) < curve.forward_flops_per_s(length, 128)
    assert curve.grade == "A"
    with pytest.raises(InputError):
        catalogue.attention_curve("A100-SXM-80GB", "flash3")


@pytest.mark.parametrize(
    ("name", "flash2", "flash3"),
    [
        ("H100-SXM-80GB", "flash2", "flash3"),
        ("H200-SXM", "flash2", "flash3"),
        ("B200-SXM", "prefill", "prefill"),
        ("A100-SXM-80GB", "flash2", "flash2"),
        ("RTX-4090", "flash2", "flash2"),
        ("L40S", "prefill", "prefill"),
        ("MI300X", "flash2", "flash2"),
    ],
)
def test_newer_software_brings_an_older_card_no_newer_kernel(name: str, flash2: str, flash3: str) -> None:
    """FlashAttention 3 is Hopper's and Blackwell's; others run the second generation under any stack."""
    assert catalogue.attention_kernel(name, "flash2") == flash2
    assert catalogue.attention_kernel(name, "flash3") == flash3


@pytest.mark.parametrize(
    ("name", "kernel", "grade"),
    [
        ("H200-SXM", "flash4", "M"),
        ("H100-SXM-80GB", "flash4", "A"),
        ("B200-SXM", "flash4", "A"),
        ("B300-SXM", "flash4", "A"),
        ("GB300", "flash4", "M"),
        ("A100-SXM-80GB", "flash2", "A"),
        ("MI300X", "flash2", "A"),
    ],
)
def test_kernels_of_2026_are_measured_in_training(name: str, kernel: str, grade: str) -> None:
    """Both passes on three cards; their sisters take them by the ratio of peaks, older cards have none."""
    found = catalogue.attention_kernel(name, "flash4")

    assert found == kernel
    assert catalogue.attention_curve(name, found).grade == grade


def test_long_sequences_gain_by_the_kernels_of_2026() -> None:
    """cuDNN 9.19 on H200: 688 forward and 581 backward at 32768; FlashAttention 3 of 2024 had 616 forward."""
    curve = catalogue.attention_curve("H200-SXM", "flash4")
    older = catalogue.attention_curve("H200-SXM", "flash3")
    both = 3.5 / (1 / 688 + 2.5 / 581)

    assert float(curve.forward_flops_per_s(32768, 128)) / 1e12 == pytest.approx(688)
    assert float(curve.forward_backward_flops_per_s(32768, 128)) / 1e12 == pytest.approx(both, rel=0.002)
    for length in (4096, 8192, 32768, 262144):
        assert curve.forward_backward_flops_per_s(length, 128) > older.forward_backward_flops_per_s(
            length, 128
        )


def test_a_newer_generation_is_no_slower() -> None:
    """On every card and length, both passes."""
    tokens = np.array([512.0, 2048.0, 8192.0, 65536.0])
    for name in catalogue.gpu_names():
        older, newer = (
            catalogue.attention_curve(name, catalogue.attention_kernel(name, generation))
            for generation in ("flash2", "flash3")
        )
        assert np.all(
            newer.forward_backward_flops_per_s(tokens, 128) >= older.forward_backward_flops_per_s(tokens, 128)
        )


@settings(deadline=None)
@given(length=st.lists(st.integers(1, 10**6), min_size=2), head_dim=st.integers(1, 512))
def test_longer_sequences_never_cost_less_time(length: list[int], head_dim: int) -> None:
    """Seconds of a head, s^2 / speed, rise with the length although the speed rises too."""
    tokens = np.sort(np.array(length, dtype=np.float64))
    for name in ("A100-SXM-80GB", "H100-SXM-80GB", "B200-SXM", "RTX-4090"):
        seconds = tokens**2 / catalogue.attention_curve(name).forward_flops_per_s(tokens, head_dim)
        assert np.all(np.diff(seconds) >= 0)


@pytest.mark.parametrize(
    ("name", "ranks", "kind", "payload", "rate"),
    [
        ("H100-SXM-80GB", 8, "all_reduce", 512 * MIB, 445.05),
        ("H100-SXM-80GB", 8, "all_reduce", 16 * MIB, 240.83),
        ("H100-SXM-80GB", 8, "all_reduce", 1 * MIB, 72.24),
        ("H100-SXM-80GB", 2, "all_to_all", 16 * MIB, 158.13),
        ("A100-SXM-80GB", 8, "all_gather", 512 * MIB, 205.0),
        ("B200-SXM", 8, "reduce_scatter", 512 * MIB, 613.0),
        ("GB200", 4, "all_reduce", 512 * MIB, 628.0),
        ("RTX-PRO-6000-Server", 8, "all_reduce", 512 * MIB, 25.0),
    ],
)
def test_measured_bus_bandwidth(name: str, ranks: int, kind: str, payload: int, rate: float) -> None:
    """Bus bandwidth of nccl-tests in one node, GB/s: the tables have these sizes."""
    curve = catalogue.collective_curve(name, ranks, kind)
    moved = bus(payload, ranks, kind)

    assert curve.grade == "M"
    assert moved / float(curve.seconds(moved)) / 1e9 == pytest.approx(rate, rel=0.02)


def test_a_table_is_levelled_and_goes_on_at_its_last_rate() -> None:
    """A size that takes longer than a larger one is taken to be sent as that; beyond the table bytes add."""
    like = catalogue.collective_curve("H100-SXM-80GB", 8, "all_reduce")
    curve = replace(like, **knots_of([1e6, 2e6, 4e6, 8e6], [3e-5, 2e-5, 4e-5, 7e-5]))

    assert curve.knot_seconds == (2e-5, 2e-5, 4e-5, 7e-5)
    assert float(curve.seconds(1.0)) == float(curve.seconds(1.5e6)) == pytest.approx(2e-5)
    assert float(curve.seconds(8e6 + 12e6)) == pytest.approx(7e-5 + 12e6 / 6e6 * 5e-5)


def test_the_headline_bus_bandwidth() -> None:
    """512 MiB all-reduce on 8 x H100: 445 GB/s measured, the fit gives it to 1 %."""
    moved = bus(512 * MIB, 8, "all_reduce")
    seconds = catalogue.collective_curve("H100-SXM-80GB", 8, "all_reduce").seconds(moved)

    assert moved / float(seconds) / 1e9 == pytest.approx(445, rel=0.01)


@pytest.mark.parametrize(
    ("name", "ranks", "link", "rate"),
    [
        ("H100-SXM-80GB", 16, "island", 459.8),
        ("H100-SXM-80GB", 3, "island", 358.1),
        ("A100-SXM-40GB", 8, "island", 230.5),
        ("A100-PCIe-80GB", 2, "island", 208.0),
        ("A100-PCIe-80GB", 4, "pcie", 20.0),
        ("A800-SXM-80GB", 8, "island", 160.0),
        ("RTX-4090", 8, "pcie", 12.0),
        ("MI300X", 2, "island", 51.2),
        ("MI300X", 8, "island", 358.4),
    ],
)
def test_counts_and_cards_without_a_row(name: str, ranks: int, link: str, rate: float) -> None:
    """Nearest measured count; a sister card with the same link; 0.8 of the link; the PCI Express rule.

    A bridge joins two cards only, and a mesh gives a pair one of its links.
    """
    curve = catalogue.collective_curve(name, ranks, "all_reduce")

    assert (curve.link, curve.grade, curve.ranks) == (link, "A", ranks)
    assert curve.rate_bytes_per_s / 1e9 == pytest.approx(rate, rel=1e-3)


@pytest.mark.parametrize(
    ("ranks", "kind", "link", "field"),
    [(8, "broadcast", None, "kind"), (0, "all_reduce", None, "ranks"), (4, "all_reduce", "island", "link")],
)
def test_what_no_collective_curve_answers(ranks: int, kind: str, link: Any, field: str) -> None:
    """An unknown collective, no ranks, or an island the card cannot join: one error naming it."""
    with pytest.raises(InputError) as error:
        catalogue.collective_curve("A100-PCIe-80GB", ranks, kind, link)

    assert error.value.field == field


@settings(deadline=None)
@given(
    moved=st.lists(st.floats(0, 1e13), min_size=2),
    faster=st.floats(1, 100),
    card=st.sampled_from(["H100-SXM-80GB", "L40S", "RTX-4090", "MI300X"]),
    ranks=st.sampled_from([2, 4, 8]),
    kind=st.sampled_from(catalogue.KINDS),
)
def test_collectives_are_monotone(
    moved: list[float], faster: float, card: str, ranks: int, kind: str
) -> None:
    """More bandwidth is never slower, more bytes never faster, nothing moved costs nothing."""
    sizes = np.sort(np.array(moved))
    curve = catalogue.collective_curve(card, ranks, kind)
    slow = curve.seconds(sizes)
    fast = curve.at_rate(curve.rate_bytes_per_s * faster, "faster").seconds(sizes)

    assert np.all(fast <= slow * (1 + 1e-12))
    assert np.all(np.diff(slow) >= -1e-12 * slow[1:])
    assert np.all((slow == 0) == (sizes == 0))


@pytest.mark.parametrize(
    ("name", "rate"), [("A100-SXM-80GB", 274), ("H100-SXM-80GB", 376), ("GB200", 746), ("RTX-4090", 12)]
)
def test_point_to_point(name: str, rate: float) -> None:
    """Measured writes to a peer, GB/s; without peer-to-peer the host's rate."""
    assert catalogue.p2p_bytes_per_s(name) == rate * 1e9


def test_latencies_of_rings_and_trees() -> None:
    """NCCL's tuner: 1,024 cards in 128 nodes, ring 9.7 ms, tree 0.26 ms; low latency is lower."""
    law = network()

    assert float(law.ring_seconds(2046, 254)) == pytest.approx(9.7e-3, rel=0.01)
    assert float(law.tree_seconds(8, 128)) == pytest.approx(0.26e-3, rel=0.01)
    assert law.ring_seconds(2046, 254, "low_latency") < law.ring_seconds(2046, 254)
    assert law.tree_seconds(8, 128, "low_latency") < law.tree_seconds(8, 128)


def test_levels_of_a_tree_fill_one_after_the_other() -> None:
    """Published half-speed sizes of H100 on 8x400G: 45 MiB at 32 cards, 130 at 2,048; longer hops on EFA."""
    law, nic = network(), 47.5e9

    def filling(cards: int, fabric: str, mib: int) -> float:
        return 2 * float(law.levels_seconds(2 * mib * MIB, cards // 8, fabric, nic))

    for cards, mib in ((32, 45), (2048, 130)):
        moving = 2 * mib * MIB / (8 * nic)
        assert filling(cards, "infiniband-ndr", mib) == pytest.approx(moving, rel=0.4)
    assert filling(32, "efa", 45) > 2 * filling(32, "infiniband-ndr", 45)
    assert filling(8, "efa", 45) == 0
    with pytest.raises(InputError):
        law.fabric("token-ring")


def test_cards_of_ones_own_are_served() -> None:
    """A card that is in no catalogue gets the curves of its architecture and its own links."""
    values = catalogue.gpu("H100-SXM-80GB").model_dump()
    own = Gpu.model_validate({**values, "name": "mine", "nvlink_bytes_per_s": 100e9})

    assert catalogue.gemm_curve(own, "bf16").e_max == catalogue.gemm_curve("H100-SXM-80GB", "bf16").e_max
    assert catalogue.collective_curve(own, 8, "all_reduce").rate_bytes_per_s == pytest.approx(80e9)


def test_half_a_million_entries() -> None:
    """Curves take columns without a loop over entries: under half a second each."""
    count = 500_000
    sizes = np.linspace(1, 16384, count)
    gemm, attention = (
        catalogue.gemm_curve("H100-SXM-80GB", "bf16"),
        catalogue.attention_curve("H100-SXM-80GB"),
    )
    shape: dict[str, Any] = {
        "peak_flops_per_s": 989e12,
        "hbm_bytes_per_s": 3350e9,
        "bytes_per_element": 2,
        "sms": 132,
    }
    calls: tuple[Callable[[], npt.NDArray[np.float64]], ...] = (
        lambda: gemm.seconds(sizes, 4096, 4096, **shape),
        lambda: attention.forward_flops_per_s(sizes, sizes % 256),
        lambda: catalogue.collective_curve("H100-SXM-80GB", 8, "all_reduce").seconds(sizes),
        lambda: network().levels_seconds(sizes, 4, "efa", 50e9),
    )
    for call in calls:
        start = time.process_time()
        assert call().shape == (count,)
        assert time.process_time() - start < 0.5


@pytest.mark.parametrize(
    ("name", "precision", "tflops"),
    [("T4", "fp16", 24.0), ("H100-SXM-80GB", "bf16", 794.5), ("L4", "bf16", 56.9)],
)
def test_power_bounds_steady_products(name: str, precision: str, tflops: float) -> None:
    """Under steady load a product takes what the board's power allows: watts over joules of a FLOP.

    That of the L4 is carried over from the L40S, and nothing was fitted to it: 54.9 to 59.4 TFLOP/s of bf16
    from 4,096 to 10,240 a side are published (zzc0721/torch-performance-test-data#120, 2026).
    """
    curve = catalogue.gemm_curve(name, precision)
    reached = 2.0 * 4096**3 / float(curve.power_seconds(4096, 4096, 4096)) / 1e12

    assert reached == pytest.approx(tflops, rel=0.04)


def test_a_clock_under_load_is_measured_or_capped_by_power() -> None:
    """A measured factor stretches the product, not its launch; unmeasured, power bounds it from below."""
    card: Any = {"peak_flops_per_s": 989e12, "hbm_bytes_per_s": 3.35e12, "bytes_per_element": 2, "sms": 132}
    sides, curve = (8192, 8192, 8192), catalogue.gemm_curve("H100-SXM-80GB", "bf16")
    launch, rested = curve.launch_seconds, float(curve.seconds(*sides, **card))
    slow = replace(curve, sustained_flops_per_s=2.0 * 8192**3)

    assert float(curve.loaded_seconds(*sides, 1.5, **card)) - launch == pytest.approx(1.5 * (rested - launch))
    assert float(slow.capped_seconds(*sides, **card)) == pytest.approx(1.0 + launch)
    assert float(replace(curve, sustained_flops_per_s=None).capped_seconds(*sides, **card)) == rested
    assert float(slow.loaded_seconds(*sides, 1.5, **card)) == float(curve.loaded_seconds(*sides, 1.5, **card))


def test_no_known_limit_is_no_limit() -> None:
    """Where no energy of a FLOP is known, power takes no time."""
    assert catalogue.gemm_curve("A100-SXM-80GB", "bf16").power_seconds(8192, 8192, 8192) == 0


@given(rested=st.floats(1e-6, 0.1), slower=st.floats(0.5, 3.0), calls=st.integers(1, 1000))
def test_the_clock_settles(rested: float, slower: float, calls: int) -> None:
    """The longer the calls last the nearer they come to the steady time, and never beyond it."""
    curve = catalogue.gemm_curve("H100-SXM-80GB", "bf16")
    few, many = (float(curve.timed_seconds(rested, rested * slower, n)) for n in (calls, 10 * calls))
    steady = rested * max(slower, 1.0)

    assert rested <= few * (1 + 1e-9)
    assert few <= many * (1 + 1e-9)
    assert many <= steady * (1 + 1e-9)
    assert float(curve.timed_seconds(rested, rested * slower, 1e12)) == pytest.approx(steady)
