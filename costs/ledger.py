"""The ledger of one strategy: named integers that add up."""

from __future__ import annotations

from dataclasses import field
from functools import cached_property
from typing import Literal

from ..inputs.record import dataclass

View = Literal["allocated", "reserved", "process"]

LEFT_OUT: dict[View, tuple[str, ...]] = {
    "allocated": ("runtime", "user_buffers", "fragmentation", "stream_pools"),
    "reserved": ("runtime", "user_buffers"),
    "process": (),
}
"""Terms that a counter of card memory does not show: torch's allocated and reserved, nvidia-smi."""


def is_communication(name: str) -> bool:
    """Whether a time term is communication that shows."""
    return "_comm" in name


@dataclass(frozen=True, kw_only=True)
class StageEntry:
    """One pipeline stage: memory by moment (KiB), its chunk and its once-a-step time (ns)."""

    stage: int
    moments_kib: dict[str, dict[str, int]]
    host_kib: int
    """Host memory that one card of the stage brings."""
    chunk_ns: dict[str, int]
    tail_ns: dict[str, int]
    usable_kib: int | None = None
    """What a card of this stage can allocate, where cards differ; None: as the ledger says."""

    @cached_property
    def peak_moment(self) -> str:
        """The moment of the largest total; the first of equals."""
        return max(self.moments_kib, key=lambda moment: sum(self.moments_kib[moment].values()))

    @property
    def terms_kib(self) -> dict[str, int]:
        """Terms at the peak moment."""
        return self.moments_kib[self.peak_moment]

    @cached_property
    def total_kib(self) -> int:
        """Peak memory of a card of the stage."""
        return sum(self.terms_kib.values())


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """What a strategy costs: every number comes apart into terms, totals are summed, never stored.

    Memory in KiB, time in nanoseconds, traffic in bytes a card and step.
    """

    stages: tuple[StageEntry, ...]
    terms_ns: dict[str, int]
    hidden_ns: dict[str, int]
    host_node_kib: int
    host_terms_kib: dict[str, int] = field(default_factory=dict)
    """Host memory of the fullest node by term; adds up to `host_node_kib`."""
    host_divides: bool = False
    """Whether more nodes divide it: the offloaded states are sharded over all data ranks."""
    host_load_kib: int = 0
    """Host memory of a node whose every rank reads the whole 16-bit model before it is cut."""
    traffic_bytes: dict[str, dict[str, int]]
    """By axis and tier."""
    uplink_bytes: int = 0
    """What the network cards of a machine with the busiest stage send in a step."""
    usable_kib: int
    host_usable_kib: int
    fragmentation_refused: float
    """Share of allocated memory that a refusal adds in place of the full fragmentation."""
    limit_ns: int
    """The model's FLOPs at the card's peak on all cards, nothing exposed."""
    step_flops: int
    """Of the model's forward and backward, all cards together."""
    recomputed_flops: int = 0
    """Of forwards that the backward runs again: no part of `step_flops`."""
    recipe: str
    recipe_bytes: dict[str, float]
    """Bytes a parameter of weights, gradients and optimizer before sharding."""
    buckets: dict[str, int]
    """Sizes in elements of the buffers that were priced."""
    placement: dict[str, str]
    """By axis, the smallest tier that holds one of its groups."""
    checkpoint_bytes: int
    peak_low: float = 1.0
    peak_high: float = 1.0
    """Measured over predicted peak: 80 % of published runs of this kind lie between."""
    peak_basis: str = "no runs"
    load_whole_kib: int = 0
    """Weights in 16 bits that each card holds before they are sharded; 0 where they load sharded."""

    @cached_property
    def step_ns(self) -> int:
        """Step time: the sum of its terms."""
        return sum(self.terms_ns.values())

    @cached_property
    def peak_stage(self) -> int:
        """The stage that fills most of its cards; the first of equals."""
        filled = [self._scaled(stage, stage.total_kib) for stage in self.stages]
        return filled.index(max(filled))

    @property
    def peak_kib(self) -> int:
        """Peak memory of the worst card."""
        return self.stages[self.peak_stage].total_kib

    def view_kib(self, view: View) -> int:
        """Peak of the worst card as a counter shows it."""
        return max(
            sum(kib for name, kib in terms.items() if name not in LEFT_OUT[view])
            for stage in self.stages
            for terms in stage.moments_kib.values()
        )

    @property
    def refusal_kib(self) -> int:
        """The least the worst card needs: fragmentation at the level below which runs did fail."""
        return max(self._scaled(stage, self._refusal(stage)) for stage in self.stages)

    @property
    def load_kib(self) -> int:
        """Peak of the worst card while loading: all weights beside their shards, or all states."""
        return max(self._scaled(stage, self._load(stage)) for stage in self.stages)

    def _scaled(self, stage: StageEntry, kib: int) -> int:
        """`kib` of a stage's card as the same share of the card that `usable_kib` is of."""
        own = stage.usable_kib or self.usable_kib
        return kib if own == self.usable_kib else -(-kib * self.usable_kib // own)

    def _load(self, stage: StageEntry) -> int:
        held = stage.moments_kib["step"]
        whole = self.load_whole_kib + held.get("weights", 0) if self.load_whole_kib else 0
        return max(whole, held.get("weights", 0) + held.get("optimizer", 0)) + held.get("runtime", 0)

    @property
    def limit_fraction(self) -> float:
        """The limit over the step: how near the step is to what the cards can do at all."""
        return round(self.limit_ns / self.step_ns, 6)

    @property
    def comm_ns(self) -> int:
        """Exposed communication of the step."""
        return sum(ns for name, ns in self.terms_ns.items() if is_communication(name))

    def _refusal(self, stage: StageEntry) -> int:
        least = 0
        for terms in stage.moments_kib.values():
            runtime = terms.get("runtime", 0)
            allocated = sum(terms.values()) - runtime - terms.get("fragmentation", 0)
            least = max(least, allocated + int(allocated * self.fragmentation_refused) + runtime)
        return least
