"""What a search knows and how it ended: its tally, its open rows, its best plan."""

from __future__ import annotations

from dataclasses import field

from ..inputs.record import dataclass
from ..models.strategy import Strategy
from ..plans import Request
from .coefficients import Coefficients
from .level import Level


@dataclass
class Tally:
    """What was considered and why it fell out: the certificate."""

    rows: int = 0
    rule: int = 0
    infeasible: int = 0
    bound: int = 0
    leaf: int = 0
    leaves: int = 0
    masters: int = 0
    deterministic_time: float = 0.0
    by_rule: dict[str, int] = field(default_factory=dict)

    def add(self, other: Tally) -> None:
        """Counts another search in."""
        for name in (
            "rows",
            "rule",
            "infeasible",
            "bound",
            "leaf",
            "leaves",
            "masters",
            "deterministic_time",
        ):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def excluded(self) -> dict[str, int]:
        """Rows excluded by each means."""
        return {"rule": self.rule, "infeasible": self.infeasible, "bound": self.bound, "leaf": self.leaf}


@dataclass(frozen=True)
class Found:
    """The best plan of a row, with the row's strategy."""

    strategy: Strategy
    step_ns: int
    key: tuple[int, ...]
    headroom_kib: int = 0
    """What the fullest card keeps free of what a plan may use."""
    mechanisms: int = 0

    @property
    def rank(self) -> tuple[int, ...]:
        """Order among plans: step, most headroom, fewest mechanisms, row tuple."""
        return (self.step_ns, -self.headroom_kib, self.mechanisms, *self.key)


@dataclass(frozen=True)
class Outcome:
    """How a search ended: the best found, the proved bound, whether it is proved."""

    best: Found | None
    bound_ns: int | None
    proved: bool
    tally: Tally


@dataclass(frozen=True)
class Without:
    """A search that found no plan, with the request of which reasons are told."""

    request: Request
    outcome: Outcome


@dataclass(frozen=True)
class Entry:
    """A row that may hold a plan within the limit: its bound, coefficients, and levels where it has any."""

    bound: int
    part: Coefficients
    row: int
    level: Level | None

    @property
    def key(self) -> tuple[int, ...]:
        """The row tuple."""
        return self.part.strategies.key(self.row)
