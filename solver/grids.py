"""Grids of experts over the ranks of a stage: whole experts spread over some, each cut over others."""

from __future__ import annotations

from functools import lru_cache

from ..costs.uplink import WITHIN
from ..hardware import Cluster
from ..inputs.record import dataclass
from ..models.backend import Backend, backend
from ..models.divisors import CutAxis, legal_degrees
from ..models.strategy import BACKENDS
from ..plans import Request

AXES: tuple[CutAxis, ...] = ("expert_parallel", "expert_tensor_parallel")


@lru_cache(maxsize=4096)
def grids(spread: tuple[int, ...], cut: tuple[int, ...], ranks: int) -> tuple[tuple[int, int], ...]:
    """(expert_parallel, expert_tensor_parallel) that lie evenly on `ranks`, by how experts are cut.

    >>> grids((1, 2, 4), (1, 2), 4)
    ((1, 1), (2, 1), (4, 1), (1, 2), (2, 2))
    """
    return tuple((e, et) for et in cut for e in spread if ranks % (e * et) == 0)


@lru_cache(maxsize=4096)
def least_cut(
    spread: tuple[int, ...], cut: tuple[int, ...], ranks: int, machine: int
) -> tuple[tuple[int, int], ...]:
    """Of `grids` those cut inside a machine, and of equal sizes the ones of most and of no spread.

    The same ranks hold the same bytes of experts either way. Cut less, each copy of a token goes to one rank
    in place of several, and products are wider; with no spread there is no all-to-all and its buffers.

    >>> least_cut((1, 2, 4), (1, 2, 4, 8), 8, 4)
    ((1, 1), (2, 1), (4, 1), (1, 2), (4, 2), (1, 4))
    """
    inside = grids(spread, tuple(size for size in cut if size <= machine), ranks)
    most: dict[int, int] = {}
    for e, et in inside:
        most[e * et] = max(most.get(e * et, 1), e)
    return tuple((e, et) for e, et in inside if e in (1, most[e * et]))


@dataclass(frozen=True)
class Experts:
    """How the experts of a request may lie under a backend: degrees that spread them, and that cut each."""

    spread: tuple[int, ...]
    cut: tuple[int, ...]
    machine: int
    """Cards joined inside a machine, or an NVLink domain, over which an expert may be cut unasked; 0: all."""
    with_tensor: bool
    """Experts are cut as the rest of a layer."""

    @classmethod
    def of(cls, request: Request, known: Backend) -> Experts:
        """What model, backend and request allow."""
        model, choose = request.model, request.choose
        chosen = (choose.expert_parallel, choose.expert_tensor_parallel)
        spread, cut = (
            tuple(n for n in legal_degrees(model, axis) if known.runs(axis, n) and n in (wanted or (n,)))
            for axis, wanted in zip(AXES, chosen, strict=True)
        )
        routed = any(kind.feed_forward.experts for kind in model.kinds)
        asked = every_cut(request) or not known.folds_experts
        machine = 0 if asked else _together(request.cluster)
        return cls(spread, cut, machine, routed and not known.folds_experts)

    def grids(self, tensor: int, ranks: int) -> tuple[tuple[int, int], ...]:
        """(expert_parallel, expert_tensor_parallel) over the `ranks` of a stage."""
        if self.machine:
            return least_cut(self.spread, self.cut, ranks, self.machine)
        cut = tuple(n for n in self.cut if n == tensor) if self.with_tensor else self.cut
        return grids(self.spread, cut, ranks)


def _together(cluster: Cluster) -> int:
    """Cards of the largest group that no network card parts."""
    tiers = cluster.tiers().tiers
    return max(int(tier.cards) for tier in tiers if tier.name in WITHIN or tier is tiers[0])


def every_cut(request: Request) -> bool:
    """Whether all grids are searched: a cut of experts is asked for, or a rule tells of it."""
    told = any(axis in rule for rule in request.choose.rules for axis in AXES)
    return told or request.choose.expert_tensor_parallel is not None


def left_aside(request: Request) -> str:
    """What the search leaves aside of cuts that nobody asked for, in words; empty where nothing."""
    model = request.model
    folds = any(backend(name).folds_experts for name in request.choose.backend or BACKENDS)
    routed = any(kind.feed_forward.experts for kind in model.kinds)
    if every_cut(request) or not (folds and routed) or request.cluster.gpus < 4:
        return ""
    cards = request.cluster.gpus
    cuts = [size for size in legal_degrees(model, "expert_tensor_parallel") if cards % size == 0]
    return (
        "experts are cut over cards of a machine only, and no more than a grid of that size needs; "
        f"--set expert_tensor_parallel={','.join(map(str, cuts))} searches all"
    )
