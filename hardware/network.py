"""Laws of traffic between nodes: shares of the wire, half-speed sizes, latencies."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from ..inputs import InputError, nearest
from ..inputs.listed import Listed
from ..inputs.record import dataclass
from .facts import facts

Protocol = Literal["simple", "low_latency"]
Array = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Fabric(Listed):
    """One kind of network: `nic_share` of the wire that collectives reach, and seconds of a hop.

    `family` is the word people use for it and its kin, `port_gbit_per_s` what a port of it carries. A group's
    ring enters and leaves a machine by `group_ports` of its ports; None: by those next to all of its cards.
    """

    name: str
    family: str | None = None
    port_gbit_per_s: Annotated[float | None, Field(gt=0)] = None
    nic_share: Annotated[float, Field(gt=0, le=1)]
    group_ports: Annotated[int | None, Field(ge=1)] = None
    hop_seconds: Annotated[float, Field(gt=0)]
    source: str


@dataclass(frozen=True, kw_only=True)
class NetworkLaw(Listed):
    """Constants of ``network.json``, each with its source there (`source_of`).

    Between nodes a collective that puts W bytes on the bus takes ``W/B`` and what fills the tree's levels
    (`levels_seconds`). `all_to_all_share` and `cross_rail_share` multiply the rate of a NIC.
    """

    level_chunk_bytes: Annotated[float, Field(gt=0)]
    level_bytes: Annotated[float, Field(gt=0)]
    level_growth: Annotated[float, Field(ge=0, le=1)]
    all_to_all_share: Annotated[float, Field(gt=0, le=1)]
    cross_rail_share: Annotated[float, Field(gt=0, le=1)]
    ring_base_seconds: Annotated[float, Field(ge=0)]
    ring_inner_step_seconds: Annotated[float, Field(ge=0)]
    ring_network_step_seconds: Annotated[float, Field(ge=0)]
    ring_pcie_step_seconds: Annotated[float, Field(ge=0)]
    ring_low_latency_base_seconds: Annotated[float, Field(ge=0)]
    ring_low_latency_inner_step_seconds: Annotated[float, Field(ge=0)]
    ring_low_latency_network_step_seconds: Annotated[float, Field(ge=0)]
    tree_base_seconds: Annotated[float, Field(ge=0)]
    tree_inner_step_seconds: Annotated[float, Field(ge=0)]
    tree_network_step_seconds: Annotated[float, Field(ge=0)]
    tree_low_latency_base_seconds: Annotated[float, Field(ge=0)]
    tree_low_latency_inner_step_seconds: Annotated[float, Field(ge=0)]
    tree_low_latency_network_step_seconds: Annotated[float, Field(ge=0)]
    nvls_seconds: Annotated[float, Field(ge=0)]
    leaf_nodes: Annotated[int, Field(ge=1)]
    fabrics: tuple[Fabric, ...]

    def fabric(self, name: str, origin: str = "fabric", field: str = "fabric") -> Fabric:
        """The fabric called `name`. Raises `InputError` on `field` for another word."""
        found = {fabric.name: fabric for fabric in self.fabrics}
        if name not in found:
            raise InputError(field, name, origin, "is not known", legal=nearest(str(name), found))
        return found[name]

    def family(self, word: str | None) -> tuple[Fabric, ...]:
        """The fabrics that `word` stands for without their generation, the slowest port first."""
        return tuple(fabric for fabric in self.fabrics if word and fabric.family == word.strip().lower())

    def source_of(self, field: str) -> str:
        """Where the constant `field` comes from."""
        return str(facts("network")["law"][field]["source"])

    def levels_seconds(
        self, bus_bytes: npt.ArrayLike, nodes: npt.ArrayLike, fabric: str, nic_bytes_per_s: npt.ArrayLike
    ) -> Array:
        """Seconds until the levels of a tree over `nodes` are full, one way (an all-reduce goes up and down).

        ``log2(k) (hop + level_chunk_bytes / NIC) (W / level_bytes)^level_growth``

        >>> round(float(network().levels_seconds(2**26, 32, "infiniband-ndr", 47.5e9)) * 1e6)
        217
        """
        return np.asarray(self.level_seconds(nodes, fabric, nic_bytes_per_s) * self.filled(bus_bytes))

    def level_seconds(self, nodes: npt.ArrayLike, fabric: str, nic_bytes_per_s: npt.ArrayLike) -> Array:
        """`levels_seconds` of `level_bytes`."""
        hop = self.fabric(fabric).hop_seconds + self.level_chunk_bytes / np.asarray(nic_bytes_per_s)
        return np.asarray(np.log2(np.asarray(nodes, dtype=np.float64)) * hop)

    def filled(self, bus_bytes: npt.ArrayLike) -> Array:
        """How many times `level_seconds` a size takes."""
        filled = (np.asarray(bus_bytes, dtype=np.float64) / self.level_bytes) ** self.level_growth
        return np.asarray(filled)

    def ring_seconds(
        self, steps: npt.ArrayLike, network_steps: npt.ArrayLike, protocol: Protocol = "simple"
    ) -> Array:
        """Latency of a ring of `steps` steps, `network_steps` of them between nodes.

        All-reduce over n cards in k nodes: ``2(n-1)`` and ``2(k-1)``; gathers: half of both.

        >>> round(float(network().ring_seconds(2046, 254)) * 1e3, 1)  # 1,024 cards in 128 nodes
        9.7
        """
        base, inner, outer = self._ring(protocol)
        outside = np.asarray(network_steps, dtype=np.float64)
        return np.asarray(base + (np.asarray(steps, dtype=np.float64) - outside) * inner + outside * outer)

    def tree_seconds(
        self, node_gpus: npt.ArrayLike, nodes: npt.ArrayLike, protocol: Protocol = "simple"
    ) -> Array:
        """Latency of a tree all-reduce: ``base + 2((g-1) inner + log2(k) outer)``.

        >>> round(float(network().tree_seconds(8, 128)) * 1e3, 2)
        0.26
        """
        base, inner, outer = self._tree(protocol)
        inside = (np.asarray(node_gpus, dtype=np.float64) - 1.0) * inner
        return np.asarray(base + 2.0 * (inside + np.log2(np.asarray(nodes, dtype=np.float64)) * outer))

    def _ring(self, protocol: Protocol) -> tuple[float, float, float]:
        if protocol == "simple":
            return self.ring_base_seconds, self.ring_inner_step_seconds, self.ring_network_step_seconds
        return (
            self.ring_low_latency_base_seconds,
            self.ring_low_latency_inner_step_seconds,
            self.ring_low_latency_network_step_seconds,
        )

    def _tree(self, protocol: Protocol) -> tuple[float, float, float]:
        if protocol == "simple":
            return self.tree_base_seconds, self.tree_inner_step_seconds, self.tree_network_step_seconds
        return (
            self.tree_low_latency_base_seconds,
            self.tree_low_latency_inner_step_seconds,
            self.tree_low_latency_network_step_seconds,
        )


@cache
def network() -> NetworkLaw:
    """The law of the catalogue (``network.json``)."""
    data = facts("network")
    values = {field: entry["value"] for field, entry in data["law"].items()}
    return NetworkLaw.listed(**values, fabrics=[Fabric.listed(**entry) for entry in data["fabrics"]])
