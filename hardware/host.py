"""The host beside the cards: PCI Express copies, memory bandwidth, CPU Adam."""

from __future__ import annotations

from functools import cache
from typing import Annotated

from pydantic import Field

from ..inputs import InputError, nearest
from ..inputs.listed import Listed
from ..inputs.record import dataclass
from .facts import facts

NO_HOST = "host memory not known: nothing is offloaded; give host_memory_gib or limits.host_memory_bytes"
"""The note of a cluster whose machines tell no host memory."""


@dataclass(frozen=True, kw_only=True)
class PcieRate(Listed):
    """A rate of one x16 link, one direction, by generation."""

    pcie_generation: Annotated[int, Field(ge=1)]
    bytes_per_s: Annotated[float, Field(gt=0)]
    grade: str
    source: str


@dataclass(frozen=True, kw_only=True)
class HostClass(Listed):
    """Hosts of one kind: what their memory sustains and the share of it CPU Adam reaches."""

    name: str
    dram_bytes_per_s: Annotated[float, Field(gt=0)]
    adam_efficiency: Annotated[float, Field(gt=0, le=1)]
    grade: str
    source: str


@dataclass(frozen=True, kw_only=True)
class HostLaw(Listed):
    """Rates of copies between host and card, and of the optimizer step on the host."""

    adam_bytes_per_parameter: Annotated[float, Field(gt=0)]
    nvme_read_bytes_per_s: Annotated[float, Field(gt=0)]
    nvme_write_bytes_per_s: Annotated[float, Field(gt=0)]
    classes: tuple[HostClass, ...]
    pinned: tuple[PcieRate, ...]
    collective: tuple[PcieRate, ...]

    def host_class(self, name: str, origin: str = "host_class", field: str = "host_class") -> HostClass:
        """The class called `name`. Raises `InputError` on `field` for another word."""
        found = {c.name: c for c in self.classes}
        if name not in found:
            raise InputError(field, name, origin, "is not known", legal=nearest(name, found))
        return found[name]

    def pinned_bytes_per_s(self, generation: int) -> float:
        """Rate of a copy from or to page-locked memory, bytes/s: gen3 12.5e9, gen4 24.8e9, gen5 55.6e9."""
        return _at(self.pinned, generation)

    def collective_bytes_per_s(self, generation: int) -> float:
        """Bus rate of a collective that crosses the processor, bytes/s: gen3 6e9, gen4 12e9."""
        return _at(self.collective, generation)

    def adam_parameters_per_s(self, dram_bytes_per_s: float, efficiency: float) -> float:
        """Parameters a second of CPU Adam: ``efficiency * dram / adam_bytes_per_parameter``.

        >>> round(host().adam_parameters_per_s(500e9, 0.58) / 1e9, 1)  # Grace: 10.2-10.4 measured
        10.4
        """
        return efficiency * dram_bytes_per_s / self.adam_bytes_per_parameter


def _at(rates: tuple[PcieRate, ...], generation: int) -> float:
    """The rate of `generation`, else of the newest one that is older, else of the oldest."""
    older = [rate for rate in rates if rate.pcie_generation <= generation] or [rates[0]]
    return max(older, key=lambda rate: rate.pcie_generation).bytes_per_s


@cache
def host() -> HostLaw:
    """The law of the catalogue (``host.json``, ``pcie.json``)."""
    data, pcie = facts("host"), facts("pcie")
    return HostLaw.listed(
        adam_bytes_per_parameter=data["adam_bytes_per_parameter"],
        nvme_read_bytes_per_s=data["nvme_read_bytes_per_s"],
        nvme_write_bytes_per_s=data["nvme_write_bytes_per_s"],
        classes=[HostClass.listed(**entry) for entry in data["classes"]],
        pinned=[PcieRate.listed(**entry) for entry in pcie["pinned"]],
        collective=[PcieRate.listed(**entry) for entry in pcie["collective"]],
    )
