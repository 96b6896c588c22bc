"""The leaf: CP-SAT decides the integers of the stages of one row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..costs.columns import Ints
from ..costs.schedule import paced
from ..inputs.record import dataclass
from .engine import cp_model, new_model, new_solver
from .frontier import Frontier, frontier, pooled, row_bound
from .options import Mode, RowOptions
from .shown import show_little
from .table import END, LONGEST

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpModel, IntVar

LARGEST = 2**62
"""Every sum of |coefficient x bound| stays below this, or the leaf refuses to build."""


@dataclass(frozen=True)
class LeafPlan:
    """What each stage holds: rows of an option table, and the step they make."""

    step_ns: int
    mode: Mode
    stages: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class LeafResult:
    """A leaf's outcome: the best plan at or below the limit, or none; `bound_ns` is proved."""

    plan: LeafPlan | None
    bound_ns: int
    proved: bool
    deterministic_time: float


@dataclass
class Leaf:
    """The model of one row. Build once, solve in sequence: step time, headroom, mechanisms."""

    options: RowOptions
    limit_ns: int
    fronts: tuple[Frontier, ...] = ()

    def __post_init__(self) -> None:
        self.fronts = self.fronts or frontier(self.options)
        self.model: CpModel = new_model()
        self.uses: list[list[list[IntVar]]] = []
        self._choices()
        self._layers()
        self._host()
        self.objective = self._objective()
        if self.options.comm_share is not None:
            show_little(self, self.options.comm_share)
        self._cuts()

    @property
    def stages(self) -> range:
        """Indices of the stages."""
        return range(len(self.options.tables[0]))

    def _choices(self) -> None:
        """One option a stage, all of one mode."""
        model = self.model
        self.modes = [model.new_bool_var(f"mode{k}") for k in range(len(self.options.modes))]
        model.add_exactly_one(self.modes)
        for k, tables in enumerate(self.options.tables):
            per_stage = []
            for stage, table in enumerate(tables):
                picks = [model.new_bool_var(f"x{k}_{stage}_{i}") for i in range(len(table))]
                model.add(sum(picks) == self.modes[k])
                per_stage.append(picks)
            self.uses.append(per_stage)

    def column(self, stage: int, index: int) -> Any:
        """The chosen value of column `index` of the option tables on a stage, as an expression."""
        weighted = [
            int(value) * pick
            for k, tables in enumerate(self.options.tables)
            for value, pick in zip(tables[stage][:, index], self.uses[k][stage], strict=True)
        ]
        return sum(weighted)

    def _layers(self) -> None:
        """All layers are held; where kinds differ, each stage starts where the one before ended."""
        if not self.options.contiguous:
            self.model.add(sum(self.column(stage, 1) for stage in self.stages) == self.options.layers)
            return
        for before in self.stages[:-1]:
            ended, started = self._by_depth(before, True), self._by_depth(before + 1, False)
            for depth in sorted(ended.keys() | started.keys()):
                self.model.add(sum(ended.get(depth, [])) == sum(started.get(depth, [])))

    def _by_depth(self, stage: int, ends: bool) -> dict[int, list[Any]]:
        """Options of a stage by the depth at which they end, or start."""
        found: dict[int, list[Any]] = {}
        for k, tables in enumerate(self.options.tables):
            for option, pick in zip(tables[stage].tolist(), self.uses[k][stage], strict=True):
                found.setdefault(option[0] + option[1] if ends else option[0], []).append(pick)
        return found

    def _host(self) -> None:
        """Offloaded states of the stages that share a node fit its host memory."""
        count, cards = self.options.node_stages, self.options.node_cards
        worst = sum(int(max(t[s][:, 7].max() for t in self.options.tables)) for s in self.stages)
        if worst * cards <= self.options.host_capacity_kib:
            return
        for first in range(0, len(self.stages), count):
            shared = [self.column(stage, 7) for stage in self.stages[first : first + count]]
            self.model.add(cards * sum(shared) <= self.options.host_capacity_kib)

    def _objective(self) -> Any:
        """(m v - 1) pace + sum U + max tail, at most the limit; the pace is the slowest stage's at least."""
        model, passes = self.model, self.options.passes
        tops = [
            [int(max(t[s][:, i].max() for t in self.options.tables)) for s in self.stages] for i in (5, 6)
        ]
        if 2 * passes * max(tops[0]) + sum(tops[0]) + max(tops[1]) >= LARGEST:
            raise OverflowError("a leaf's objective exceeds 2^62 ns")
        self.bottleneck = model.new_int_var(0, max(tops[0]) + self._top(END), "bottleneck")
        self.tail = model.new_int_var(0, max(tops[1]), "tail")
        for stage in self.stages:
            model.add(self.bottleneck >= self.column(stage, 5))
            model.add(self.tail >= self.column(stage, 6))
        total = sum(self.column(stage, 5) for stage in self.stages)
        self._rounds()
        objective = (passes - 1) * self.bottleneck + total + self.tail
        model.add(objective <= self.limit_ns)
        return objective

    def _top(self, index: int) -> int:
        """The largest value of a column of the option tables."""
        return max(int(t[s][:, index].max()) for t in self.options.tables for s in self.stages)

    def _rounds(self) -> None:
        """The pace of chunks: one round in v waits for a link of an end that is longer than others."""
        chunks, stages = self.options.chunks, self.stages
        if chunks == 1:
            return
        self.common = self.model.new_int_var(0, self._top(LONGEST), "common")
        for stage in stages:
            self.model.add(self.common >= self.column(stage, LONGEST))
        for stage in (stages[0], stages[-1]):
            self.model.add(chunks * self.bottleneck >= (chunks - 1) * self.common + self.column(stage, END))

    def _cuts(self) -> None:
        """Floors of each mode; the frontier: tails below a breakpoint force the next one's bottleneck."""
        for mode, floor in zip(self.modes, self.options.floors, strict=False):
            self._floor(mode, *floor)
        for mode, front in zip(self.modes, self.fronts, strict=True):
            if front.points:
                self._floor(mode, front.points[0].tau_ns, front.least(self.options.passes))
            else:
                self.model.add(mode == 0)
        points = pooled(self.fronts)
        if not points:
            return
        self.model.add(self.bottleneck >= points[0].tau_ns)
        self.model.add(self.tail >= points[-1].theta_ns)
        for point, slower in zip(points, points[1:], strict=False):
            reached = self.model.new_bool_var(f"reached{point.theta_ns}")
            self.model.add(self.tail >= point.theta_ns).only_enforce_if(reached)
            self.model.add(self.bottleneck >= slower.tau_ns).only_enforce_if(~reached)

    def _floor(self, mode: IntVar, slowest_ns: int, step_ns: int) -> None:
        """What no plan of a mode beats."""
        self.model.add(self.bottleneck >= slowest_ns).only_enforce_if(mode)
        self.model.add(self.objective >= step_ns).only_enforce_if(mode)

    def solve(self, time_limit: float | None) -> LeafResult:
        """The best plan at or below the limit, then among equals the most headroom, then least mechanisms."""
        found = self.fastest(time_limit)
        if found.plan is None or not found.proved:
            return found
        plan, more = self.settled(found.plan, time_limit)
        return LeafResult(plan, plan.step_ns, True, found.deterministic_time + more)

    def fastest(self, time_limit: float | None) -> LeafResult:
        """A best plan at or below the limit, whichever of equals."""
        solver = new_solver(time_limit)
        self.model.minimize(self.objective)
        status = solver.solve(self.model)
        api = cp_model()
        spent = float(solver.response_proto.deterministic_time)
        if status == api.INFEASIBLE:
            return LeafResult(None, LARGEST, True, spent)
        if status not in (api.OPTIMAL, api.FEASIBLE):
            return LeafResult(None, row_bound(self.options, self.fronts) or 0, False, spent)
        plan = self._extract(solver)
        if status == api.FEASIBLE:
            return LeafResult(plan, int(np.ceil(solver.best_objective_bound)), False, spent)
        return LeafResult(plan, plan.step_ns, True, spent)

    def settled(self, plan: LeafPlan, time_limit: float | None) -> tuple[LeafPlan, float]:
        """Among plans of the same step: most headroom on the fullest card, then fewest mechanisms."""
        self.model.add(self.objective == plan.step_ns)
        spare = self.model.new_int_var(0, 2**40, "spare")
        for stage in self.stages:
            self.model.add(spare <= self.column(stage, 8))
        mechanisms = sum(self.column(stage, i) for stage in self.stages for i in (2, 3, 4))
        spent = 0.0
        self.model.maximize(spare)
        for goal in ("headroom", "mechanisms"):
            solver = new_solver(time_limit)
            status = solver.solve(self.model)
            spent += float(solver.response_proto.deterministic_time)
            if status != cp_model().OPTIMAL:
                return plan, spent
            plan = self._extract(solver)
            if goal == "headroom":
                self.model.add(spare >= int(solver.value(spare)))
                self.model.minimize(mechanisms)
        return plan, spent

    def _extract(self, solver: Any) -> LeafPlan:
        """The plan in whole numbers; its step is recomputed, never read from the solver's double."""
        for k, tables in enumerate(self.options.tables):
            if not solver.boolean_value(self.modes[k]):
                continue
            stages = []
            for stage, table in enumerate(tables):
                chosen = [i for i, pick in enumerate(self.uses[k][stage]) if solver.boolean_value(pick)]
                stages.append(tuple(int(value) for value in table[chosen[0]]))
            total = steps_of(np.array([stages]), self.options.passes, self.options.chunks)
            return LeafPlan(int(total[0]), self.options.modes[k], tuple(stages))
        raise AssertionError("a solved leaf has a mode")


def steps_of(stages: Ints, passes: int, chunks: int) -> Ints:
    """The step of each way to fill the stages, (ways, stages, fields)."""
    each, ends = stages[:, :, 5], stages[:, :, END]
    common = stages[:, :, LONGEST].max(axis=1)[:, None]
    pace = np.maximum(each, paced(common, ends, np.full_like(ends, chunks))).max(axis=1)
    found: Ints = (passes - 1) * pace + each.sum(axis=1) + stages[:, :, 6].max(axis=1)
    return found
