"""Memory of a plan as told: the worst card's moments and terms, the host, and where a counter will stand."""

from __future__ import annotations

from typing import Literal

from ..costs.ledger import View
from ..inputs import Frozen

Verdict = Literal["fits", "risky", "does_not_fit"]


class StageMemory(Frozen):
    """Peak of one pipeline stage, bytes; the terms add up to `total_bytes`."""

    stage: int
    peak_moment: str
    total_bytes: int
    terms_bytes: dict[str, int]


class BytesPerParameter(Frozen):
    """The byte recipe behind the states: bytes of weight, gradient and optimizer for one parameter."""

    recipe: str
    weights: float
    gradients: float
    optimizer: float
    frozen: float = 0.0
    """Bytes of a frozen weight, which has neither gradient nor optimizer state."""


class PeakUncertainty(Frozen):
    """Where the measured peak of a card is expected with 80 % probability, and what that rests on.

    `verdict`: fits where all of it lies inside the card, does_not_fit where all of it lies beyond, risky
    where the card's usable memory lies between. Allocators give back what they only kept before they fail, so
    that a run whose upper end lies beyond may still go.
    """

    low_bytes: int
    high_bytes: int
    basis: str
    verdict: Verdict | None = None
    """None in files of earlier versions."""
    holding_margin: float | None = None
    """`memory_margin` of which plans keep all of it inside the card; None where this one does."""


class MemoryReport(Frozen):
    """Memory of the worst stage and of the host; `terms_bytes` add up to `total_bytes` exactly."""

    usable_bytes: int
    total_bytes: int
    limit_bytes: int
    """What the plan was held to: (1 - memory_margin) of the usable bytes."""
    verdict: Verdict
    uncertainty: PeakUncertainty
    views_bytes: dict[View, int]
    """The peak as counters show it: torch's allocated and reserved, and nvidia-smi (process)."""
    peak_stage: int
    peak_moment: str
    terms_bytes: dict[str, int]
    stages: tuple[StageMemory, ...]
    host_bytes_per_node: int
    host_usable_bytes: int
    host_verdict: Verdict
    host_terms_bytes: dict[str, int] = {}
    """Of the fullest node; adds up to `host_bytes_per_node`."""
    host_nodes_needed: int | None = None
    """Least nodes whose hosts hold it; None where it fits, or where more nodes do not divide it."""
    host_load_bytes_per_node: int = 0
    """While loading, where every rank of a node reads the whole 16-bit model; one reader takes its share."""
    load_peak_bytes: int
    checkpoint_bytes: int
    bytes_per_parameter: BytesPerParameter
