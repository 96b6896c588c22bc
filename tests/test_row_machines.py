"""The machines that rows name: as many cards as told, joined as far as their bridges reach."""

from __future__ import annotations

import pytest

from shardwise.runs.machines import cluster_of
from shardwise.runs.record import COLUMNS, Record
from shardwise.runs.refusal import Refused


def row(**cells: str) -> Record:
    """A row of which only some cells are said."""
    return Record(dict.fromkeys(COLUMNS, "") | cells)


@pytest.mark.parametrize(
    ("gpu", "cards", "link", "island"),
    [
        ("H200-NVL", "8", "4-way NVLink bridge", 4),
        ("H200-NVL", "8", "PCIe 5.0 without NVLink", 1),
        ("H100-NVL", "8", "", 2),
        ("H100-SXM", "8", "NVLink", 8),
    ],
)
def test_a_bridge_joins_no_more_cards_than_it_has_ends(gpu: str, cards: str, link: str, island: int) -> None:
    """A machine larger than any the catalogue has of the card still has islands of its bridge."""
    cluster, _, _ = cluster_of(row(gpu=gpu, gpus=cards, gpus_per_node=cards, intra_link=link))
    assert (cluster.node.gpus, cluster.node.island_size) == (int(cards), island)


def test_a_machine_that_cannot_be_is_refused_in_one_line() -> None:
    """No library's wording, no address of its pages."""
    with pytest.raises(Refused) as refused:
        cluster_of(row(gpu="H100-SXM", gpus="4096", gpus_per_node="2048"))
    assert "\n" not in str(refused.value) and "pydantic" not in str(refused.value)


def test_links_between_chips_join_the_machines_of_a_slice() -> None:
    """TPUs of a slice reach each other over their own links, however many hosts they stand in."""
    cluster, _, _ = cluster_of(row(gpu="TPUv6e", gpus="256", gpus_per_node="8"))
    assert (cluster.nodes, cluster.node.gpus, cluster.node.domain_size) == (32, 8, 256)


def test_a_card_that_no_node_type_holds_stands_in_one_of_its_kind() -> None:
    """Gaudi 2 stands in the mesh of eight that another maker has; its own rates go with it."""
    cluster, _, _ = cluster_of(row(gpu="Gaudi2", gpus="8"))
    assert (cluster.node.island_size, cluster.node.gpu.name) == (8, "Gaudi2")
