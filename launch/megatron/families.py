"""What Megatron-LM must be told of a family beside its widths: positions, routing; and who is refused."""

from __future__ import annotations

from functools import cache
from typing import Literal

from ...inputs import Frozen
from ...inputs.data import data

Positions = Literal["learned_absolute", "rope"]


class Routing(Frozen):
    """How a router is kept in balance; how it scores is a constant of the model.

    The coefficients are usual starting values, no decisions of a plan.
    """

    moe_router_load_balancing_type: Literal["aux_loss", "seq_aux_loss"] = "aux_loss"
    moe_aux_loss_coeff: float = 1e-2
    moe_router_enable_expert_bias: bool = False


class Family(Frozen):
    """A family whose layers the arguments describe."""

    positions: Positions
    routing: Routing = Routing()


class Families(Frozen):
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
    return Families.model_validate(data(__package__, "families.json"))
