"""The published runs as rows of a fit, and what is held likely of each constant before they speak.

Rows of a source share one source's weight (``data/step_priors.json`` names the exceptions).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from shardwise.calibration.fit import Array, Unknown
from shardwise.costs.columns import Strategies
from shardwise.costs.stage_counts import Counts
from shardwise.costs.totals import price_columns
from shardwise.models.stack import heirs
from shardwise.runs.priced import Run, key_of
from shardwise.runs.record import Record

from .trial import constant, in_force

DATA = Path(__file__).parent / "data"
ROW_SPREAD = 0.06
SOURCE_ROWS = 12
"""A source counts as so many rows at most, each with an error of `ROW_SPREAD`."""


def priors() -> dict[str, Any]:
    """What is held likely before the runs speak."""
    found: dict[str, Any] = json.loads((DATA / "step_priors.json").read_text(encoding="utf-8"))
    return found


def unknowns(stacks: Sequence[str]) -> list[Unknown]:
    """The constants of `stacks`, of the cards, and of the law."""
    data, found = priors(), []
    for field, entry in data["stacks"].items():
        for index, kin in enumerate(entry["kin"]):
            for name in kin["of"]:
                alike = (name, *entry.get("also", {}).get(name, ()))
                owners = [heir for one in alike for heir in heirs(one, field)]
                paths = tuple(f"stacks/{owner}/{field}" for owner in owners)
                if any(owner in stacks for owner in owners):
                    prior = (entry["spread"], kin["center"], kin["spread"])
                    found.append(_between(Unknown(paths, (field, index), *prior), kin))
    for card in data["cards"]:
        paths = tuple(f"cards/{name}/{card['field']}" for name in card["gpus"])
        prior = (card["spread"], card["center"], card["spread"])
        found.append(_between(Unknown(paths, (paths[0], 0), *prior), card))
    for name, entry in data["law"].items():
        path = f"law/{name}/value"
        found.append(Unknown((path,), (path, 0), entry["spread"], entry["center"], entry["spread"], True))
    return found


def _between(found: Unknown, entry: dict[str, Any]) -> Unknown:
    """The unknown between the least and the most that its entry holds possible."""
    return replace(found, least=entry.get("least", 0.0), most=entry.get("most", float("inf")))


def _of_card(path: str, gpu: str) -> bool:
    """Whether a constant may move the price of runs on a card: those of other cards do not."""
    return not path.startswith("cards/") or path.split("/")[1] == gpu


def trusted(record: Record) -> bool:
    """Whether a run is fitted to: its notes do not call it doubtful, nor do the priors leave it out."""
    told = {record.name, record.text("source")}
    return "doubtful" not in record.notes and not told & set(priors()["left_out_of_fits"])


@dataclass(frozen=True)
class PublishedRows:
    """Runs with a measured time, each under its chosen reading."""

    runs: tuple[Run, ...]

    @cached_property
    def measured(self) -> Array:
        """Seconds a step."""
        return np.array([run.measured_seconds for run in self.runs])

    @cached_property
    def sources(self) -> npt.NDArray[np.str_]:
        """The source of each row."""
        return np.array([run.job.record.text("source") for run in self.runs])

    def of(self, source: str) -> PublishedRows:
        """The rows of one source."""
        return PublishedRows(tuple(run for run in self.runs if run.job.record.text("source") == source))

    @cached_property
    def weights(self) -> Array:
        """Weight of each row: sources of enough rows weigh alike, shared by rows; 0 where not trusted."""
        names, counts = np.unique(self.sources, return_counts=True)
        rows = dict(zip(names.tolist(), counts.tolist(), strict=True))
        found = [min(SOURCE_ROWS / rows[source], 1.0) / ROW_SPREAD**2 for source in self.sources.tolist()]
        weights: Array = np.array(found) * np.array([trusted(run.job.record) for run in self.runs])
        return weights

    @cached_property
    def _priced(self) -> list[tuple[Any, list[int], Strategies, Counts]]:
        groups: dict[Any, list[int]] = defaultdict(list)
        for index, run in enumerate(self.runs):
            groups[key_of(run.job, run.candidate)].append(index)
        found = []
        for key, rows in groups.items():
            chosen = [self.runs[row].candidate.strategy for row in rows]
            found.append((key, rows, Strategies.of(chosen), Counts.of(chosen, key[0].kind_of_layer)))
        return found

    def seconds(self, changes: dict[str, float]) -> Array:
        """Predicted seconds of all rows with `changes` in force."""
        found = np.zeros(len(self.runs))
        plain = {path: value for path, value in changes.items() if path not in self._of_experts}
        with in_force(changes):
            for index, (key, rows, strategies, counts) in enumerate(self._priced):
                transformer, training, cluster = key
                routed = any(block.feed_forward.experts for block in transformer.kinds)
                mine = (changes if routed else plain).items()
                asked = (index, *sorted(item for item in mine if _of_card(item[0], cluster.node.gpu.name)))
                if asked not in self._known:
                    prices = price_columns(transformer, training, cluster, strategies, counts)
                    self._known[asked] = prices.step.total / 1e9
                found[rows] = self._known[asked]
        return found

    @cached_property
    def _known(self) -> dict[tuple[Any, ...], Array]:
        """Seconds by group of rows and by the constants that it can move with."""
        return {}

    @cached_property
    def _of_experts(self) -> set[str]:
        """Constants of the law that only rows with experts move with."""
        law = priors()["law"]
        return {f"law/{name}/value" for name, entry in law.items() if entry.get("of") == "experts"}

    def moved_by(self, unknown: Unknown) -> npt.NDArray[np.bool_]:
        """Rows whose price an unknown can change."""
        table = unknown.paths[0].split("/")[0]
        names = {path.split("/")[1] for path in unknown.paths}
        if table == "law":
            routed = [any(b.feed_forward.experts for b in run.job.transformer.kinds) for run in self.runs]
            return np.array(routed) | (unknown.paths[0] not in self._of_experts)
        if table == "cards":
            return np.array([run.job.cluster.node.gpu.name in names for run in self.runs])
        return np.array([run.candidate.strategy.software_stack in names for run in self.runs])

    def start(self, unknown: Unknown) -> float:
        """The catalogue's value of an unknown."""
        return constant(unknown.paths[0])
