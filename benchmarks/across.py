"""Tensor parallel across machines, row by row: ``python -m benchmarks.across RUNS.csv...``

Rows whose tensor-parallel group is larger than a machine, measured and predicted, fitted and with their own
source left out of the fit, worst first. Beside each is what its layers' collectives take of the predicted
step: the disaster is theirs.
"""

from __future__ import annotations

from collections.abc import Sequence

from shardwise.runs.priced import Run, price_jobs, read_rows
from shardwise.runs.record import read_records

from .face import Result, run, table
from .left_out import price_left_out
from .scores import percent, summary


def measure(files: Sequence[str]) -> Result:
    """Each row with its errors, and the scores over all."""
    jobs, _ = read_rows(record for file in files for record in read_records(file))
    away = [job for job in jobs if (job.record.integer("tp") or 1) > job.cluster.node.gpus]
    runs = [r for r in price_jobs(away) if r.measured_seconds]
    lines = [_line(r, other) for r, other in zip(runs, price_left_out(runs), strict=True)]
    pairs = [(line["predicted_seconds"], line["measured_seconds"]) for line in lines]
    return {
        "lines": sorted(lines, key=lambda line: -abs(line["error"])),
        "scores": summary(pairs) if pairs else None,
    }


def _line(r: Run, left_out: Run) -> Result:
    measured = r.measured_seconds or 0.0
    return {
        "id": r.job.record.name,
        "tensor_parallel": r.candidate.strategy.tensor_parallel,
        "cards_a_machine": r.job.cluster.node.gpus,
        "measured_seconds": measured,
        "predicted_seconds": r.seconds,
        "error": percent(r.seconds, measured),
        "error_left_out": percent(left_out.seconds, measured),
        "tensor_percent": 100.0 * r.ledger.terms_ns.get("tensor_comm", 0) / r.ledger.step_ns,
    }


KEYS = (
    "id",
    "tensor_parallel",
    "cards_a_machine",
    "measured_seconds",
    "predicted_seconds",
    "error",
    "error_left_out",
    "tensor_percent",
)
HEAD = ("id", "tp", "cards", "measured s", "predicted s", "error %", "left out %", "tensor traffic %")


def text(found: Result) -> str:
    """A table, a line a row."""
    body = table(HEAD, [[line[key] for key in KEYS] for line in found["lines"]])
    scores = found["scores"]
    return body if scores is None else f"{body}\n{scores['rows']} rows, mape {scores['mape']:.2f} %"


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    return run((__doc__ or "").splitlines()[0], ["RUNS..."], measure, text, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
