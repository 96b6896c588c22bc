"""Clusters: presets, counts of cards, the graph, and the table of tiers it is reduced to."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardwise.hardware import Cluster, Tier, TierTable, catalogue
from shardwise.hardware.topology import described
from shardwise.inputs import InputError

Row = tuple[str, int, float]


def table(cluster: Cluster) -> list[Row]:
    """Name, cards and GB/s a card of each tier."""
    return [(t.name, t.cards, round(t.bandwidth_bytes_per_s / 1e9, 4)) for t in cluster.tiers().tiers]


@pytest.mark.parametrize(
    ("nodes", "rows"),
    [
        (1, [("island", 8, 349.2897)]),
        (4, [("island", 8, 349.2897), ("leaf", 32, 47.5)]),
        (32, [("island", 8, 349.2897), ("leaf", 256, 47.5)]),
        (64, [("island", 8, 349.2897), ("leaf", 256, 47.5), ("spine", 512, 47.5)]),
        (2048, [("island", 8, 349.2897), ("leaf", 256, 47.5), ("spine", 16384, 47.5)]),
    ],
)
def test_tiers_of_dgx_h100(nodes: int, rows: list[Row]) -> None:
    """Island at the measured ring rate, leaf at 0.95 of a 400 Gb/s NIC a card; no tier without need."""
    assert table(Cluster.preset("dgx-h100", nodes=nodes)) == rows


@pytest.mark.parametrize(
    ("nodes", "rows"),
    [
        (1, [("island", 4, 581.667)]),
        (18, [("island", 72, 680.0)]),
        (20, [("island", 72, 680.0), ("leaf", 80, 47.5)]),
        (36, [("island", 72, 680.0), ("leaf", 144, 47.5)]),
        (72, [("island", 72, 680.0), ("leaf", 144, 47.5), ("spine", 288, 47.5)]),
    ],
)
def test_tiers_of_an_nvl72(nodes: int, rows: list[Row]) -> None:
    """18 trays make one island of 72; a leaf holds whole racks."""
    assert table(Cluster.preset("gb200-nvl72", nodes=nodes)) == rows


def test_tiers_of_bridged_pairs() -> None:
    """NVLink inside a pair, PCI Express between pairs, then 0.4 of a TCP wire shared by four cards."""
    pair = ("island", 2, 208.0)

    assert table(Cluster.preset("NC96ads_A100_v4")) == [pair, ("node", 4, 20.0)]
    assert table(Cluster.preset("NC96ads_A100_v4", nodes=2)) == [pair, ("node", 4, 20.0), ("leaf", 8, 1.0)]


def test_tiers_of_cards_without_nvlink() -> None:
    """A PCI Express node has no island: its first tier joins the whole node through the host."""
    assert table(Cluster.preset("ws-8x-rtx-4090")) == [("node", 8, 12.0)]


def test_one_tier_is_left_for_one_card() -> None:
    """Even one card has a table, so that a span of 1 has a level."""
    for name in ("dgx-h100", "ws-8x-rtx-4090", "NC96ads_A100_v4", "gb200-nvl72"):
        tiers = Cluster.of_gpus(name, 1).tiers()
        assert [tier.cards for tier in tiers.tiers] == [1]


def test_cards_that_share_a_nic() -> None:
    """p4d has 4 NICs of 100 Gb/s for 8 cards: half a NIC each, a whole one while the partner is silent."""
    leaf = Cluster.preset("p4d.24xlarge", nodes=2).tiers().tiers[1]

    assert leaf.sharers == 2
    assert leaf.bandwidth_bytes_per_s == pytest.approx(0.95 * 6.25e9)
    assert leaf.alone_bytes_per_s == pytest.approx(0.95 * 12.5e9)


@pytest.mark.parametrize("name", ["dgx-h100", "gb200-nvl72", "NC96ads_A100_v4", "g6.48xlarge"])
def test_oversubscription_divides_only_what_is_above_the_leaf(name: str) -> None:
    """At 4:1 every tier but the spine stays as it is; the spine falls to a quarter."""
    flat = Cluster.preset(name, nodes=144).tiers().tiers
    lean = Cluster.preset(name, nodes=144, oversubscription=4.0).tiers().tiers

    assert flat[:-1] == lean[:-1]
    assert (flat[-1].name, lean[-1].name) == ("spine", "spine")
    assert lean[-1].bandwidth_bytes_per_s == pytest.approx(flat[-1].bandwidth_bytes_per_s / 4)
    assert lean[-1].alone_bytes_per_s == lean[-2].alone_bytes_per_s


@settings(deadline=None)
@given(
    name=st.sampled_from(catalogue.node_names()),
    nodes=st.integers(1, 200),
    oversubscription=st.floats(1, 64),
)
def test_every_table_is_well_formed(name: str, nodes: int, oversubscription: float) -> None:
    """Cards rise strictly up to the whole cluster; crossing the spine is never faster than the leaf."""
    cluster = Cluster.preset(name, nodes=nodes, oversubscription=oversubscription)
    tiers = cluster.tiers().tiers

    assert all(a.cards < b.cards for a, b in zip(tiers, tiers[1:], strict=False))
    assert tiers[-1].cards == cluster.gpus
    leaf, spine = cluster.tiers().named("leaf"), cluster.tiers().named("spine")
    if leaf and spine:
        assert spine.bandwidth_bytes_per_s <= leaf.bandwidth_bytes_per_s
    assert all(tier.bandwidth_bytes_per_s <= tier.alone_bytes_per_s for tier in tiers)
    assert (spine is None) == (nodes <= cluster.leaf_size)


@settings(deadline=None)
@given(nodes=st.integers(1, 200), spans=st.lists(st.integers(1, 8), min_size=1))
def test_level_is_the_smallest_tier_that_holds_the_span(nodes: int, spans: list[int]) -> None:
    """Levels rise with the span, and the level below would be too small."""
    tiers = Cluster.preset("p5.48xlarge", nodes=nodes).tiers()
    span = np.sort(np.array(spans) * nodes)
    level = tiers.level(span)

    assert np.all(np.diff(level) >= 0)
    assert np.all(tiers.cards[level] >= span)
    below = np.where(level > 0, tiers.cards[level - 1], 0)
    assert np.all(below < span)


def test_level_of_half_a_million_spans_is_fast() -> None:
    """The ledger asks for columns: no loop over entries."""
    tiers = Cluster.preset("dgx-h100", nodes=2048).tiers()
    span = np.arange(500_000) % 16384 + 1
    start = time.process_time()
    level = tiers.level(span)

    assert time.process_time() - start < 0.25
    assert np.bincount(level).tolist() == [
        int(np.sum(span <= 8)),
        int(np.sum((span > 8) & (span <= 256))),
        int(np.sum(span > 256)),
    ]


@pytest.mark.parametrize(("span", "legal"), [(0, "1"), (33, "32")])
def test_a_span_outside_the_cluster_is_refused(span: int, legal: str) -> None:
    """A group larger than the cluster has no tier."""
    with pytest.raises(InputError) as error:
        Cluster.preset("dgx-h100", nodes=4).tiers().level([8, span])

    assert (error.value.field, error.value.legal) == ("span", [legal])


def test_tables_must_rise() -> None:
    """A table whose tiers do not grow is no table."""
    tier = Tier(
        name="leaf", cards=8, bandwidth_bytes_per_s=1, alone_bytes_per_s=1, latency_seconds=0, sharers=1
    )
    with pytest.raises(ValueError, match="rise"):
        TierTable(tiers=(tier, tier))


def test_the_table_is_made_from_the_graph() -> None:
    """Slow one uplink of the graph and the table follows: nothing is computed beside it."""
    import networkx

    from shardwise.hardware.tiers import reduced

    cluster = Cluster.preset("dgx-h100", nodes=4)
    graph = networkx.Graph(cluster.graph)
    graph.edges["node:2", "leaf:0"]["bandwidth_bytes_per_s"] /= 8

    slowed = reduced(graph.nodes(data=True), graph.edges(data=True))

    assert reduced(cluster.graph.nodes(data=True), cluster.graph.edges(data=True)) == cluster.tiers()
    assert slowed.tiers[1].bandwidth_bytes_per_s == pytest.approx(47.5e9 / 8)


def test_the_graph_can_be_inspected() -> None:
    """Vertices are nodes, islands where a node has several, domains, leaves, spine; it cannot be changed."""
    import networkx

    pairs = Cluster.preset("NC96ads_A100_v4", nodes=33, oversubscription=2.0).graph
    assert sorted(pairs.neighbors("node:0")) == ["island:0:0", "island:0:1", "leaf:0"]
    assert pairs.nodes["island:0:1"]["cards"] == 2
    assert pairs.edges["leaf:0", "spine"]["bandwidth_bytes_per_s"] == 32 * 10e9 / 2
    racks = Cluster.preset("gb200-nvl72", nodes=36).graph
    assert sorted(racks.neighbors("node:35")) == ["domain:1", "leaf:0"]
    plain = Cluster.preset("dgx-h100", nodes=2).graph
    assert sorted(plain) == ["leaf:0", "node:0", "node:1"]
    with pytest.raises(networkx.NetworkXError):
        plain.add_node("node:3")


@pytest.mark.parametrize(
    ("name", "cards", "sizes"),
    [("NC96ads_A100_v4", 3, [2, 1]), ("ws-4x-rtx-4090", 2, [1, 1]), ("NC96ads_A100_v4", 2, [2])],
)
def test_part_of_a_node_fills_its_islands_in_order(name: str, cards: int, sizes: list[int]) -> None:
    """Cards in use fill the first island before the next."""
    graph = Cluster.of_gpus(name, cards).graph

    assert [held for vertex, held in graph.nodes(data="cards") if vertex.startswith("island")] == sizes


def test_a_large_graph_is_made_quickly() -> None:
    """2,048 nodes in less than 50 ms (best of three), networkx imported before."""
    best = 1.0
    for size in (2048, 2047, 2046):
        cluster = Cluster.preset("dgx-h100", nodes=size)
        start = time.process_time()
        assert len(cluster.graph) == size + -(-size // 32) + 1
        cluster.tiers()
        best = min(best, time.process_time() - start)

    assert best < 0.05


def test_graph_and_table_are_made_once() -> None:
    """Equal clusters share one graph and one table; a changed copy gets its own."""
    cluster = Cluster.preset("dgx-h100", nodes=4)

    assert Cluster.preset("DGX-H100", nodes=4).graph is cluster.graph
    assert cluster.tiers() is cluster.tiers()
    assert cluster.model_copy(update={"nodes": 2}).tiers().tiers[-1].cards == 16


@settings(deadline=None)
@given(
    name=st.sampled_from(catalogue.node_names()),
    nodes=st.integers(1, 65536),
    oversubscription=st.floats(1, 1024),
)
def test_clusters_round_trip_and_compare(name: str, nodes: int, oversubscription: float) -> None:
    """JSON is exact to the last bit; equal clusters hash equal, others differ."""
    cluster = Cluster.preset(name, nodes, oversubscription)
    again = Cluster.model_validate_json(cluster.model_dump_json())

    assert again == cluster
    assert hash(again) == hash(cluster)
    assert again.model_dump_json() == cluster.model_dump_json()
    assert cluster != Cluster.preset(name, nodes % 65536 + 1, oversubscription)


@pytest.mark.parametrize(
    ("gpus", "nodes", "cards"), [(1, 1, 1), (7, 1, 7), (8, 1, None), (16, 2, None), (524288, 65536, None)]
)
def test_counts_of_cards_take_whole_nodes_first(gpus: int, nodes: int, cards: int | None) -> None:
    """Fewer than one node's cards are part of one node; otherwise nodes are whole."""
    cluster = Cluster.of_gpus("dgx-h100", gpus)

    assert (cluster.nodes, cluster.cards, cluster.gpus) == (nodes, cards, gpus)


@pytest.mark.parametrize(("gpus", "legal"), [(9, ["8", "16"]), (100, ["96", "104"])])
def test_counts_between_whole_nodes_are_refused(gpus: int, legal: list[str]) -> None:
    """The error names the nearest legal counts below and above."""
    with pytest.raises(InputError) as error:
        Cluster.of_gpus("dgx-h100", gpus, origin="--gpus")

    assert (error.value.field, error.value.value, error.value.origin) == ("cluster.gpus", str(gpus), "--gpus")
    assert error.value.legal == legal


@pytest.mark.parametrize(
    ("value", "legal"),
    [
        (0, "1"),
        (-1, "1"),
        (65537, "65536"),
        (10**400, "65536"),
        (1.5, "1"),
        (True, "1"),
        ("4", "1"),
        (None, "1"),
    ],
)
def test_bad_node_counts(value: object, legal: str) -> None:
    """Zero, negative, huge and ill-typed counts: one error with field, origin and nearest count."""
    with pytest.raises(InputError) as error:
        Cluster.preset("dgx-h100", nodes=value, origin={"cluster.nodes": "job.toml:4"})  # type: ignore[arg-type]

    assert (error.value.field, error.value.origin) == ("cluster.nodes", "job.toml:4")
    assert error.value.legal == [legal]
    with pytest.raises(InputError) as error:
        Cluster.of_gpus("dgx-h100", value if value != 65537 else 65536 * 8 + 1)  # type: ignore[arg-type]
    assert error.value.field == "cluster.gpus"


@pytest.mark.parametrize(
    ("value", "legal"),
    [
        (0.99, "1.0"),
        (-2, "1.0"),
        (float("nan"), "1.0"),
        (float("inf"), "1024.0"),
        ("2", "1.0"),
        (10**400, "1024.0"),
    ],
)
def test_bad_oversubscription(value: object, legal: str) -> None:
    """Below 1, not finite or no number: one error with the nearest ratio."""
    with pytest.raises(InputError) as error:
        Cluster.preset("dgx-h100", oversubscription=value)  # type: ignore[arg-type]

    assert (error.value.field, error.value.origin) == ("cluster.oversubscription", "cluster.preset")
    assert error.value.legal == [legal]


@pytest.mark.parametrize("value", ["dgx-h10", "", "DGX H100", 8, None])
def test_bad_preset_names(value: object) -> None:
    """Unknown names are answered with names that exist."""
    with pytest.raises(InputError) as error:
        Cluster.preset(value)  # type: ignore[arg-type]

    assert (error.value.field, error.value.origin) == ("cluster.preset", "cluster.preset")
    assert error.value.legal
    assert set(error.value.legal) <= set(catalogue.node_names())


def test_cards_are_for_part_of_one_node() -> None:
    """A cluster cannot use part of each of several nodes, nor say `cards` for a whole one."""
    values = Cluster.preset("dgx-h100", nodes=2).model_dump()
    for change in ({"cards": 4}, {"nodes": 1, "cards": 8}):
        with pytest.raises(ValueError, match="part of one node"):
            Cluster.model_validate({**values, **change})


def test_price_of_a_cluster() -> None:
    """Nodes times list price; unknown stays unknown."""
    assert Cluster.preset("p5.48xlarge", nodes=4).usd_per_hour == pytest.approx(4 * 55.04)
    assert Cluster.preset("dgx-h100").usd_per_hour is None


def test_a_machine_with_another_card_is_told_with_it() -> None:
    """A type of the catalogue by its name alone; with a card of one's own, or a slice of one, by that too."""
    plain = Cluster.preset("dgx-h100", nodes=2)
    other = described(plain, {"gpu": "A100-SXM-80GB"})
    slices = described(plain, {"mig": "3g.40gb"})

    assert plain.told == "2 x dgx-h100"
    assert other.told == "2 x dgx-h100 with A100-SXM-80GB"
    assert slices.told == "2 x dgx-h100 with H100-SXM-80GB MIG 3g.40gb"
