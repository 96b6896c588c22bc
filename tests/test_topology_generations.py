"""Machines of many generations, printed as their drivers print them: every shape is recognised."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from shardwise.hardware.topology import Islands, cluster_of_text, read_matrices
from shardwise.inputs import InputError

Path = Callable[[int, int], str]


def printed(
    cards: int, path: Path, nics: list[str], reach: Path, *, tabs: bool = True, rows: bool = True
) -> str:
    """A matrix of `cards` cards and `nics`, as nvidia-smi lays it out."""
    between = "\t" if tabs else "    "
    names = [f"GPU{i}" for i in range(cards)]
    lines = [between.join(["", *names, *nics, "CPU Affinity", "NUMA Affinity"])]
    for i in range(cards):
        cells = [" X " if i == j else path(i, j) for j in range(cards)]
        found = [reach(i, n) for n in range(len(nics))]
        lines.append(between.join([names[i], *cells, *found, f"{16 * i}-{16 * i + 15}", str(2 * i // cards)]))
    for n, nic in enumerate(nics) if rows else ():
        cells = [reach(i, n) for i in range(cards)]
        lines.append(between.join([nic, *cells, *[" X " if n == m else "NODE" for m in range(len(nics))]]))
    return "\n".join(lines) + "\n"


def half(i: int, j: int) -> str:
    """Across two sockets, cards 0-3 and 4-7."""
    return "NODE" if i // 4 == j // 4 else "SYS"


def rail(i: int, n: int) -> str:
    return "PIX" if i == n else "NODE" if i // 4 == n // 4 else "SYS"


SHAPES = {
    "DGX-2, sixteen V100 behind switches, named network cards": (
        printed(16, lambda i, j: "NV6", [f"mlx5_{n}" for n in range(10)],
                lambda i, n: "PIX" if i // 2 == n else "NODE"),
        ("nvswitch", 16, 10, 8),
    ),
    "eight H100 and eight rails": (
        printed(8, lambda i, j: "NV18", [f"NIC{n}" for n in range(8)], rail), ("nvswitch", 8, 8, 8)),
    "the same with spaces, without rows of network cards": (
        printed(8, lambda i, j: "NV18", [f"NIC{n}" for n in range(8)], rail, tabs=False, rows=False),
        ("nvswitch", 8, 8, 8),
    ),
    "two rails a card and two spare cards": (
        printed(8, lambda i, j: "NV18", [f"NIC{n}" for n in range(18)],
                lambda i, n: "PXB" if n < 16 and n // 2 == i else "SYS"),
        ("nvswitch", 8, 18, 16),
    ),
    "the PCIe-only view of such a machine": (
        printed(8, half, [f"NIC{n}" for n in range(8)], rail), ("pcie", 1, 8, 8)),
    "four A100 on one board, four links to each peer": (
        printed(4, lambda i, j: "NV4", ["NIC0"], lambda i, n: "SYS"), ("nvlink-mesh", 4, 1, 1)),
    "four PCIe cards, bridged in pairs, one socket each": (
        printed(4, lambda i, j: "NV12" if i // 2 == j // 2 else "SYS", [], half), ("pairs", 2, 0, 0)),
    "pairs that are not neighbours": (
        printed(4, lambda i, j: "NV4" if i % 2 == j % 2 else "PHB", [], half), ("pairs", 2, 0, 0)),
    "eight L40S behind two switches": (
        printed(8, lambda i, j: "PXB" if i // 4 == j // 4 else "SYS", ["rocep4s0f0", "rocep4s0f1"],
                lambda i, n: "PXB" if i // 4 == n else "SYS"),
        ("pcie", 1, 2, 2),
    ),
    "two workstation cards": (printed(2, lambda i, j: "PHB", [], half), ("pcie", 1, 0, 0)),
    "one card": (printed(1, lambda i, j: "", ["NIC0"], lambda i, n: "NODE"), ("pcie", 1, 1, 1)),
    "six old cards in three pairs under one bridge each": (
        printed(6, lambda i, j: "PIX" if i // 2 == j // 2 else "SOC", ["mlx4_0"],
                lambda i, n: "PHB", rows=False),
        ("pcie", 1, 1, 1),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_are_recognised(name: str) -> None:
    """(link, island, network cards, those next to a card), and no row is missing."""
    text, expected = SHAPES[name]
    (matrix,) = read_matrices(text)
    found = Islands(matrix=matrix)

    assert (found.shape, found.size, len(matrix.nics), len(found.rail_nics)) == expected
    assert matrix.complete


def test_two_views_of_one_host_are_one_machine() -> None:
    """The PCIe-only view beside the other, under one prompt: one machine, with its NVLinks."""
    nics = [f"NIC{n}" for n in range(8)]
    views = [printed(8, half, nics, rail), printed(8, lambda i, j: "NV18", nics, rail)]
    paste = "".join(f"root@gpu7:~# nvidia-smi topo -m\n{view}" for view in views)
    cluster = cluster_of_text(paste, "paste", {"gpu": "H100-SXM-80GB"})

    assert (cluster.nodes, cluster.node.link, cluster.others) == (1, "nvswitch", ())


def test_the_peer_to_peer_view_is_no_matrix_of_paths() -> None:
    """OK and NS are no paths: such a block beside the matrix is passed over."""
    matrix = printed(2, lambda i, j: "PHB", [], half)
    peers = " \tGPU0\tGPU1\n GPU0\tX\tOK\n GPU1\tOK\tX\n"

    assert len(read_matrices(matrix + peers)) == 1
    with pytest.raises(InputError):
        read_matrices(peers)


def test_two_kinds_of_machines_in_one_paste_are_two_pools() -> None:
    """A machine of eight and one of four: a mixed cluster, the larger pool first."""
    eight = printed(8, lambda i, j: "NV18", [f"NIC{n}" for n in range(8)], rail)
    four = printed(4, lambda i, j: "NV18", [f"NIC{n}" for n in range(4)], rail)
    cluster = cluster_of_text(four + eight, "paste", {"gpu": "H100-SXM-80GB", "nic_gbit_per_s": 400})

    assert [(pool.nodes, pool.node.gpus) for pool in cluster.pools] == [(1, 8), (1, 4)]


def test_every_cut_of_a_dump_is_read_or_refused_in_words() -> None:
    """A paste may end after any character: cards of the header are kept, missing rows are said."""
    text = printed(8, lambda i, j: "NV18", [f"NIC{n}" for n in range(8)], rail)
    whole_header = text.index("\n")
    for end in range(whole_header + 8, len(text), 7):
        try:
            matrices = read_matrices(text[:end])
        except InputError as error:
            assert end < text.index("NV18") + 4, error.message
            continue
        for matrix in matrices:
            assert matrix.cards == 8
            assert matrix.complete or any("missing" in note for note in matrix.notes)
