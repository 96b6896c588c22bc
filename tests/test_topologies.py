"""Topology dumps: every generation of ``nvidia-smi topo -m``, whole and cut, and what they leave open."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.topologies import measure
from shardwise.cli import main
from shardwise.hardware import Cluster
from shardwise.hardware.topology import Islands, Matrix, cluster_of_text, read_matrices, sighting_of, written
from shardwise.inputs import InputError

pytestmark = pytest.mark.tree
DUMPS = Path(__file__).parent.parent / "benchmarks" / "data" / "topo"

TWO = """\
\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tNV4\tPIX\t0-15\t0\t\tN/A
GPU1\tNV4\t X \tSYS\t16-31\t1\t\tN/A
NIC0\tPIX\tSYS\t X \t\t\t\t

Legend:

  X    = Self
  NV#  = Connection traversing a bonded set of # NVLinks

NIC Legend:

  NIC0: mlx5_0
"""


def dump(name: str) -> str:
    return (DUMPS / name).read_text(encoding="utf-8")


def only(text: str) -> Matrix:
    (found,) = read_matrices(text)
    return found


def test_every_dump_is_read_as_the_index_says() -> None:
    """Cards, network cards and completeness of all dumps of the index; each missing row is named."""
    found = measure([str(DUMPS)])

    assert (found["right"], found["refused"], found["wrong"]) == (found["files"], 0, 0)
    assert found["files"] >= 59


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\t", "    "),
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("\n", "\r"),
        lambda text: "\x1b[4m" + text.replace("CPU Affinity", "\x1b[0mCPU Affinity"),
        lambda text: "[4m" + text,
        lambda text: f"root@gpu07:~# nvidia-smi topo -m\n{text}root@gpu07:~# exit\n",
        lambda text: "\n".join(f"> {line}" for line in text.split("\n")),
        lambda text: "\n".join(f"    {line}" for line in text.split("\n")),
        lambda text: f"```\n{text}```\n",
        lambda text: text.replace("\t", " | "),
        lambda text: text.split("Legend")[0],
        lambda text: text.replace("NIC0\t", "mlx5_0\t").replace("\tNIC0", "\tmlx5_0"),
    ],
)
def test_dress_does_not_matter(change: object) -> None:
    """Tabs or spaces, line ends, colours, prompts, quotes, fences, table bars: the same machine."""
    found = only(change(TWO))  # type: ignore[operator]

    assert (found.cards, len(found.nics), found.complete) == (2, 1, True)
    assert found.paths[0][1] == "NV4"
    assert [row[0] for row in found.nic_paths] == ["PIX", "SYS"]


def test_network_cards_take_the_names_of_the_legend() -> None:
    """NIC0 is what its legend calls it; without a legend it stays NIC0."""
    assert only(TWO).nics == ("mlx5_0",)
    assert only(TWO.split("NIC Legend")[0]).nics == ("NIC0",)


def test_several_machines_in_one_paste() -> None:
    """A matrix each, named by its prompt; equal machines are one pool of as many nodes."""
    paste = "".join(f"me@{host}:~$ nvidia-smi topo -m\n{dump('a100_8gpu_nv12.txt')}" for host in ("a1", "a2"))
    cluster = cluster_of_text(
        paste, "paste", {"gpu": "A100-SXM-80GB", "nic_gbit_per_s": 200, "nics_per_node": 8}
    )

    assert [machine.name for machine in sighting_of(paste).machines] == ["a1", "a2"]
    assert (cluster.nodes, cluster.gpus) == (2, 16)


def test_a_cut_matrix_is_completed_by_symmetry_and_says_so() -> None:
    """Header of 8, rows of 4: the block of cards by symmetry, NICs of the rest unknown, each in words."""
    found = only(dump("dgx_a100_8gpu_12nic_truncated.txt"))

    assert found.rows == (0, 1, 2, 3)
    assert found.paths[7][5] == "NV12"
    assert found.nic_paths[4] == (None,) * 12
    assert "the header lists 8 GPUs, 4 whole rows are present: GPU4-7 missing" in found.notes
    assert any("NIC mapping of GPU4-7 unknown" in note and "upper bound" in note for note in found.notes)


def test_pairs_that_differ_are_completed_by_the_longest_path() -> None:
    """Where several kinds of path were seen, a pair nobody showed counts as SYS, never as NVLink."""
    text = "\n".join(dump("v100_sxm2_8gpu_1nic_cubemesh.txt").split("\n")[:4])
    found = only(text)

    assert found.rows == (0, 1, 2)
    assert found.paths[7][5] == "SYS"
    assert any("taken as SYS" in note for note in found.notes)


def test_a_raised_digit_is_no_number() -> None:
    """A NUMA node of a broken paste that only looks like a number is not known."""
    assert only(TWO.replace("16-31\t1", "16-31\t\u00b21")).numa == (0, None)


def test_a_lost_header_is_said() -> None:
    """Rows alone: as many cards as the rows name."""
    found = only("\n".join(TWO.split("\n")[1:]))

    assert (found.cards, found.paths[0][1], len(found.nics)) == (2, "NV4", 1)
    assert any("header line is missing" in note for note in found.notes)


def test_a_row_out_of_line_is_left_out() -> None:
    """A row whose own X stands in another column is shifted: nothing of it is believed."""
    text = TWO.replace("GPU1\tNV4\t X ", "GPU1\t X \tNV4")
    found = only(text)

    assert found.rows == (0,)
    assert any("out of line" in note for note in found.notes)


def test_an_uneven_pair_takes_the_worse_path() -> None:
    """Two rows that contradict each other: the longer path, and it is said."""
    found = only(TWO.replace("GPU1\tNV4", "GPU1\tSYS"))

    assert found.paths[0][1] == "SYS"
    assert any("not symmetric" in note for note in found.notes)


def test_rails_are_the_nearest_network_cards() -> None:
    """One PIX card each: GPU i to its own, spare ones to nobody; two on one socket serve all."""
    rails = Islands(matrix=only(dump("h100_8gpu_10nic_pix_rails.txt"))).rails
    assert rails == ((0,), (1,), (2,), (5,), (6,), (7,), (8,), (9,))

    shared = Islands(matrix=only(dump("h800_8gpu_2nic_one_socket.txt")))
    assert shared.rail_nics == (0, 1)


def test_a_cube_mesh_is_no_switch() -> None:
    """Eight cards joined, but in cliques of four; its pairs keep their own links."""
    found = Islands(matrix=only(dump("v100_sxm2_8gpu_1nic_cubemesh.txt")))

    assert (found.shape, found.size, found.weakest) == ("nvlink-mesh", 8, 1)
    assert found.cliques == ((0, 1, 2, 3), (4, 5, 6, 7))


def test_degraded_links_count_at_their_minimum() -> None:
    """One card with 16 of 18 links slows the ring of the whole island to 16/18."""
    whole = Cluster.read(DUMPS / "gb200_tray_4gpu.txt", gpu="B200-SXM")
    weak = Cluster.read(DUMPS / "emulated_4gpu_degraded_links.txt", gpu="B200-SXM")
    rates = [c.tiers().tiers[0].bandwidth_bytes_per_s for c in (weak, whole)]

    assert rates[0] / rates[1] == pytest.approx(16 / 18)
    assert any("degraded" in note for note in weak.notes)


def test_four_cards_wired_to_one_another_have_no_switch() -> None:
    """Six links to each of three peers are the eighteen that a GH200 has: all of them carry a ring."""
    cluster = Cluster.read(DUMPS / "gh200_4gpu_nv6.txt", gpu="H100-SXM-80GB")

    assert (cluster.node.link, cluster.node.link_share) == ("nvlink-mesh", 1.0)


def test_a_card_short_of_links_slows_its_mesh() -> None:
    """One pair of four has five links where six were: its cards have 17 of 18, and the ring runs at that."""
    text = dump("gh200_4gpu_nv6.txt").replace("GPU0     X      NV6", "GPU0     X      NV5")
    cluster = cluster_of_text(text, "paste", {"gpu": "H100-SXM-80GB"})

    assert cluster.node.link_share == pytest.approx(17 / 18)
    assert any("17 NVLinks where others have 18" in note for note in cluster.notes)


def test_cells_that_run_together_are_two() -> None:
    """A column too narrow for its words: NODEPIX is NODE and PIX, in the place of each."""
    rails = Islands(matrix=only(dump("h200_8gpu_12nic_glued_cell_cut.txt"))).rails

    assert rails[5] == (7,)
    assert only(dump("h100_8gpu_36nic_glued_columns_cut.txt")).nic_paths[0][34:] == ("NODE", "PIX")


def test_a_row_cut_among_its_cards_is_no_whole_row() -> None:
    """What it shows is believed, but it counts among the missing."""
    found = only(dump("hopper_8gpu_9nic_three_a_numa_cut.txt"))

    assert found.rows == (0, 1, 2, 3, 4, 5)
    assert any("GPU6-7 missing, GPU6 in part" in note for note in found.notes)


def test_processors_left_blank_do_not_shift_the_numa_node() -> None:
    """Slurm binds the print to no core: the column of processors is empty."""
    assert only(dump("h200_8gpu_10nic_blank_affinity_cut.txt")).numa[:5] == (0, 0, 0, 0, 1)


def wrapped(text: str, width: int) -> str:
    """Lines broken as a terminal of `width` columns shows them."""
    lines = [line[i : i + width] for line in text.split("\n") for i in range(0, max(len(line), 1), width)]
    return "\n".join(lines)


@pytest.mark.parametrize("name", ["a100_8gpu_3nic_four_numa.txt", "h100_4gpu_8nic_phb_vm.txt"])
@pytest.mark.parametrize("width", [80, 96, 104])
def test_lines_wrapped_by_a_terminal_are_put_together(name: str, width: int) -> None:
    """Header and rows go on in the next line: the same machine."""
    whole, found = only(dump(name)), only(wrapped(dump(name), width))

    assert (found.cards, found.nics, found.paths) == (whole.cards, whole.nics, whole.paths)
    assert (found.nic_paths, found.rows) == (whole.nic_paths, whole.rows)


def test_machines_that_speak_in_turns_are_told_apart() -> None:
    """pdsh writes each machine's name before its lines and mixes the lines: two machines, whole."""
    lines = dump("p100_power8_4gpu_2nic_soc.txt").split("\n")[1:]
    paste = "\n".join(f"{host}: {line}" for line in lines if line for host in ("p1", "p2"))
    found = sighting_of(paste)

    assert [machine.name for machine in found.machines] == ["p1", "p2"]
    assert all(machine.matrix and machine.matrix.complete for machine in found.machines)


def test_one_shell_asks_several_machines() -> None:
    """The same prompt with ssh to two hosts: two machines of those names, not one twice."""
    matrix = dump("a100_8gpu_nv12.txt")
    paste = "".join(f"me@head:~$ ssh {host} nvidia-smi topo -m\n{matrix}" for host in ("a1", "a2"))

    assert [machine.name for machine in sighting_of(paste).machines] == ["a1", "a2"]


@pytest.mark.parametrize(
    "line",
    [
        "|   0  NVIDIA A100-SXM4-80GB          On  |   00000000:07:00.0 Off |                    0 |",
        "0, NVIDIA A100-SXM4-80GB, 81920 MiB, 8.0, 580.105.08",
        "GPU 0,1,2,3,4,5,6,7: NVIDIA A100-SXM4-80GB",
    ],
)
def test_other_prints_of_nvidia_smi_name_the_card(line: str) -> None:
    """The table, a query, an environment report: each names the card that the matrix does not."""
    assert cluster_of_text(f"{line}\n{dump('a100_8gpu_nv12.txt')}", "x", {}).node.gpu.name == "A100-SXM-80GB"


def test_network_cards_that_were_found_but_not_shown_are_said() -> None:
    """Drivers print 56 columns at most and say how many devices there are."""
    text = TWO + "\n206 NICs found in the topology, only displaying 56 in the matrix.\n"

    assert "206 network cards found, 56 shown: paths to the others unknown" in only(text).notes


def test_cards_far_from_every_network_card_are_said() -> None:
    """NICs beside GPU0-3 only: the others reach them over the sockets."""
    notes = Islands(matrix=only(dump("a100_8gpu_3nic_four_numa.txt"))).notes()

    assert "no network card is close to GPU4-7: they use those of the others" in notes


def test_the_pcie_only_view_of_an_nvlink_card_is_said() -> None:
    """``topo -mp`` shows no NVLink: taken as shown, and the other view is asked for."""
    cluster = Cluster.read(DUMPS / "cloud_4gpu_sys_only.txt", gpu="H100-SXM-80GB")

    assert cluster.node.link == "pcie"
    assert any("topo -mp" in note for note in cluster.notes)


def test_the_card_is_asked_for_with_those_its_links_allow() -> None:
    """NV12 between eight cards is an A100; which one the matrix cannot tell."""
    with pytest.raises(InputError) as caught:
        Cluster.read(DUMPS / "a100_8gpu_nv12.txt")

    assert (caught.value.field, caught.value.legal) == ("cluster.gpu", ["A100-SXM-40GB", "A100-SXM-80GB"])


def test_a_mesh_tells_its_card_by_all_its_links() -> None:
    """Six links to each of three peers: a card with eighteen, not one with six."""
    with pytest.raises(InputError) as caught:
        Cluster.read(DUMPS / "gh200_4gpu_nv6.txt")

    assert "H100-SXM-80GB" in caught.value.legal and "V100-SXM-32GB" not in caught.value.legal


def test_a_bridge_that_nobody_spoke_of_is_said() -> None:
    """Two cards of a kind that a bridge can join count as joined, and it is told; given, it is not."""
    card = "gpu = 'TITAN-RTX'\ngpus_per_node = 2\n"
    bridged = cluster_of_text(card, "x.toml", {})
    assert bridged.node.link == "pairs"
    assert any("taken as joined by their NVLink bridge" in note for note in bridged.notes)
    for said in ({"link": "pcie"}, {"link": "pairs"}, {"island_gpus": 1}):
        given = cluster_of_text(card, "x.toml", said)
        assert not any("NVLink bridge" in note for note in given.notes)


@pytest.mark.parametrize(("link", "island"), [("pcie", 2), ("pairs", 1)])
def test_a_link_and_an_island_that_contradict(link: str, island: int) -> None:
    """Islands of one are cards on PCIe alone, and no others are."""
    with pytest.raises(InputError, match="contradicts link"):
        cluster_of_text(
            "gpu = 'TITAN-RTX'\ngpus_per_node = 2\n", "x.toml", {"link": link, "island_gpus": island}
        )


def test_a_network_of_unknown_kind_or_rate_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """A rate without a fabric counts as tcp and it is told; network cards without a rate show none."""
    said = {"gpu": "A100-SXM-80GB", "nodes": 2, "nic_gbit_per_s": 200, "nics_per_node": 8}
    cluster = Cluster.read(DUMPS / "a100_8gpu_nv12.txt", **said)
    assert any("fabric not known: taken as tcp" in note for note in cluster.notes)
    told = cluster_of_text("gpu = 'L4'\ngpus_per_node = 8\nnodes = 2\nnic_gbit_per_s = 100\n", "x.toml", {})
    assert any("fabric not known: taken as tcp" in note for note in told.notes)

    file = str(DUMPS / "a100_8gpu_3nic_four_numa.txt")
    assert main(["show", "cluster", file, "--set", "gpu=A100-SXM-80GB"]) == 0
    printed = capsys.readouterr().out
    assert "rate not given" in printed and "1.25 GB/s" not in printed


def test_the_card_is_read_where_the_paste_names_it() -> None:
    """Lines of ``nvidia-smi -L`` beside the matrix say which card it is."""
    line = "GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-00000000-0000-0000-0000-000000000000)\n"
    cluster = cluster_of_text(line + dump("a100_8gpu_nv12.txt"), "paste", {})

    assert cluster.node.gpu.name == "A100-SXM-80GB"


def test_several_nodes_ask_for_their_network() -> None:
    """No matrix tells the rate of a network card: two nodes need it, one does not."""
    with pytest.raises(InputError, match="nic_gbit_per_s"):
        Cluster.read(DUMPS / "a100_8gpu_nv12.txt", gpu="A100-SXM-80GB", nodes=2)


def test_a_measured_bus_rate_stands_above_the_path() -> None:
    """NODE says nothing of 56 GB/s: the measured rate is what a ring of the two cards gets."""
    said = {"gpu": "RTX-PRO-6000-Workstation", "measured_bus_gb_per_s": {"pcie": 56.0}}
    measured = Cluster.read(DUMPS / "rtxpro6000_2gpu_node.txt", **said)

    assert measured.node.curve(2, "all_reduce", "pcie").rate_bytes_per_s == pytest.approx(56e9)
    assert measured.node.peer_bytes_per_s == 56e9


@pytest.mark.parametrize("name", sorted(path.name for path in DUMPS.glob("*.txt")))
def test_our_own_format_round_trips(name: str) -> None:
    """A cluster written as TOML and read again is the same cluster, as is its JSON."""
    said = {"gpu": "H100-SXM-80GB", "nodes": 3, "nic_gbit_per_s": 400, "nics_per_node": 4}
    cluster = Cluster.read(DUMPS / name, **said)

    assert cluster_of_text(written(cluster), "x.toml", {}) == cluster
    assert cluster_of_text(json.dumps(cluster.model_dump(mode="json")), "x.json", {}) == cluster


@pytest.mark.parametrize("preset", ["dgx-h100", "gb200-nvl72", "NC96ads_A100_v4", "ws-8x-rtx-4090"])
def test_presets_round_trip(preset: str) -> None:
    """Every shape of the catalogue survives being written and read."""
    cluster = Cluster.preset(preset, nodes=5, oversubscription=2.5)

    assert cluster_of_text(written(cluster), "x.toml", {}) == cluster
