"""How a card's matrix products fare inside training loops, beside their isolated curve."""

from __future__ import annotations

from functools import cache

from ..hardware import Cluster
from ..inputs import Frozen
from ..inputs.data import data


class CardFactor(Frozen):
    """Time in training over time in isolation, by width of the operands; four bits count as eight.

    A card that is not listed has 1.0.
    """

    gpu: str
    sixteen_bit: float
    eight_bit: float
    source: str


@cache
def card_factors() -> dict[str, CardFactor]:
    """All known factors by card."""
    return {
        entry["gpu"]: CardFactor(**entry) for entry in data(__package__, "catalogue", "cards.json")["cards"]
    }


def training_factor(cluster: Cluster, precision: str) -> float:
    """The factor of a cluster's card in a precision, as the site measured it or as the catalogue has it.

    >>> training_factor(Cluster.preset("g5.48xlarge"), "bf16")
    1.0
    """
    gpu = cluster.node.gpu.name
    width = "eight_bit" if precision in ("fp8", "mxfp8", "nvfp4") else "sixteen_bit"
    known = card_factors().get(gpu)
    return cluster.constant(f"cards/{gpu}/{width}", 1.0 if known is None else float(getattr(known, width)))
