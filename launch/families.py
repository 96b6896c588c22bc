"""What the clients must know of a model family: the class of a layer, the names of its parts."""

from __future__ import annotations

from functools import cache

from ..inputs.data import data
from ..inputs.listed import Listed
from ..inputs.record import dataclass


@dataclass(frozen=True, kw_only=True)
class Family(Listed):
    """`layer_class` is the unit to wrap; `cuts_as_llama` says that the tensor-parallel plan fits it."""

    layer_class: str
    cuts_as_llama: bool


@cache
def families() -> dict[str, Family]:
    """Known families by name."""
    found = data(__package__, "layer_classes.json")
    return {name: Family.listed(**entry) for name, entry in found["families"].items()}


def family(name: str) -> Family | None:
    """The family `name`, None when its layers are not known."""
    return families().get(name)
