"""How a card's matrix products fare inside training loops, beside their isolated curve."""

from __future__ import annotations

from functools import cache

from ..hardware import Cluster
from ..inputs.data import data
from ..inputs.listed import Entries, Listed
from ..inputs.record import dataclass
from .law import law

EIGHT_BITS = {"fp8": None, "mxfp8": "block_scaled_factor", "nvfp4": "four_bit_factor"}
"""Arithmetic under a card's eight-bit factor, and the law's factor on products without one scale a
tensor."""


@dataclass(frozen=True, kw_only=True)
class CardFactor(Listed):
    """Time in training over time in isolation, by width of the operands."""

    gpu: str
    sixteen_bit: float
    eight_bit: float
    source: str


@cache
def card_factors() -> Entries[CardFactor]:
    """All known factors by card."""
    told = {entry["gpu"]: entry for entry in data(__package__, "catalogue", "cards.json")["cards"]}
    return Entries(told, lambda name, entry: CardFactor.listed(**entry))


def training_factor(cluster: Cluster, precision: str) -> float | None:
    """The factor of a cluster's card in a precision, as the site measured it or as the catalogue has it.

    None where neither did: the card then runs at its isolated curve as far as its power allows.

    >>> round(training_factor(Cluster.preset("dgx-h100"), "bf16"), 1)
    1.1
    >>> training_factor(Cluster.preset("g5.48xlarge"), "bf16") is None
    True
    """
    gpu = cluster.node.gpu.name
    width = "eight_bit" if precision in EIGHT_BITS else "sixteen_bit"
    known = card_factors().get(gpu)
    measured = cluster.constant(
        f"cards/{gpu}/{width}", 0.0 if known is None else float(getattr(known, width))
    )
    beside = EIGHT_BITS.get(precision)
    return measured * (law(beside) if beside else 1.0) or None


def clock_factor(cluster: Cluster, precision: str) -> float:
    """`training_factor`, 1 where neither the site nor the catalogue has one."""
    return training_factor(cluster, precision) or 1.0
