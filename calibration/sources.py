"""Measured steps from files: CSV of the known columns, or a trainer's log beside the plan it ran."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..inputs import InputError, read_text
from ..plans import Plan
from ..runs import price_jobs, read_records, read_rows
from .logs import logged_steps
from .measured import MeasuredStep

NEEDED = ("gpu", "gpus", "framework", "layers", "hidden", "ffn_hidden", "seq_len")
"""Columns without which no line can be read; the others may be missing, as if blank."""


def is_table(path: str) -> bool:
    """Whether a file of runs is a CSV table; anything else is a log."""
    return Path(path).suffix.lower() in (".csv", ".tsv")


def steps_of_table(path: str) -> tuple[list[MeasuredStep], list[tuple[str, str]]]:
    """The runs of a CSV file with a step time or tokens a second, and the lines set aside with why.

    Blank columns are filled by the written rules of the room `runs`.
    """
    jobs, refusals = read_rows(read_records(path, NEEDED))
    aside = [(refusal.record.name, refusal.reason) for refusal in refusals]
    steps = []
    for run in price_jobs(jobs):
        if run.measured_seconds is None:
            aside.append((run.job.record.name, "has no step_time_s and no tokens_per_s_per_gpu"))
            continue
        steps.append(
            MeasuredStep(
                name=run.job.record.name,
                evidence=Path(path).name,
                transformer=run.job.transformer,
                training=run.candidate.training,
                cluster=run.job.cluster,
                strategy=run.candidate.strategy,
                seconds=run.measured_seconds,
            )
        )
    return steps, aside


def steps_of_log(path: str, plan: Plan) -> MeasuredStep:
    """The run of `plan` that wrote the log `path`."""
    request = plan.request
    logged = logged_steps(read_text(path, "runs"), request.training, request.cluster.gpus, path)
    return MeasuredStep(
        name=Path(path).name,
        evidence=f"{Path(path).name}: {len(logged.seconds)} steps of {logged.trainer}",
        transformer=request.model,
        training=request.training,
        cluster=request.cluster,
        strategy=plan.strategy,
        seconds=logged.steady,
    )


def steps_of(paths: Sequence[str], plan: Plan | None) -> tuple[list[MeasuredStep], list[tuple[str, str]]]:
    """The runs of all files, and what was set aside; a log needs the plan it ran."""
    steps: list[MeasuredStep] = []
    aside: list[tuple[str, str]] = []
    for path in paths:
        if is_table(path):
            found, refused = steps_of_table(path)
            steps += found
            aside += refused
        elif plan is None:
            reason = "is a log: give the plan it ran with --plan, or a CSV of the known columns"
            raise InputError("runs", path, path, reason, code="missing")
        else:
            steps.append(steps_of_log(path, plan))
    return steps, aside
