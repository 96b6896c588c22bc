"""Collectives of groups beyond an island: published bus rates, and what more links can and cannot do."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.groups import measure
from shardwise import Plan, Request, Training, plan
from shardwise.costs.collectives import among
from shardwise.hardware import Cluster
from shardwise.hardware.collective import Kind
from shardwise.hardware.topology import described, read_own_table
from shardwise.inputs import InputError

EFFICIENCY = Path(__file__).parent.parent / "benchmarks" / "data" / "efficiency.csv"
KINDS: list[Kind] = ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"]


@pytest.mark.tree
def test_most_group_points_are_within_fifteen_percent() -> None:
    """Every point is listed; large messages between nodes and over PCI Express agree."""
    found = measure([str(EFFICIENCY)])

    assert found["points"] >= 150
    assert found["within"] >= 0.8 * found["judged"]
    large = [p for p in found["lines"] if not p["note"] and "one node" not in p["shape"]]
    far = [p["shape"] for p in large if abs(p["error"]) > 15 and "MiB" not in p["shape"]]
    assert far == []


def test_a_bridged_pair_is_fast_inside_and_slow_outside() -> None:
    """A100-PCIe: 208 GB/s in the pair (nccl-tests issue 178), 20 once the ring leaves it."""
    cluster = Cluster.preset("NC96ads_A100_v4")
    payload = 16 * 2.0**30
    rates = [payload * 2 * (n - 1) / n / among(cluster, "all_reduce", payload, n) / 1e9 for n in (2, 4)]

    assert rates[0] == pytest.approx(208, rel=0.05)
    assert rates[1] == pytest.approx(20, rel=0.05)


@pytest.mark.parametrize("ports", [1, 4])
def test_a_group_enters_by_one_port_of_omni_path_and_reaches_two_fifths_of_it(ports: int) -> None:
    """Four machines of Jean Zay, one of four ports in use: 4 GB all-reduced at 40.8 Gbit/s (bigscience)."""
    network = {"nics_per_node": ports, "nic_gbit_per_s": 100, "fabric": "omni-path"}
    cluster = described(Cluster.preset("dgx-a100-80gb", nodes=4), network)
    seconds = among(cluster, "all_reduce", 4e9, 32)

    assert 4e9 * 8 * 2 * 31 / 32 / seconds / 1e9 == pytest.approx(40.8, rel=0.03)


@settings(deadline=None, max_examples=60)
@given(
    kind=st.sampled_from(KINDS),
    rate=st.floats(10, 400),
    more=st.floats(1, 4),
    nodes=st.sampled_from([2, 4, 64]),
    size=st.integers(2**16, 2**34),
)
def test_more_bandwidth_never_slows_a_collective(
    kind: Kind, rate: float, more: float, nodes: int, size: int
) -> None:
    """Faster network cards: no collective of any group takes longer."""
    slow = described(Cluster.preset("dgx-h100", nodes=nodes), {"nic_gbit_per_s": rate})
    fast = described(slow, {"nic_gbit_per_s": rate * more})
    for cards in (8, 16, 8 * nodes):
        assert among(fast, kind, size, cards) <= among(slow, kind, size, cards) * (1 + 1e-9)


def step_of(cluster: Cluster) -> float:
    request = Request(
        model="llama-3.2-1b",
        cluster=cluster,
        training=Training(global_batch_size=64, sequence_length=2048),
        choose={"backend": "megatron", "software_stack": "megatron-2023", "context_parallel": 1},
    )
    found = plan(request)
    assert isinstance(found, Plan)
    return found.time.step_seconds


def test_more_bandwidth_never_slows_a_plan() -> None:
    """Network, oversubscription: each better link gives a step at most as long."""
    base = Cluster.preset("dgx-a100-80gb", nodes=2)
    steps = [step_of(described(base, {"nic_gbit_per_s": rate})) for rate in (25.0, 100.0, 400.0)]
    assert steps == sorted(steps, reverse=True)

    wide = Cluster.preset("dgx-a100-80gb", nodes=4).model_copy(update={"leaf_nodes": 2})
    lean = [step_of(wide.model_copy(update={"oversubscription": ratio})) for ratio in (8.0, 1.0)]
    assert lean[0] >= lean[1]


def test_splitting_a_leaf_never_speeds_a_plan() -> None:
    """The same machines under two leaves of a lean spine are not faster than under one."""
    whole = Cluster.preset("dgx-a100-80gb", nodes=4, oversubscription=4.0)
    split = whole.model_copy(update={"leaf_nodes": 2})

    assert step_of(split) >= step_of(whole)


def test_the_name_of_a_machine_changes_nothing() -> None:
    """Renamed machines: the same step."""
    cluster = Cluster.preset("dgx-a100-80gb", nodes=2)
    node = cluster.node.model_copy(update={"name": "other"})

    assert step_of(cluster.model_copy(update={"name": "x", "node": node})) == step_of(cluster)


@pytest.mark.parametrize(
    ("table", "chosen", "rate"),
    [
        ({"nic_gbit_per_s": 200}, "infiniband-hdr", 200),
        ({"nic_gbit_per_s": 400}, "infiniband-ndr", 400),
        ({"nic_gbit_per_s": 3200}, "infiniband-xdr", 3200),
        ({}, "infiniband-ndr", 400),
    ],
)
def test_infiniband_without_a_generation(table: dict[str, float], chosen: str, rate: float) -> None:
    """By the rate of a port, else as the card's usual machine; and it is told what was assumed."""
    own = {"gpu": "H100-SXM-80GB", "gpus_per_node": 8, "nodes": 2, "fabric": "InfiniBand", **table}
    cluster = read_own_table(own)

    assert cluster.node.fabric == chosen
    assert cluster.node.nic_bytes_per_s * 8 / 1e9 == rate
    assert any("InfiniBand" in note and chosen in note for note in cluster.notes)


def test_a_generic_fabric_over_a_known_machine() -> None:
    """Laid over a machine it takes that machine's rate; a fabric by name is told nothing of."""
    base = Cluster.preset("dgx-a100-80gb", nodes=2)
    found = described(base, {"fabric": "infiniband"})

    assert found.node == base.node.model_copy(update={"fabric": "infiniband-hdr"})
    assert described(base, {"fabric": "roce"}).notes == base.notes


def test_a_fabric_that_is_none_is_refused() -> None:
    """The error names the field and near words."""
    own = {
        "gpu": "H100-SXM-80GB",
        "gpus_per_node": 8,
        "nodes": 2,
        "nic_gbit_per_s": 400,
        "fabric": "token-ring",
    }
    with pytest.raises(InputError) as error:
        read_own_table(own)

    assert "fabric" in error.value.field
