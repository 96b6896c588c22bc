"""A published row as a job the ledger can price: model, batch, cluster and the layouts it may mean.

The rules stand where they are applied: `shapes` (model), `machines` (cluster), `software` (backend, stack,
loss), `arithmetic` (precision), `stages` (layers, recompute), `layouts` (degrees and blanks), `views` (what
the measured memory counts, and of which stage). A row that no rule can fill raises `Refused` with a code and
a reason.
"""

from __future__ import annotations

from ..costs.ledger import View
from ..hardware import Cluster
from ..inputs.record import dataclass
from ..models import Training, Transformer
from .layouts import Candidate, layouts_of
from .machines import cluster_of
from .predictors import trained_modules
from .record import Record
from .refusal import Refused
from .settings import completed
from .shapes import transformer_of
from .software import software_of
from .spellings import number_in
from .views import gib_of, view_of


@dataclass(frozen=True)
class Job:
    """A row that can be priced. `imputed` are blank columns that rules filled; empty: the row is complete."""

    record: Record
    transformer: Transformer
    cluster: Cluster
    candidates: tuple[Candidate, ...]
    imputed: tuple[str, ...]
    stand_ins: tuple[str, ...]
    rule: str

    @property
    def complete(self) -> bool:
        """Whether the row gave all that the price depends on."""
        return not self.imputed

    @property
    def view(self) -> View:
        """What the measured memory counts."""
        return view_of(self.record)

    @property
    def measured_gib(self) -> float | None:
        """The measured peak in GiB (`views.gib_of`)."""
        return gib_of(self.record)

    def measured_seconds(self, training: Training) -> float | None:
        """The measured step: as published, else tokens of `training` over the published rate."""
        if seconds := self.record.number("step_time_s"):
            return seconds
        rate = self.record.number("tokens_per_s_per_gpu")
        return training.tokens / (rate * self.cluster.gpus) if rate else None


def read_row(record: Record) -> Job:
    """The job of a row; raises `Refused`, for what was measured too where that is no number."""
    for column in _MEASURED:
        record.number(column)
    record, told = completed(record)
    cluster, network, cards = cluster_of(record)
    transformer, shape = transformer_of(record)
    software = software_of(record)
    if software.backend == "megatron":
        transformer = transformer.predicting(trained_modules(record, transformer))
    layouts = layouts_of(record, software, transformer, cluster)
    return Job(
        record=record,
        transformer=transformer,
        cluster=cluster,
        candidates=_with_stage(record, layouts.candidates),
        imputed=tuple(dict.fromkeys((*shape, *network, *layouts.imputed))),
        stand_ins=told + cards + software.stand_ins + layouts.stand_ins,
        rule=software.rule,
    )


def _with_stage(record: Record, candidates: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
    """The layouts that have the pipeline stage whose memory was read; `Refused` where none does."""
    stage = record.integer("mem_stage") or 0
    found = tuple(each for each in candidates if stage < each.strategy.pipeline_parallel)
    if not found:
        raise Refused("unreadable", f"mem_stage = {stage} is a stage of no layout that the row may mean")
    return found


def has_time(record: Record) -> bool:
    """Whether a row publishes a step time or a rate of tokens that can be read."""
    return any(number_in(record.said(column)) for column in _TIMED)


_TIMED = ("step_time_s", "tokens_per_s_per_gpu")
_MEASURED = (*_TIMED, "peak_mem_gib")
