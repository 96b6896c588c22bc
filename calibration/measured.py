"""Measured steps that can be priced: a job, its layout, and the seconds somebody saw."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..costs.cards import card_factors
from ..costs.columns import Strategies
from ..costs.stage_counts import Counts
from ..costs.totals import price_columns
from ..hardware import Cluster, Site, SiteConstant
from ..inputs.record import dataclass
from ..models import Strategy, Training, Transformer
from ..models.stack import heirs, holder, stacks
from .facts import facts
from .fit import Array, Unknown


@dataclass(frozen=True)
class MeasuredStep:
    """One run: what was trained, where, how, and its seconds a step."""

    name: str
    evidence: str
    transformer: Transformer
    training: Training
    cluster: Cluster
    strategy: Strategy
    seconds: float


@dataclass(frozen=True)
class MeasuredSteps:
    """Runs as rows of a fit (`fit.Rows`); constants come as those of a site."""

    steps: tuple[MeasuredStep, ...]

    @cached_property
    def measured(self) -> Array:
        """Seconds a step, (n,)."""
        return np.array([step.seconds for step in self.steps])

    @cached_property
    def weights(self) -> Array:
        """Each run's error is held to spread by ``run_spread``."""
        return np.full(len(self.steps), facts("spreads")["run_spread"] ** -2)

    @cached_property
    def _groups(self) -> list[tuple[list[int], Strategies, Counts]]:
        same: dict[tuple[Transformer, Training, Cluster], list[int]] = defaultdict(list)
        for index, step in enumerate(self.steps):
            plain = step.transformer.model_copy(update={"name": "run"})
            same[plain, step.training, step.cluster].append(index)
        found = []
        for (transformer, _, _), rows in same.items():
            layouts = [self.steps[row].strategy for row in rows]
            found.append((rows, Strategies.of(layouts), Counts.of(layouts, transformer.kind_of_layer)))
        return found

    def seconds(self, changes: dict[str, float]) -> Array:
        """Predicted seconds with `changes` measured at the site."""
        found = np.zeros(len(self.steps))
        site = trial_site(changes)
        for rows, strategies, counts in self._groups:
            step = self.steps[rows[0]]
            cluster = step.cluster.model_copy(update={"site": site})
            prices = price_columns(step.transformer, step.training, cluster, strategies, counts)
            found[rows] = prices.step.total / 1e9
        return found

    def moved_by(self, unknown: Unknown) -> npt.NDArray[np.bool_]:
        """Runs whose price an unknown can change: those of its stack or card."""
        table, name, field = unknown.paths[0].split("/")
        if table == "stacks":
            mine = heirs(name, field)
            return np.array([step.strategy.software_stack in mine for step in self.steps])
        return np.array([step.cluster.node.gpu.name == name for step in self.steps])

    def start(self, unknown: Unknown) -> float:
        """The catalogue's value of an unknown."""
        return catalogue_value(unknown.paths[0])


def trial_site(changes: dict[str, float]) -> Site | None:
    """A site that holds `changes` and nothing else."""
    if not changes:
        return None
    constants = tuple(
        SiteConstant(name=name, value=value, low=value, high=value, catalogue=value, unit="trial", runs=1)
        for name, value in changes.items()
    )
    return Site(
        name="trial", date="", runs=1, evidence=(), median_error_before=0, median_error=0, interval=0.5,
        constants=constants,
    )  # fmt: skip


def catalogue_value(name: str) -> float:
    """What the catalogue holds for a site's constant.

    >>> catalogue_value("links/H100-SXM-80GB/network")
    1.0
    """
    table, entry, field = name.split("/")
    if table == "stacks":
        return float(getattr(stacks()[entry], field))
    if table == "cards" and entry in card_factors():
        return float(getattr(card_factors()[entry], field))
    return 1.0


def unknowns_of(steps: Sequence[MeasuredStep]) -> list[Unknown]:
    """The constants that runs of these stacks and cards may tell; what stacks inherit they tell together."""
    spreads, found = facts("spreads"), []
    stack_names = sorted({step.strategy.software_stack for step in steps})
    card_names = sorted({step.cluster.node.gpu.name for step in steps})
    for table, names in (("stacks", stack_names), ("cards", card_names), ("links", card_names)):
        fields = spreads[table]
        pairs = [(holder(n, f) if table == "stacks" else n, f) for n in names for f in fields]
        for owner, field in dict.fromkeys(pairs):
            path, spread = f"{table}/{owner}/{field}", fields[field]["spread"]
            center = catalogue_value(path)
            if center > 0:
                found.append(Unknown((path,), (path, 0), spread, center, spread))
    return found
