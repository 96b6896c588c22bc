"""One machine: cards, how they reach each other, network cards, host."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from ..inputs import Frozen
from .collective import CollectiveCurve
from .collective_tables import collective_curve
from .gpu import Gpu
from .host import host
from .measured import p2p_bytes_per_s
from .network import network

Link = Literal["nvswitch", "nvlink-mesh", "xgmi-mesh", "pairs", "pcie"]


class Node(Frozen):
    """One machine of a cluster. Bandwidths in ONE direction, GB = 1e9.

    `island_size` cards of this machine reach each other without PCI Express (1 for `pcie`, 2 for
    `pairs`); `domain_size` is the NVLink domain in cards, larger than `gpus` where trays share one
    (72 in an NVL72, whose node is ONE TRAY of 4 cards). `host_dram_bytes_per_s` is what all sockets
    sustain together and `cpu_adam_efficiency` the share of it that CPU Adam reaches.

    `link_share` is what the weakest pair of an island has of the card's NVLinks (below 1: degraded), and
    `card_order` the cards in the order ranks should visit them (empty: as numbered). Bus rates that were
    measured on such a machine (``nccl-tests`` all-reduce, large messages) stand above the catalogue's.
    """

    name: str = Field(min_length=1)
    provider: str = ""
    gpu: Gpu
    gpus: int = Field(ge=1, le=1024)
    link: Link
    island_size: int = Field(ge=1)
    domain_size: int = Field(ge=1)
    nics: int = Field(ge=1)
    nic_bytes_per_s: float = Field(gt=0)
    fabric: str
    host_memory_bytes: int = Field(ge=0)
    host_dram_bytes_per_s: float = Field(gt=0)
    cpu_adam_efficiency: float = Field(gt=0, le=1)
    cpu_cores: int = Field(ge=1)
    nvme_bytes: int = Field(ge=0)
    usd_per_hour: float | None = Field(default=None, ge=0)
    price_note: str | None = None
    link_share: float = Field(default=1.0, gt=0, le=1)
    card_order: tuple[int, ...] = ()
    island_bus_bytes_per_s: float | None = Field(default=None, gt=0)
    pcie_bus_bytes_per_s: float | None = Field(default=None, gt=0)
    network_bus_bytes_per_s: float | None = Field(default=None, gt=0)
    source: str

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.gpus % self.island_size:
            raise ValueError(f"island_size {self.island_size} does not divide gpus {self.gpus}")
        whole = self.domain_size % self.gpus == 0 and self.island_size == self.gpus
        if self.domain_size != self.island_size and not whole:
            reason = f"must be island_size, or whole nodes of {self.gpus} cards"
            raise ValueError(f"domain_size {self.domain_size} {reason}")
        if self.island_size > 1 and not self.gpu.joins(self.island_size):
            raise ValueError(f"{self.gpu.name} cannot join {self.island_size} cards without PCI Express")
        if self.card_order and sorted(self.card_order) != list(range(self.gpus)):
            raise ValueError(f"card_order must name each of the {self.gpus} cards once")
        network().fabric(self.fabric)
        return self

    def curve(self, ranks: int, kind: str, link: Literal["island", "pcie"] | None = None) -> CollectiveCurve:
        """The collective `kind` among `ranks` cards of this machine's domain: the card's curve, its rate
        scaled to what was measured here or to the weakest link.

        Raises `InputError` as `collective_curve`.
        """
        found = collective_curve(self.gpu, ranks, kind, link)
        measured = self.island_bus_bytes_per_s if found.link == "island" else self.pcie_bus_bytes_per_s
        share = self.link_share if found.link == "island" else 1.0
        if measured is not None:
            cards = self.domain_size if found.link == "island" else self.gpus
            known = collective_curve(self.gpu, max(cards, 2), "all_reduce", found.link)
            share, word = measured / known.rate_bytes_per_s, "scaled to the bus rate measured here"
        elif share < 1.0:
            word = f"{share:.3g} of it: the weakest link"
        else:
            return found
        return found.at_rate(found.rate_bytes_per_s * share, f"{found.source}; {word}")

    @property
    def peer_bytes_per_s(self) -> float:
        """Rate of one card writing to one other of its island, or over PCI Express where it has none."""
        found = p2p_bytes_per_s(self.gpu)
        if self.island_size > 1:
            return found * self.link_share
        return found if self.pcie_bus_bytes_per_s is None else self.pcie_bus_bytes_per_s

    @property
    def described_name(self) -> str:
        """What a machine of no known type is called: its cards."""
        return f"{self.gpus}x {self.gpu.name}"

    @property
    def network_share(self) -> float:
        """What collectives reach of the wire: as measured here, else the fabric's share."""
        if self.network_bus_bytes_per_s is None:
            return network().fabric(self.fabric).nic_share
        return min(1.0, self.network_bus_bytes_per_s / self.network_bytes_per_s)

    @property
    def network_bytes_per_s(self) -> float:
        """All network cards of the machine together."""
        return self.nics * self.nic_bytes_per_s

    @property
    def islands(self) -> int:
        """Islands inside this machine."""
        return self.gpus // self.island_size

    @property
    def domain_nodes(self) -> int:
        """Machines that share one NVLink domain (18 trays in an NVL72, else 1)."""
        return max(1, self.domain_size // self.gpus)

    @property
    def grouped_domain_size(self) -> int:
        """Cards of the domain that groups of 2, 4, 8, .. fill without straddling it: 64 of an NVL72's 72."""
        return 1 << (self.domain_size.bit_length() - 1)

    @property
    def host_link_bytes_per_s(self) -> float:
        """Rate between host memory (page-locked) and each card while all cards copy, as they do in a step.

        NVLink-C2C where there is one (nominal; cards of one Grace share it), else what PCI Express of that
        generation reaches.
        """
        gpu = self.gpu
        if gpu.c2c_bytes_per_s:
            return gpu.c2c_bytes_per_s / gpu.c2c_sharers
        return host().pinned_bytes_per_s(gpu.pcie_generation)

    @property
    def cpu_adam_parameters_per_s(self) -> float:
        """Parameters a second that CPU Adam updates on this machine, all ranks together."""
        return host().adam_parameters_per_s(self.host_dram_bytes_per_s, self.cpu_adam_efficiency)
