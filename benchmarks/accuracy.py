"""Published step times and peaks against the ledger: ``python -m benchmarks.accuracy RUNS.csv...``

A line a row, worst first, complete rows before imputed ones; then scores by source, overall, for complete and
imputed, dense and mixture-of-experts rows apart, and of each source under the constants that the others give
(`left_out`, `fitting`), and how often intervals drawn from the other sources hold its rows; then what was
refused and why, and which stand-ins were taken for how many rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from shardwise.runs.priced import Refusal, Run, price_jobs, read_rows
from shardwise.runs.record import Record, read_records, words
from shardwise.runs.rows import has_time

from . import fitting
from .face import Result, run, table
from .fitting import studied
from .intervals import step_coverage
from .left_out import price_left_out
from .peaks import Peak, Peaks, coverage
from .scores import by_source, percent


def measure(files: Sequence[str]) -> Result:
    """Scores of all rows of `files`."""
    records = [record for file in files for record in read_records(file)]
    jobs, refusals = read_rows(records)
    runs = price_jobs(jobs)
    refusals += [
        Refusal(r.job.record, "no-time", "publishes no step time, no tokens/s and no peak memory")
        for r in runs
        if r.measured_seconds is None and r.job.measured_gib is None
    ]
    timed = [r for r in runs if r.measured_seconds is not None]
    return {
        "rows": _rows(records, timed, refusals),
        "step": {
            **_scores(timed, _step),
            "dense": by_source(filter(None, (_step(r) for r in timed if not _routed(r)))),
            "moe": by_source(filter(None, (_step(r) for r in timed if _routed(r)))),
            **_step_left_out(timed),
        },
        "memory": {**_scores(runs, _memory), **_memory_rows(runs, refusals), **_left_out(runs)},
        "lines": [_line(r) for r in sorted(timed, key=_worst)],
        "refusals": [
            {"id": r.record.name, "source": r.record.text("source"), "code": r.code, "reason": r.reason}
            for r in refusals
        ],
        "stand_ins": dict(Counter(note for r in timed for note in r.job.stand_ins).most_common()),
    }


def _rows(records: Sequence[Record], timed: Sequence[Run], refusals: Sequence[Refusal]) -> dict[str, Any]:
    complete = sum(r.job.complete for r in timed)
    measured = [r for r in refusals if has_time(r.record) and r.record.text("gpus")]
    asked = Counter(r.text("source") for r in records if has_time(r) and r.text("gpus"))
    lost = Counter(r.record.text("source") for r in measured)
    return {
        "read": len(records),
        "priced": len(timed),
        "refused": len(refusals),
        "complete": complete,
        "imputed": len(timed) - complete,
        "refused_by_code": dict(sorted(Counter(r.code for r in refusals).items())),
        "refused_with_time_and_cards": len(measured),
        "refused_share_of_a_source": max((lost[name] / asked[name] for name in asked), default=0.0),
    }


def _step(r: Run) -> tuple[str, float, float] | None:
    measured = r.measured_seconds
    return (r.job.record.text("source"), r.seconds, measured) if measured else None


def _routed(r: Run) -> bool:
    return any(kind.feed_forward.experts for kind in r.job.transformer.kinds)


def _memory(r: Run) -> tuple[str, float, float] | None:
    measured = r.job.measured_gib
    return (r.job.record.text("source"), r.gib, measured) if measured else None


def _scores(runs: Sequence[Run], pair: Any) -> dict[str, Any]:
    """Scores over all runs, and over complete and imputed ones apart."""
    found = by_source(filter(None, (pair(r) for r in runs)))
    for name, wanted in (("complete", True), ("imputed", False)):
        found[name] = by_source(filter(None, (pair(r) for r in runs if r.job.complete is wanted)))
    return found


def _memory_rows(runs: Sequence[Run], refusals: Sequence[Refusal]) -> dict[str, int]:
    return {
        "priced": sum(r.job.measured_gib is not None for r in runs),
        "refused": sum(bool(r.record.text("peak_mem_gib")) for r in refusals if r.code != "no-time"),
    }


def _left_out(runs: Sequence[Run]) -> dict[str, Any]:
    """Errors with each source left out of the fit, and what intervals of the other sources hold."""
    part = Peaks(tuple(Peak.of(r) for r in runs if r.job.measured_gib))
    return {"left_out": studied(part), "interval": coverage(part)} if part.peaks else {}


def _step_left_out(timed: Sequence[Run]) -> dict[str, Any]:
    """Scores of each source under the constants that the others give, and what their intervals hold."""
    left = price_left_out(timed)
    return {"left_out": _scores(left, _step), "interval": step_coverage(left)} if left else {}


def _interval(what: str, held: dict[str, Any]) -> str:
    return (
        f"80 % intervals of the other sources hold {100 * held['inside']:.0f} % of rows ({what}), "
        f"median width {held['median_width_percent']:.0f} %"
    )


def _worst(r: Run) -> tuple[bool, float, str]:
    return not r.job.complete, -abs(percent(r.seconds, r.measured_seconds or 1.0)), r.job.record.name


def _line(r: Run) -> dict[str, Any]:
    measured, peak = r.measured_seconds or 0.0, r.job.measured_gib
    return {
        "source": r.job.record.text("source"),
        "id": r.job.record.name,
        "complete": r.job.complete,
        "measured_seconds": measured,
        "predicted_seconds": r.seconds,
        "step_error": percent(r.seconds, measured),
        "measured_gib": peak,
        "predicted_gib": r.gib if peak else None,
        "memory_error": percent(r.gib, peak) if peak else None,
        "imputed": list(r.job.imputed),
        "stand_ins": list(r.job.stand_ins),
        "rule": r.job.rule,
    }


_HEAD = ("id", "complete", "measured s", "predicted s", "error %", "measured GiB", "predicted GiB", "error %")
_KEYS = words(
    "id complete measured_seconds predicted_seconds step_error measured_gib predicted_gib memory_error"
)
_SCORES = ("rows", "mape", "median_ape", "p90_ape", "bias", "spearman")


def text(found: Result) -> str:
    """The result as tables."""
    parts = [table(_HEAD, [[line[key] for key in _KEYS] for line in found["lines"]])]
    for what, scores in (
        ("step", found["step"]),
        ("step, source left out", found["step"]["left_out"]),
        ("memory", found["memory"]),
    ):
        body = [[name, *(score[key] for key in _SCORES)] for name, score in scores["by_source"].items()]
        for name, part in (
            ("all rows", scores),
            ("complete", scores["complete"]),
            ("imputed", scores["imputed"]),
            ("dense", scores.get("dense", {"rows": 0})),
            ("mixture of experts", scores.get("moe", {"rows": 0})),
        ):
            body += [[name, *(part[key] for key in _SCORES)]] if part["rows"] else []
        mean = scores["mape_by_source_mean"]
        parts.append(
            table((what, *_SCORES), body) + ("" if mean is None else f"\nmean of sources {mean:.2f} %")
        )
        if "interval" in scores:
            parts.append(_interval(what, scores["interval"]))
    rows, memory = found["rows"], found["memory"]
    if "left_out" in memory:
        parts.append(fitting.text(memory["left_out"]))
    parts.append(
        f"priced {rows['priced']} of {rows['read']} rows, "
        f"complete {rows['complete']}, imputed {rows['imputed']}, "
        f"refused {rows['refused']}; memory priced {memory['priced']}, refused {memory['refused']}"
    )
    parts.append(table(("refused", "why"), [[r["id"], r["reason"]] for r in found["refusals"]]))
    parts.append(table(("taken instead", "rows"), list(found["stand_ins"].items())))
    return "\n\n".join(parts)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    return run((__doc__ or "").splitlines()[0], ["RUNS..."], measure, text, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
