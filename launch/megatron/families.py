"""What Megatron-LM must be told of a family beside its widths: positions, routing; and who is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from functools import cache
from typing import Any, Literal

from ...inputs.data import data
from ...inputs.listed import Listed
from ...inputs.record import dataclass

Positions = Literal["learned_absolute", "rope"]


@dataclass(frozen=True, kw_only=True)
class Routing(Listed):
    """How a router is kept in balance; how it scores is a constant of the model.

    The coefficients are usual starting values, no decisions of a plan.
    """

    moe_router_load_balancing_type: Literal["aux_loss", "seq_aux_loss"] = "aux_loss"
    moe_aux_loss_coeff: float = 1e-2
    moe_router_enable_expert_bias: bool = False


@dataclass(frozen=True, kw_only=True)
class Family(Listed):
    """A family whose layers the arguments describe."""

    positions: Positions
    routing: Routing = field(default_factory=Routing)


@dataclass(frozen=True, kw_only=True)
class Families(Listed):
    """The file: `families` by name, `refused` with the reason in a sentence."""

    about: str
    source: str
    families: dict[str, Family]
    refused: dict[str, str]


@cache
def known() -> Families:
    """Families that can be written, and the reasons why others cannot.

    >>> known().families["gpt2"].positions
    'learned_absolute'
    """
    found = data(__package__, "families.json")
    families = {name: _family(entry) for name, entry in found["families"].items()}
    return Families.listed(**{**found, "families": families})


def _family(entry: Mapping[str, Any]) -> Family:
    """An entry with its routing as an object."""
    return Family.listed(**{**entry, "routing": Routing.listed(**entry.get("routing", {}))})
