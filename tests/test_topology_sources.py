"""Schedulers' own words for a cluster: Slurm, Kubernetes, and files of our own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shardwise.hardware import Cluster
from shardwise.hardware.topology import cluster_of_text, sighting_of
from shardwise.hardware.topology.cards import cards_named
from shardwise.inputs import InputError

TREE = """\
# two leaves under a spine
SwitchName=leaf1 Nodes=gpu[01-04]
SwitchName=leaf2 Nodes=gpu[05-07,08]
SwitchName=spine Switches=leaf[1-2]
"""

NODE = """\
NodeName=gpu{number:02d} Arch=x86_64 CoresPerSocket=56
   CPUAlloc=0 CPUEfctv=224 CPUTot=224 CPULoad=0.10
   AvailableFeatures=(null)
   Gres=gpu:h100:8(S:0-1)
   NodeAddr=gpu{number:02d} NodeHostName=gpu{number:02d} Version=23.02.6
   RealMemory=2063937 AllocMem=0 FreeMem=1900000 Sockets=2 Boards=1
   State={state} ThreadsPerCore=2 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   CfgTRES=cpu=224,mem=2063937M,billing=224,gres/gpu=8,gres/gpu:h100=8
   AllocTRES=cpu=28,gres/gpu={used},gres/gpu:h100={used}
"""


def nodes(*taken: int, state: str = "MIXED") -> str:
    return "\n".join(NODE.format(number=i + 1, used=used, state=state) for i, used in enumerate(taken))


def read(text: str, **said: Any) -> Cluster:
    return cluster_of_text(text, "text", said)


def test_a_slurm_tree_gives_leaves() -> None:
    """Switches that name nodes are leaves; what the nodes are, somebody must say."""
    found = sighting_of(TREE)

    assert [machine.leaf for machine in found.machines] == ["leaf1"] * 4 + ["leaf2"] * 4
    cluster = read(TREE, machine="dgx-h100")
    assert (cluster.nodes, cluster.leaf_nodes, cluster.tiers().tiers[-1].name) == (8, 4, "spine")
    with pytest.raises(InputError, match=r"cluster\.gpu"):
        read(TREE)


def test_slurm_blocks_are_told_apart_from_nvlink() -> None:
    """A block is where a scheduler puts a job, not yet an NVLink domain."""
    found = sighting_of("BlockName=b1 Nodes=n[01-18]\nBlockName=b2 Nodes=n[19-36]\nBlockSizes=18\n")

    assert len(found.machines) == 36
    assert any("up to 18 nodes" in note for note in found.notes)


def test_free_cards_of_slurm_nodes() -> None:
    """Free is configured less allocated; a drained node has none; leaves come from the tree."""
    text = TREE + nodes(0, 2, 5) + NODE.format(number=5, used=0, state="IDLE+DRAIN")
    cluster = read(text, machine="dgx-h100")

    assert cluster.free == ((8, 6, 3),)
    assert cluster.gpus == 17
    assert any("17 are free" in note for note in cluster.notes)


def test_a_record_on_one_line_is_read_past_the_kernels_number() -> None:
    """``scontrol -o``: the build number of the kernel (#1) begins no comment."""
    line = " ".join(NODE.format(number=1, used=3, state="MIXED").split())
    line = line.replace("RealMemory", "OS=Linux 5.15.0-107-generic #1 SMP Tue Nov 14 UTC 2023 RealMemory")
    (machine,) = sighting_of(line + "  # seen at noon\n").machines

    assert (machine.cards, machine.free, machine.host_memory_bytes) == (8, 5, 2063937 * 2**20)


def test_cards_that_slurm_does_not_count() -> None:
    """Without gres/gpu among what is counted a full node is full, and of a mixed one it is said."""
    plain = NODE.replace(",gres/gpu=8,gres/gpu:h100=8", "").replace(
        ",gres/gpu={used},gres/gpu:h100={used}", ""
    )
    full, part = (plain.format(number=i, state=state) for i, state in ((1, "ALLOCATED"), (2, "MIXED")))
    found = sighting_of(full + "\n" + part)

    assert [machine.free for machine in found.machines] == [0, 8]
    assert any("cards taken on 1 nodes unknown, as gpu02" in note for note in found.notes)
    told = part.replace("NodeAddr", "GresUsed=gpu:h100:3(IDX:0-2) NodeAddr")
    assert [machine.free for machine in sighting_of(told).machines] == [5]


def test_lines_of_slurm_conf_have_defaults_and_one_machine_a_name() -> None:
    """DEFAULT is no machine; what scontrol prints of a name later counts."""
    text = "NodeName=DEFAULT RealMemory=1000 Gres=gpu:h100:8\nNodeName=gpu[01-02] CPUs=64\n" + nodes(2)
    first, second = sighting_of(text).machines

    assert (first.name, first.free, first.host_memory_bytes) == ("gpu01", 6, 2063937 * 2**20)
    assert (second.name, second.free, second.host_memory_bytes) == ("gpu02", 8, 1000 * 2**20)


def test_slurm_in_a_cloud_names_the_instance_type() -> None:
    """InstanceType is the catalogue's node type: card, links and network are known at once."""
    text = NODE.format(number=1, used=0, state="IDLE+CLOUD") + "   InstanceId=i-0 InstanceType=p5.48xlarge\n"

    assert read(text).node.name == "p5.48xlarge"


YAML = """\
---
- topology: gpus
  cluster_default: true
  tree:
    switches:
      - switch: spine      # above both
        children: leaf[1-2]
      - switch: leaf1
        nodes: gpu[01-04]
      - switch: leaf2
        nodes: gpu[05-08]
- topology: other
  cluster_default: false
  block:
    block_sizes: [4, 8]
    blocks:
      - block: b1
        nodes: gpu[01-08]
"""


def test_topology_yaml_is_the_same_as_topology_conf() -> None:
    """Slurm 25.05's form: the cluster's default topology, whichever stands first."""
    swapped = "---\n" + "- topology: other" + YAML.split("- topology: other")[1] + YAML.split("---\n")[1]
    swapped = swapped[: swapped.rindex("- topology: other")]
    for text in (YAML, swapped):
        assert sighting_of(text).machines == sighting_of(TREE).machines
    blocks = YAML.replace("true", "false").replace("  cluster_default: false\n  block", "  block")
    assert [m.leaf for m in sighting_of("- topology: b" + blocks.split("- topology: other")[1]).machines] == [
        "b1"
    ] * 8


def test_whole_free_nodes_are_a_plain_cluster() -> None:
    """Nothing taken: no fragments, host memory and cores as the nodes say."""
    cluster = read(nodes(0, 0), gpu="H100-SXM-80GB", nic_gbit_per_s=400, nics_per_node=8)

    assert (cluster.nodes, cluster.gpus, cluster.free) == (2, 16, ())
    assert (cluster.node.host_memory_bytes, cluster.node.cpu_cores) == (2063937 * 2**20, 224)


def test_a_gres_word_that_leaves_the_card_open_is_asked_for() -> None:
    """``gpu:h100`` may be SXM, PCIe or NVL: the candidates are named."""
    with pytest.raises(InputError) as caught:
        read(nodes(0))

    assert {"H100-SXM-80GB", "H100-PCIe-80GB"} <= set(caught.value.legal)


def kubernetes(count: int, **over: Any) -> str:
    labels = {
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
        "nvidia.com/gpu.memory": "81559",
        "nvidia.com/gpu.count": "8",
        **over.get("labels", {}),
    }
    items = [
        {
            "kind": "Node",
            "metadata": {"name": f"n{i}", "labels": labels},
            "spec": over.get("spec", {}),
            "status": {
                "capacity": {"cpu": "192", "memory": "2097152000Ki", "nvidia.com/gpu": "8"},
                "allocatable": {"nvidia.com/gpu": str(over.get("free", 8))},
                "conditions": [{"type": "Ready", "status": over.get("ready", "True")}],
            },
        }
        for i in range(count)
    ]
    plain = {"kind": "Node", "metadata": {"name": "cpu"}, "status": {"capacity": {"cpu": "8"}}}
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [*items, plain]})


def test_kubernetes_nodes_name_their_cards() -> None:
    """GPU feature discovery's product is the card; nodes without GPUs are left out and counted."""
    cluster = read(kubernetes(2), nic_gbit_per_s=400, nics_per_node=8)

    assert (cluster.node.gpu.name, cluster.nodes, cluster.node.cpu_cores) == ("H100-SXM-80GB", 2, 192)
    assert any("1 nodes without GPUs" in note for note in cluster.notes)


def test_shared_cards_count_once() -> None:
    """Time slicing and MPS multiply what Kubernetes hands out, not the cards."""
    labels = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-SHARED", "nvidia.com/gpu.replicas": "10"}
    text = kubernetes(1, labels=labels).replace('"nvidia.com/gpu": "8"', '"nvidia.com/gpu": "80"')
    cluster = read(text)

    assert (cluster.gpus, cluster.node.gpu.name) == (8, "H100-SXM-80GB")
    assert any("shared by several pods" in note for note in cluster.notes)


@pytest.mark.parametrize(
    ("key", "value", "card"),
    [
        ("cloud.google.com/gke-accelerator", "nvidia-h100-80gb", "H100-SXM-80GB"),
        ("cloud.google.com/gke-accelerator", "nvidia-l4", "L4"),
        ("karpenter.k8s.aws/instance-gpu-name", "l40s", "L40S"),
    ],
)
def test_clouds_name_the_card_in_labels_of_their_own(key: str, value: str, card: str) -> None:
    """Where GPU feature discovery does not run, the cloud's label tells the card."""
    text = kubernetes(1).replace("nvidia.com/gpu.product", key).replace("NVIDIA-H100-80GB-HBM3", value)

    assert read(text.replace("81559", "")).node.gpu.name == card


def test_a_known_instance_type_is_the_catalogues() -> None:
    """The label of the instance type answers card, links and network at once."""
    cluster = read(kubernetes(4, labels={"node.kubernetes.io/instance-type": "p5.48xlarge"}))

    assert (cluster.node.name, cluster.node.nics) == ("p5.48xlarge", 32)


def test_slices_are_cards_without_peers() -> None:
    """A product that ends in -MIG-PROFILE: seven slices of 10 GB, no links."""
    sliced = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", "nvidia.com/gpu.memory": "9728"}
    cluster = read(kubernetes(1, labels=sliced))

    assert (cluster.node.gpu.memory_bytes, cluster.node.link) == (10 * 10**9, "pcie")
    assert any("MIG slices" in note for note in cluster.notes)


def test_a_card_the_catalogue_lacks_is_named() -> None:
    """The question repeats what the nodes say of their cards."""
    with pytest.raises(InputError, match="Tesla-K80"):
        read(kubernetes(1, labels={"nvidia.com/gpu.product": "Tesla-K80", "nvidia.com/gpu.memory": "11441"}))


@pytest.mark.parametrize(
    ("name", "cards"),
    [
        ("nvidia_h100_80gb_hbm3", ["H100-SXM-80GB"]),
        ("NVIDIA H100 PCIe", ["H100-PCIe-80GB"]),
        ("NVIDIA H200", ["H200-SXM"]),
        ("NVIDIA GH200 480GB", ["GH200-144GB", "GH200-96GB"]),
        ("Tesla V100-SXM2-32GB", ["V100-SXM2-32GB"]),
        ("NVIDIA RTX 6000 Ada Generation", ["RTX-6000-Ada"]),
        ("NVIDIA GeForce RTX 3090", ["RTX-3090"]),
        ("v100", ["V100-SXM2-16GB", "V100-SXM2-32GB"]),
        ("Tesla K80", []),
    ],
)
def test_names_of_drivers_and_schedulers(name: str, cards: list[str]) -> None:
    """What they print means one card of the catalogue, several, or none."""
    assert [card.name for card in cards_named(name)] == cards


def test_allocatable_cards_are_the_free_ones() -> None:
    """Six of eight allocatable on each of three nodes are fragments."""
    cluster = read(kubernetes(3, free=6), nic_gbit_per_s=400, nics_per_node=8)

    assert cluster.free == ((6, 6, 6),)
    with pytest.raises(InputError, match="no card is free"):
        read(kubernetes(1, ready="False"))


def test_our_own_file_in_a_few_keys() -> None:
    """A type of the catalogue, a network of one's own, a measured rate."""
    text = """
name = "lab"
machine = "dgx-h100"
nodes = 64
leaf_nodes = 16
oversubscription = 2.0
usd_per_hour = 20.0
[measured_bus_gb_per_s]
network = 200.0
"""
    cluster = read(text)

    tiers = {tier.name: tier.bandwidth_bytes_per_s for tier in cluster.tiers().tiers}
    assert (cluster.name, cluster.gpus, cluster.usd_per_hour) == ("lab", 512, 64 * 20.0)
    assert tiers["leaf"] == pytest.approx(200e9 / 8)
    assert tiers["spine"] == pytest.approx(100e9 / 8)


def test_pools_make_a_mixed_cluster() -> None:
    """Two kinds of machines: the first is the cluster's own, the others stand beside it."""
    cluster = read(
        '[[pool]]\nmachine = "dgx-h100"\nnodes = 2\n[[pool]]\nmachine = "dgx-a100-80gb"\nnodes = 4\n'
    )

    assert [pool.gpus for pool in cluster.pools] == [16, 32]
    assert cluster.gpus == 48
    assert {data["kind"] for _, data in cluster.graph.nodes(data=True)} == {"node", "leaf", "spine"}


def test_free_cards_in_our_own_file() -> None:
    """One list is one leaf; several lists are several."""
    assert read('machine = "dgx-h100"\nfree = [8, 6, 3]\n').free == ((8, 6, 3),)
    assert read('machine = "dgx-h100"\nfree = [[8, 6], [3]]\n').gpus == 17


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ('machine = "dgx-h10"', "cluster.machine"),
        ('machine = "dgx-h100"\nnodez = 2', "cluster.nodez"),
        ('machine = "dgx-h100"\nnodes = 0', "cluster.nodes"),
        ('gpu = "L4"', "cluster.gpus_per_node"),
        ('gpu = "L4"\ngpus_per_node = 8\nnodes = 2', "cluster.nic_gbit_per_s"),
        ('machine = "dgx-h100"\nfree = [9]', "cluster.free"),
        ('machine = "dgx-h100"\nfabric = "token-ring"', "cluster.fabric"),
        ("SwitchName=s Nodes=n[1-", "Nodes"),
        ("SwitchName=s Nodes=n[1-99999999]", "Nodes"),
        ('{"items": []}', "cluster.file"),
        ("nothing of the kind", "cluster.file"),
        ('pool = 3\nmachine = "dgx-h100"', "cluster.pool"),
        ('nodes = 4\n[[pool]]\nmachine = "dgx-h100"\nnodes = 2', "cluster.nodes"),
    ],
)
def test_one_error_names_the_field(text: str, field: str) -> None:
    """What cannot be used is one input error on its field."""
    with pytest.raises(InputError) as caught:
        read(text)

    assert caught.value.field == field


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("NodeName=a RealMemory=lots", "RealMemory = lots (from t:1): must be a whole number of MiB"),
        (
            "NodeName=DEFAULT CPUs=8 \\\n  RealMemory=2TiB\nNodeName=a Gres=gpu:h100:8",
            "RealMemory = 2TiB (from t:2): must be a whole number of MiB; legal: 2097152",
        ),
        ("NodeName=a\n   CPUTot=many", "CPUTot = many (from t:2): must be a whole number"),
        ("NodeName=a Gres=gpu:h100", "Gres = gpu:h100 (from t:1): does not tell how many cards"),
        (
            "SwitchName=s0 Nodes=a[1-4]\nSwitchName=s1 Nodes=b[4-1]",
            "Nodes = b[4-1] (from t:2): '4-1' runs backwards",
        ),
        ("NodeName=a\nNodeName=b[1", "NodeName = b[1 (from t:2): has a bracket that is not a host range"),
        ("- topology: x\n  tree:\n    - switch: s\n      nodes: a[x]", "Nodes = a[x] (from t:4): "),
    ],
)
def test_a_value_of_slurm_that_is_none_is_told_with_its_line(text: str, told: str) -> None:
    """Nothing unreadable counts as unsaid."""
    with pytest.raises(InputError) as caught:
        sighting_of(text, "t")

    assert str(caught.value).startswith(told)


def test_what_slurm_was_never_told_is_not_known() -> None:
    """RealMemory is 1 MiB by default; a count follows ``no_consume`` too; other resources are none."""
    line = "NodeName=a RealMemory=1 CPUs=(null) Gres=lustre:1,gpu:h100:no_consume:8(S:0-1)"
    (machine,) = sighting_of(line).machines

    assert (machine.cards, machine.card) == (8, "h100")
    assert (machine.host_memory_bytes, machine.cpu_cores) == (None, None)


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ('"memory": "2097152000Ki"', '"memory": "lots"', "status.capacity.memory"),
        ('"nvidia.com/gpu": "8"', '"nvidia.com/gpu": "eight"', "status.capacity.nvidia.com/gpu"),
        ('"nvidia.com/gpu": "8"', '"nvidia.com/gpu": "2048"', "status.capacity.nvidia.com/gpu"),
        (
            '"nvidia.com/gpu.count": "8"',
            '"nvidia.com/gpu.count": "-8"',
            "metadata.labels.nvidia.com/gpu.count",
        ),
    ],
)
def test_a_quantity_of_kubernetes_that_is_none_is_told_with_its_line(old: str, new: str, field: str) -> None:
    """Of the node it stands in, though the list before it is right."""
    lines = json.dumps(json.loads(kubernetes(2)), indent=1).split("\n")
    last = max(number for number, line in enumerate(lines) if old in line)
    if "capacity" in field:
        last = max(n for n, line in enumerate(lines) if old in line and "allocatable" not in lines[n - 1])
    lines[last] = lines[last].replace(old, new)
    with pytest.raises(InputError) as caught:
        sighting_of("\n".join(lines), "n.json")

    assert (caught.value.field, caught.value.origin) == (field, f"n.json:{last + 1}")


def test_fractions_of_kubernetes_quantities_are_read() -> None:
    """Its grammar has decimal points and exponents."""
    text = kubernetes(1).replace("2097152000Ki", "1.5Ti").replace('"192"', '"1e2"')
    (machine,) = sighting_of(text).machines

    assert (machine.host_memory_bytes, machine.cpu_cores) == (3 * 2**39, 100)
