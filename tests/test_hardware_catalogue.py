"""The catalogue of cards and nodes: names, units, sources, and what follows from them."""

from __future__ import annotations

import json
from dataclasses import fields
from importlib import resources

import pytest

from shardwise.hardware import Gpu, Node, catalogue
from shardwise.inputs import InputError

REQUIRED = [
    "dgx-a100-40gb",
    "dgx-a100-80gb",
    "dgx-h100",
    "dgx-h200",
    "dgx-b200",
    "dgx-b300",
    "gb200-nvl72",
    "gb300-nvl72",
    "p4d.24xlarge",
    "p4de.24xlarge",
    "p5.48xlarge",
    "p5en.48xlarge",
    "p6-b200.48xlarge",
    "a2-highgpu-8g",
    "a3-megagpu-8g",
    "a4-highgpu-8g",
    "ND96isr_H100_v5",
    "ND96amsr_A100_v4",
    "NC96ads_A100_v4",
    "BM.GPU.H100.8",
    "gpu_8x_h100_sxm5",
    "ws-8x-rtx-4090",
]

FILES = ("gpus", "nodes", "gemm", "attention", "collectives", "pcie", "host", "network", "stand_ins")


def content(name: str) -> dict[str, object]:
    """A catalogue file as it lies in the package."""
    text = resources.files("shardwise.hardware").joinpath("catalogue", f"{name}.json").read_text("utf-8")
    found: dict[str, object] = json.loads(text)
    return found


@pytest.mark.parametrize("name", REQUIRED)
def test_the_names_of_the_contract_are_there(name: str) -> None:
    """Cluster names keep the vendors' and clouds' own spelling and are met in any case."""
    assert catalogue.node(name).name == name
    assert catalogue.node(name.upper()) == catalogue.node(name.lower())


def test_every_card_of_every_node_is_in_the_catalogue() -> None:
    """A node holds a whole card, and all entries validate: nothing is looked up later."""
    assert len(catalogue.gpu_names()) == 48
    assert len(catalogue.node_names()) == 51
    for name in catalogue.node_names():
        assert catalogue.node(name).gpu == catalogue.gpu(catalogue.node(name).gpu.name)


@pytest.mark.parametrize("name", FILES)
def test_every_entry_keeps_its_source(name: str) -> None:
    """A number without a source cannot be checked: each row of each list names one."""
    for key, entries in content(name).items():
        if isinstance(entries, list):
            assert entries, f"{name}.{key} is empty"
            assert all(str(entry["source"]).strip() for entry in entries), f"{name}.{key}"


def test_every_constant_of_the_network_law_has_a_source() -> None:
    """`source_of` answers for each scalar of the law."""
    law = catalogue.network()
    for field in fields(law):
        if field.name != "fabrics":
            assert law.source_of(field.name)


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("A100-80GB-SXM", "A100-SXM-80GB"),
        ("h100-80gb-sxm", "H100-SXM-80GB"),
        ("RTX4090-24GB", "RTX-4090"),
        (" GB200-192GB ", "GB200"),
    ],
)
def test_aliases_of_cards(alias: str, name: str) -> None:
    """What other tools call a card leads to it, in any case."""
    assert catalogue.gpu(alias).name == name


def test_units_of_a_card() -> None:
    """Bandwidths are bytes a second in one direction, GB 1e9; usable memory counts GiB of 2^30."""
    card = catalogue.gpu("H100-SXM-80GB")

    assert card.memory_bytes == 80_000_000_000
    assert card.memory_usable_bytes == round(79.1 * 2**30)
    assert card.hbm_bytes_per_s == 3350e9
    assert card.nvlink_bytes_per_s == 450e9
    assert card.peak_flops_per_s("bf16") == 989.4e12
    assert card.peak_flops_per_s("fp32") == 494.7e12
    assert card.sms == 132


def test_what_a_card_lacks_is_none() -> None:
    """No fp8 on A100, no MXFP8 on Hopper, no bf16 on V100; a word that is no precision is refused."""
    assert catalogue.gpu("A100-SXM-80GB").peak_flops_per_s("fp8") is None
    assert catalogue.gpu("H100-SXM-80GB").peak_flops_per_s("mxfp8") is None
    assert catalogue.gpu("V100-SXM2-32GB").peak_flops_per_s("bf16") is None
    assert catalogue.gpu("A100-SXM-80GB").precisions == ("bf16", "fp16", "fp32")
    with pytest.raises(InputError) as error:
        catalogue.gpu("A100-SXM-80GB").peak_flops_per_s("bf61")
    assert error.value.legal[0] == "bf16"


def test_usable_memory_is_below_nominal() -> None:
    """No process can allocate more than the card has, read with 2^30 for its GB."""
    for name in catalogue.gpu_names():
        card = catalogue.gpu(name)
        gigabytes = card.memory_bytes // 10**9
        assert 0.85 * card.memory_bytes < card.memory_usable_bytes <= gigabytes * 2**30


@pytest.mark.parametrize(
    ("name", "network_gbit", "cores", "host_gb", "usd"),
    [
        ("dgx-h100", 3200, 112, 2048, None),
        ("p5.48xlarge", 3200, 96, 2048, 55.04),
        ("p4d.24xlarge", 400, 48, 1152, 21.957642),
        ("gb200-nvl72", 1600, 144, 960, None),
        ("ND96isr_H100_v5", 3200, 96, 1900, 98.32),
    ],
)
def test_facts_of_nodes(
    name: str, network_gbit: float, cores: int, host_gb: float, usd: float | None
) -> None:
    """Network is the sum of all NICs in one direction; two hardware threads count as one core."""
    node = catalogue.node(name)

    assert node.network_bytes_per_s == pytest.approx(network_gbit * 1e9 / 8)
    assert (node.cpu_cores, node.host_memory_bytes, node.usd_per_hour) == (cores, host_gb * 1e9, usd)


def test_a_tray_of_an_nvl72_shares_its_domain_with_17_others() -> None:
    """The node of an NVL72 is one tray: 4 cards, NVLink domain of 72."""
    tray = catalogue.node("gb200-nvl72")

    assert (tray.gpus, tray.island_size, tray.domain_size, tray.domain_nodes) == (4, 4, 72, 18)


@pytest.mark.parametrize(
    ("name", "rate"),
    [
        ("dgx-a100-80gb", 24.8e9),
        ("dgx-h100", 55.6e9),
        ("p3dn.24xlarge", 12.5e9),
        ("gb200-nvl72", 225e9),
    ],
)
def test_copies_between_host_and_card(name: str, rate: float) -> None:
    """Pinned copies run at what the PCI Express generation reaches, on Grace at a share of NVLink-C2C."""
    node = catalogue.node(name)

    assert node.host_link_bytes_per_s == rate
    assert rate < node.gpu.pcie_bytes_per_s or node.gpu.c2c_bytes_per_s == rate * node.gpu.c2c_sharers


def test_cpu_adam_follows_host_memory() -> None:
    """28 bytes a parameter: 4.2e9 parameters/s on two DDR5 sockets, 10.4e9 on one Grace."""
    assert catalogue.node("dgx-h200").cpu_adam_parameters_per_s == pytest.approx(4.2e9, rel=0.01)
    tray = catalogue.node("gb200-nvl72").cpu_adam_parameters_per_s
    assert tray / 2 == pytest.approx(10.4e9, rel=0.01)


@pytest.mark.parametrize(("wrong", "near"), [("H100-SXM-80G", "H100-SXM-80GB"), ("RTX-4099", "RTX-4090")])
def test_unknown_cards_are_refused_with_the_nearest(wrong: str, near: str) -> None:
    """One error: field, value, origin, and names that exist."""
    with pytest.raises(InputError) as error:
        catalogue.gpu(wrong, "--card")

    assert (error.value.field, error.value.value, error.value.origin) == ("gpu", wrong, "--card")
    assert error.value.legal[0] == near


@pytest.mark.parametrize("wrong", ["", "dgx", "no such machine" * 1000, 7, None, ["dgx-h100"]])
def test_anything_else_for_a_name_is_refused(wrong: object) -> None:
    """Empty, long and ill-typed names give the same error, never another exception."""
    with pytest.raises(InputError) as error:
        catalogue.node(wrong)  # type: ignore[arg-type]

    assert error.value.field == "node"
    assert set(error.value.legal) <= set(catalogue.node_names())


def test_nodes_must_make_sense() -> None:
    """Islands divide the node, domains are whole nodes, and a card without NVLink joins none."""
    values = catalogue.node("dgx-h100").model_dump()
    for change in ({"island_size": 3}, {"domain_size": 12}, {"fabric": "smoke"}):
        with pytest.raises(ValueError, match="|".join(change)):
            Node.model_validate({**values, **change})
    with pytest.raises(ValueError, match="cannot join"):
        Node.model_validate({**values, "gpu": catalogue.gpu("L40S").model_dump()})


def test_cards_and_nodes_round_trip_through_json() -> None:
    """What is written is read back equal, floats to the last bit."""
    for name in catalogue.node_names():
        node = catalogue.node(name)
        assert Node.model_validate_json(node.model_dump_json()) == node
        assert Gpu.model_validate_json(node.gpu.model_dump_json()) == node.gpu
