"""A site: constants measured on one cluster, which go before the catalogue's there and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from pydantic import Field

from ..inputs import Frozen


class SiteConstant(Frozen):
    """One constant as the site's runs give it.

    `name` is its place: ``stacks/NAME/FIELD``, ``cards/GPU/sixteen_bit`` or
    ``links/GPU/network`` (time over the catalogue's; ``island``: inside one). The true value
    lies between `low` and `high` with 80 %.
    """

    name: str = Field(
        pattern=r"^(stacks/[^/]+/[a-z_]+|cards/[^/]+/(sixteen|eight)_bit|links/[^/]+/(island|network))$"
    )
    value: float = Field(gt=0)
    low: float = Field(gt=0)
    high: float = Field(gt=0)
    catalogue: float = Field(gt=0)
    unit: str
    runs: int = Field(ge=1)
    """Runs whose step the constant moves."""


class Site(Frozen):
    """What runs on one cluster have shown. `unidentified` are constants the runs could not tell."""

    name: str = Field(min_length=1)
    date: str
    runs: int = Field(ge=1)
    evidence: tuple[str, ...]
    """Files and lines the runs came from."""
    median_error_before: float = Field(ge=0)
    """Percent of the step time under the catalogue's constants."""
    median_error: float = Field(ge=0)
    """Percent, under the site's constants, of runs left out in turn."""
    interval: float = Field(gt=0, lt=1)
    """80 % of further runs take from the predicted step over 1 + `interval` to that times 1 + `interval`."""
    constants: tuple[SiteConstant, ...]
    unidentified: tuple[str, ...] = ()
    measured: tuple[str, ...] = ()
    """Software stacks and cards of the runs, each as ``STACK/GPU``: of others `interval` says nothing."""

    @property
    def basis(self) -> str:
        """What the interval rests on: with one run none is left to judge its constants by."""
        if self.runs == 1:
            return f"1 run of the site {self.name}"
        return f"{self.runs} runs of the site {self.name}, left out in turn"

    def knows(self, stack: str, gpu: str) -> bool:
        """Whether runs of that software stack on that card were measured."""
        return f"{stack}/{gpu}" in self.measured

    def value(self, name: str, otherwise: float) -> float:
        """The constant called `name`, `otherwise` where the site has none."""
        return _values(self.constants).get(name, otherwise)


@lru_cache(maxsize=64)
def _values(constants: tuple[SiteConstant, ...]) -> Mapping[str, float]:
    return MappingProxyType({constant.name: constant.value for constant in constants})
