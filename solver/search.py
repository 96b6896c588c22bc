"""The search: rows by bound, a master over survivors, leaves for the stages, and the count of it all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

import numpy as np

from ..costs.columns import Bools, Ints, Strategies
from ..inputs.record import dataclass
from ..plans import Request
from .alone import least_alone, stand_alone
from .batches import at_once, batches, rounded
from .bounds import can_fit, levels, nearly_within
from .cases import recompute_alike
from .close import Closing
from .coefficients import Coefficients
from .cuts import affordable, cut_by
from .even import even_step
from .exchanges import outdone
from .hosts import host_can_hold
from .large import TooLarge
from .level import Level, halved
from .lower import NEVER, ShapeBounds, others_bounds, shape_bounds
from .outcome import Entry, Outcome, Tally
from .rules import Rule
from .space import Space, space
from .stage_limits import comm_share, least_shown, may_keep, on_stages
from .tables import Priced, Tables, priced
from .uniform import uniform
from .watch import is_over, tell

LOOSE = 0.02
"""Part of the limit by which the least bound of rows must lie below it for that row to be solved at once."""

TRIED, TRY_SECONDS = 3, 0.05
"""Rows solved at once for a plan that keeps limits on stages, and deterministic seconds for each."""

ROW_SECONDS = 2e-6
PRICED_SECONDS = 2e-5
"""Deterministic seconds charged for a shape listed and for a row's memory priced."""


@dataclass
class Search:
    """One question. `limit_ns` is the largest step still of interest."""

    request: Request
    time_limit: float | None = None
    tally: Tally = field(default_factory=Tally)
    limit_ns: int = NEVER - 1

    tables: Tables = field(default_factory=Tables)
    left_ns: int = NEVER
    """The least bound of shapes that were left unopened as time ran out."""
    keeps_tables: bool = field(init=False)
    """Whether what is priced is that of the tables."""
    leader: Entry | None = None
    """The row of the plan that lowered the limit last."""
    bounds: ShapeBounds = field(init=False)
    large: TooLarge = field(init=False)
    """Of the shapes that are searched, and what is known of their rows."""

    def __post_init__(self) -> None:
        deadline = self.request.limits.max_step_seconds
        if deadline is not None:
            self.limit_ns = int(deadline * 1e9)
        origin = self.request.origin
        rules = enumerate(self.request.choose.rules)
        self.rules = [Rule(text, origin(f"choose.rules.{number}")) for number, text in rules]
        self.keeps_tables = not self.narrowed
        self.ending = Closing(self.request, self.rules, self.tally, self.limit_ns, self.time_limit)

    def run(self) -> Outcome:
        """Search to the end, or to the time limit."""
        return self.closed(self.opened())

    def opened(self) -> list[Entry]:
        """Rows that may hold a plan within the limit. Even plans lower it: the best leads."""
        for rule in self.rules:
            _ = rule.tree
        tables = self.tables.space if self.narrowed else self.tables.roomy
        every = tables(self.request)
        if any("ulysses_group_size" in rule.text for rule in self.rules):
            every = space(self.request).spelled()
        found = self._legal(every)
        return self._survivors(found) if len(found.kind) else []

    def _legal(self, found: Space) -> Space:
        """Shapes with rows that obey every rule and limit on knobs, and how many they have each."""
        self.tally.rows = int(found.sizes @ (1 + found.others)) + found.dropped
        self._charge(ROW_SECONDS * len(found.kind))
        self.legal = found.sizes
        if not affordable(self.request):
            self.tally.rule = self.tally.by_rule["limits.max_usd_per_hour"] = self.tally.rows
            return found.take(np.arange(0))
        self.tally.infeasible = found.dropped
        if not self.narrowed:
            return found
        every = found.rows(np.arange(len(found.kind)))
        keep = np.ones(len(every), dtype=np.bool_)
        each = np.repeat(1 + found.others, found.sizes)
        for name, mask in cut_by(self.request, every).items():
            self.tally.by_rule[name] = int(each[~mask].sum())
            keep &= mask
        self.tally.rule = int(each[~keep].sum())
        starts = np.cumsum(found.sizes) - found.sizes
        kept = np.add.reduceat(keep, starts, dtype=np.int64) if len(starts) else found.sizes
        self.legal = kept[kept > 0]
        return found.take(np.flatnonzero(kept))

    @property
    def narrowed(self) -> bool:
        """Whether rules or limits on knobs leave out rows."""
        return bool(self.rules or self.request.limits.tensor_parallel_within)

    def _charge(self, seconds: float) -> None:
        self.tally.deterministic_time += seconds

    def _out_of_time(self) -> bool:
        return is_over(self.tally.deterministic_time, self.time_limit)

    def _lower(self, part: Coefficients, steps: Ints) -> None:
        """Plans of the rows of `part` that take `steps` may lower the limit."""
        if on_stages(self.request):
            self._try(part, steps, np.full(len(steps), self.limit_ns))
        elif len(steps) and (least := int(steps.min())) <= self.limit_ns:
            self.limit_ns = least
            self.leader = Entry(least, part, int(steps.argmin()), None)

    def _try(self, part: Coefficients, steps: Ints, most: Ints) -> None:
        """Solves the rows of the fastest even plans, which may break limits, each for `most` ns at most."""
        for row in np.argsort(steps, kind="stable")[:TRIED].tolist():
            if steps[row] > self.limit_ns:
                break
            probe = Closing(self.request, self.rules, Tally(), int(most[row]), TRY_SECONDS)
            found = probe.alone(Entry(0, part, row, None))
            self._charge(probe.tally.deterministic_time)
            if found is not None:
                self.limit_ns, self.leader = found.step_ns, Entry(found.step_ns, part, row, None)
                break

    def _survivors(self, found: Space) -> list[Entry]:
        """(bound, coefficients, row) of rows that may hold a plan within the limit, by rising bound."""
        bounds = shape_bounds if self.narrowed else self.tables.bounds
        self.bounds = bounds(self.request, found)
        self.large = TooLarge(found, len(self.request.model.kinds))
        opened = self._by_bound(found, batches(found, self.bounds.least))
        more = self._others(found)
        if len(more.kind):
            self.bounds = shape_bounds(self.request, more)
            self.large = TooLarge(more, len(self.request.model.kinds))
            opened += self._by_bound(more, at_once(self.bounds.least))
        near = [entry for entry in opened if entry.bound <= self.limit_ns]
        near = self._refined(near) if len(near) > 1 else near
        self.tally.bound += len(opened) - len(near)
        return sorted(near, key=lambda entry: (entry.bound, entry.key))

    def _others(self, found: Space) -> Space:
        """Other exchanges of shapes, those that may hold a plan within the limit and that none outdoes."""
        some, least = others_bounds(self.request, found, self.bounds)
        worth = some[least <= self.limit_ns]
        more, each = found.with_others(worth), found.others[worth]
        kept = ~self._outdone(found.take(worth), more)
        legal = np.repeat(self.legal[worth], each)
        self.tally.bound += int(self.legal @ found.others - legal[kept].sum())
        self.legal, self.keeps_tables = legal[kept], False
        return more.take(np.flatnonzero(kept))

    def _outdone(self, usual: Space, more: Space) -> Bools:
        """Which of the shapes `more` another exchange outdoes, of these or of the usual ones."""
        both = {name: np.concatenate([usual.shapes[name], more.shapes[name]]) for name in more.shapes}
        return outdone([self.request], Strategies.partial(both))[len(usual.kind) :]

    def _by_bound(self, found: Space, parts: Iterator[Ints]) -> list[Entry]:
        """Rows of shapes that may hold a plan within the limit, those of the least bounds first."""
        least = self.bounds.least
        opened: list[Entry] = []
        closed = np.ones(len(least), dtype=np.bool_)
        for batch in parts:
            worth = rounded(batch, least, self.limit_ns)
            tell(self.limit_ns if self.leader else None, min(int(least[batch].min()), self.limit_ns))
            closed[worth] = False
            if self._out_of_time():
                self.left_ns = min(self.left_ns, int(least[worth].min(initial=NEVER)))
            elif len(worth):
                opened += self._sooner(self._opened(found, worth))
        self.tally.bound += int(self.legal[closed].sum())
        return opened

    def _sooner(self, entries: list[Entry]) -> list[Entry]:
        """The entries, without the one of least bound where that leaves much open: it is solved.

        Its plan lowers the limit for all rows to come; one row of a search is solved so.
        """
        if self.tally.leaves or self.leader is None or not entries:
            return entries
        first = min(entries, key=lambda entry: (entry.bound, entry.key))
        if self.limit_ns - first.bound < self.limit_ns * LOOSE:
            return entries
        self.ending.limit_ns = self.limit_ns
        closed = self.ending.early(first)
        self.limit_ns = self.ending.limit_ns
        return [entry for entry in entries if entry is not first] if closed else entries

    def _refined(self, entries: list[Entry]) -> list[Entry]:
        """The entries with sharper levels, those of one part at a time; fewer as the limit falls."""
        found = [entry for entry in entries if entry.level is None]
        parts: dict[int, list[Entry]] = {}
        for entry in entries:
            if entry.level is not None:
                parts.setdefault(id(entry.part), []).append(entry)
        for some in parts.values():
            part = some[0].part
            joined = Level.join([entry.level for entry in some if entry.level is not None])
            one = halved(part, joined.take(joined.lower <= self.limit_ns))
            lower, upper = one.by_row(len(part.strategies))
            self._lower(part, upper)
            for entry in some:
                bound = max(entry.bound, int(lower[entry.row]))
                found.append(Entry(bound, part, entry.row, one.take(one.cases.row == entry.row)))
        return [entry for entry in found if entry.bound <= self.limit_ns]

    def _opened(self, found: Space, shapes: Ints) -> list[Entry]:
        """Rows of some shapes that may hold a plan within the limit, which plans found here lower."""
        rows = self.large.rows(shapes)
        small = ~self.large.known(rows)
        some = self._priced(found, shapes, small)
        worth, part = some.within(self.limit_ns, small, self.request)
        bounds = some.bounds[worth]
        self._charge(PRICED_SECONDS * len(worth))
        even = uniform(part)
        if (share := comm_share(self.request)) is not None and len(self.request.model.kinds) == 1:
            modest = even_step(part, share)
            self._try(part, modest, modest)
        self._lower(part, even)
        near = nearly_within(part, bounds, self.limit_ns)
        bounds = np.maximum(bounds, least_shown(part))
        near &= bounds <= self.limit_ns
        talkative = near & ~may_keep(part)
        near[talkative] = False
        open_rows = np.flatnonzero(near & (even >= NEVER))
        large = open_rows[~can_fit(part, open_rows)]
        near[large] = False
        self.large.learn(rows.take(some.among[worth[large]]), host_can_hold(part, large))
        entries = self._levelled(part, np.flatnonzero(near), bounds)
        kept = [entry for entry in entries if entry.bound <= self.limit_ns]
        legal, left = int(self.legal[shapes].sum()), int(small[some.among].sum())
        lost = legal - left + len(large) + int(talkative.sum())
        self.tally.infeasible += lost
        self.tally.bound += legal - lost - len(kept)
        return kept

    def _priced(self, found: Space, shapes: Ints, small: Bools) -> Priced:
        """Rows of some shapes that obey the rules and are not known to be too large, with their bounds."""
        if self.keeps_tables:
            return self.tables.priced(self.request, found, self.bounds, shapes, small)
        return priced(self.request, found, self.bounds, shapes, small)

    def _levelled(self, part: Coefficients, rows: Ints, bounds: Ints) -> list[Entry]:
        """Rows with sharper bounds; a plan that fills their stages evenly may lower the limit."""
        alike = recompute_alike(part)[rows]
        one = levels(part, rows[alike], self.limit_ns)
        lower, upper = one.by_row(len(bounds))
        lower[rows[~alike]] = bounds[rows[~alike]]
        single = rows[stand_alone(part)[rows]]
        lower[single] = upper[single] = least_alone(part, single)
        self._lower(part, upper)
        kept = rows[lower[rows] <= self.limit_ns]
        own = {row: one.take(one.cases.row == row) for row in kept[recompute_alike(part)[kept]].tolist()}
        return [
            Entry(max(int(bounds[row]), int(lower[row])), part, row, own.get(row)) for row in kept.tolist()
        ]

    def closed(self, entries: list[Entry]) -> Outcome:
        """The best of the rows that are left; of a stopped search at least the leader."""
        ending = self.ending
        ending.limit_ns = self.limit_ns
        found = ending.run(entries)
        if found.proved and (
            self.left_ns > self.limit_ns or (found.best and found.best.step_ns <= self.left_ns)
        ):
            return found
        best = found.best
        if self.leader is not None and (best is None or self.leader.bound < best.step_ns):
            ending.time_limit = None
            best = ending.alone(self.leader)
        bound = min(self.left_ns, NEVER if found.bound_ns is None else found.bound_ns)
        return Outcome(best, bound, False, self.tally)
