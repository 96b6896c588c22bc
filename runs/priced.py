"""Pricing of jobs: rows of one model, batch and cluster in one call; of several readings one is chosen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..costs import Ledger, price
from ..hardware import Cluster
from ..inputs import InputError
from ..inputs.record import dataclass
from ..models import Strategy, Training, Transformer
from .layouts import Candidate
from .record import Record
from .refusal import Refused
from .rows import Job, read_row
from .views import peak_gib, seen


@dataclass(frozen=True)
class Run:
    """A row beside its price."""

    job: Job
    candidate: Candidate
    ledger: Ledger
    readings: tuple[Ledger, ...] = ()
    """All readings of a row with blanks, the chosen one among them."""

    @property
    def seconds(self) -> float:
        """Predicted step time."""
        return self.ledger.step_ns / 1e9

    @property
    def measured_seconds(self) -> float | None:
        """Measured step time."""
        return self.job.measured_seconds(self.candidate.training)

    @property
    def gib(self) -> float:
        """Predicted peak, counted as the source counted."""
        return peak_gib(self.seen, self.job.view)

    @property
    def seen(self) -> Ledger:
        """The ledger of the stages that the source looked at."""
        return seen(self.ledger, self.job.record)

    @property
    def spread(self) -> tuple[float, float]:
        """Least and greatest predicted peak of the readings that fit, over that of the chosen one."""
        fitting = [led for led in self.readings if led.refusal_kib <= led.usable_kib] or [self.ledger]
        peaks = [peak_gib(seen(led, self.job.record), self.job.view) / self.gib for led in fitting]
        return min(*peaks, 1.0), max(*peaks, 1.0)


@dataclass(frozen=True)
class Refusal:
    """A row that was not priced."""

    record: Record
    code: str
    reason: str


def read_rows(records: Iterable[Record]) -> tuple[list[Job], list[Refusal]]:
    """The jobs of all rows that can be read, and the refusals of the others."""
    jobs, refusals = [], []
    for record in records:
        try:
            jobs.append(read_row(record))
        except Refused as refused:
            refusals.append(Refusal(record, refused.code, refused.reason))
        except InputError as error:
            refusals.append(Refusal(record, "unreadable", error.message))
    return jobs, refusals


def price_jobs(jobs: Sequence[Job]) -> list[Run]:
    """A run for each job, in order."""
    todo: dict[tuple[Transformer, Training, Cluster], list[Strategy]] = {}
    for job in jobs:
        for candidate in job.candidates:
            todo.setdefault(key_of(job, candidate), []).append(candidate.strategy)
    found: dict[tuple[Transformer, Training, Cluster, Strategy], Ledger] = {}
    for key, strategies in todo.items():
        distinct = list(dict.fromkeys(strategies))
        for strategy, ledger in zip(distinct, price(*key, distinct), strict=True):
            found[(*key, strategy)] = ledger
    return [_chosen(job, [found[(*key_of(job, c), c.strategy)] for c in job.candidates]) for job in jobs]


def key_of(job: Job, candidate: Candidate) -> tuple[Transformer, Training, Cluster]:
    """What rows that are priced in one call share."""
    plain = job.transformer.model_copy(update={"name": "row"})
    return plain, candidate.training, job.cluster


def _chosen(job: Job, ledgers: list[Ledger]) -> Run:
    """The fastest reading that fits by tokens a second; where none fits the one that needs least."""

    def order(index: int) -> tuple[float, ...]:
        ledger = ledgers[index]
        beyond = max(ledger.refusal_kib - ledger.usable_kib, 0)
        return beyond, ledger.step_ns / job.candidates[index].training.tokens, index

    best = min(range(len(ledgers)), key=order)
    return Run(job, job.candidates[best], ledgers[best], tuple(ledgers))
