"""Choice between layouts, and out-of-memory verdicts: ``python -m benchmarks.regret RUNS.csv OOM.csv``

Rows of one model, cluster, software, arithmetic and batch (within 2 %, as data_parallel must divide it) that
differ in layout only form a group; lines of one layout are averaged, groups of at least four layouts count.
Regret is what the layout that the ledger ranks first takes longer, by measurement and sequence, than the best
measured one. Recall: known out-of-memory runs called does_not_fit or risky. False rate: rows that ran, with
recompute, micro-batch, sharding and interleaving given, called does_not_fit.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from shardwise.costs.law import law
from shardwise.runs.priced import Run, price_jobs, read_rows
from shardwise.runs.record import read_records, words
from shardwise.runs.views import verdict

from .face import Result, run, table
from .scores import percent, spearman

SAME = words(
    """
    source framework year gpu gpus gpus_per_node inter_link layers hidden heads kv_heads ffn_hidden ffn_type
    vocab experts experts_topk seq_len precision optimizer offload flash_attention
    """
)
"""Columns in which the rows of a group agree."""
LAYOUT = words("micro_batch_seqs tp sp pp vpp cp ep dp zero_stage hsdp_replicas recompute")
LEAST = 4
SAME_BATCH = 1.02
DECIDES_MEMORY = {"micro_batch_seqs", "global_batch_seqs", "recompute", "zero_stage", "vpp"}


@dataclass(frozen=True)
class Layout:
    """One layout of a group: seconds a sequence, measured (mean of its lines) and predicted."""

    ids: tuple[str, ...]
    measured: float
    predicted: float


def measure(files: Sequence[str]) -> Result:
    """Regret over the runs in `files[0]`, verdicts over them and the failures in `files[1]`."""
    runs, unread = _priced(files[0])
    failed, unread_failed = _priced(files[1])
    groups = [_group(layouts) for layouts in groups_of(runs)]
    ran = [r for r in runs if not DECIDES_MEMORY & set(r.job.imputed)]
    refused = [r for r in ran if _verdict(r) == "does_not_fit"]
    caught = [r for r in failed if _verdict(r) != "fits"]
    return {
        "regret": {
            "groups": len(groups),
            "mean": fmean(g["regret"] for g in groups) if groups else None,
            "max": max((g["regret"] for g in groups), default=None),
        },
        "spearman": {"mean": fmean(g["spearman"] or 0.0 for g in groups) if groups else None},
        "oom": {
            "rows": len(failed),
            "recall": len(caught) / len(failed) if failed else None,
            "missed": _names(failed, caught),
            "explained": {name: _reasons().get(name, "") for name in _names(failed, caught)},
            "ran": len(ran),
            "false": [r.job.record.name for r in refused],
            "false_rate": len(refused) / len(ran) if ran else None,
            "lines": [_verdict_line(r) for r in failed],
        },
        "groups": groups,
        "refused": unread + unread_failed,
    }


def _reasons() -> dict[str, str]:
    """Failed runs that the ledger lets pass, with the reason."""
    text = (Path(__file__).parent / "data" / "oom_why.json").read_text(encoding="utf-8")
    found: dict[str, str] = json.loads(text)
    return found


def _names(failed: Sequence[Run], caught: Sequence[Run]) -> list[str]:
    return [r.job.record.name for r in failed if r not in caught]


def _priced(file: str) -> tuple[list[Run], int]:
    jobs, refusals = read_rows(read_records(file))
    return price_jobs(jobs), len(refusals)


def _verdict(r: Run) -> str:
    return verdict(r.ledger, law("risky_share"))


def groups_of(runs: Sequence[Run]) -> list[list[Layout]]:
    """Groups of at least `LEAST` layouts of one job, in order of first appearance."""
    jobs: dict[tuple[str, ...], list[Run]] = {}
    for r in runs:
        if r.measured_seconds:
            jobs.setdefault(tuple(r.job.record.text(c) for c in SAME), []).append(r)
    found = []
    for job in jobs.values():
        for batch in _by_batch(job):
            layouts = _layouts(batch)
            if len(layouts) >= LEAST:
                found.append(layouts)
    return found


def _by_batch(runs: Sequence[Run]) -> list[list[Run]]:
    """Runs split where the global batch rises by more than `SAME_BATCH` over the first of its part."""
    parts: list[list[Run]] = []
    for r in sorted(runs, key=_batch):
        if not parts or _batch(r) > SAME_BATCH * _batch(parts[-1][0]):
            parts.append([])
        parts[-1].append(r)
    return parts


def _batch(r: Run) -> int:
    return r.candidate.training.global_batch_size


def _layouts(runs: Sequence[Run]) -> list[Layout]:
    same: dict[tuple[str, ...], list[Run]] = {}
    for r in runs:
        same.setdefault(tuple(r.job.record.text(c) for c in LAYOUT), []).append(r)
    return [
        Layout(
            tuple(r.job.record.name for r in lines),
            fmean((r.measured_seconds or 0.0) / _batch(r) for r in lines),
            fmean(r.seconds / _batch(r) for r in lines),
        )
        for lines in same.values()
    ]


def _group(layouts: Sequence[Layout]) -> dict[str, Any]:
    chosen = min(layouts, key=lambda layout: layout.predicted)
    best = min(layouts, key=lambda layout: layout.measured)
    return {
        "source": best.ids[0].rpartition("-")[0],
        "layouts": len(layouts),
        "best": best.ids[0],
        "chosen": chosen.ids[0],
        "regret": percent(chosen.measured, best.measured),
        "spearman": spearman([x.predicted for x in layouts], [x.measured for x in layouts]),
    }


def _verdict_line(r: Run) -> dict[str, Any]:
    ledger = r.ledger
    return {
        "id": r.job.record.name,
        "verdict": _verdict(r),
        "least_gib": ledger.refusal_kib / 2**20,
        "peak_gib": ledger.peak_kib / 2**20,
        "usable_gib": ledger.usable_kib / 2**20,
    }


def text(found: Result) -> str:
    """The result as tables."""
    groups = sorted(found["groups"], key=lambda g: -g["regret"])
    keys = ("source", "layouts", "best", "chosen", "regret", "spearman")
    parts = [table(("group", *keys[1:4], "regret %", "spearman"), [[g[key] for key in keys] for g in groups])]
    oom, regret = found["oom"], found["regret"]
    fields = ("id", "verdict", "least_gib", "peak_gib", "usable_gib")
    head = ("failed", "verdict", "least GiB", "peak GiB", "usable GiB")
    parts.append(table(head, [[line[key] for key in fields] for line in oom["lines"]]))
    false = Counter(name.rpartition("-")[0] for name in oom["false"])
    if groups:
        parts.append(
            f"{regret['groups']} groups: mean regret {regret['mean']:.2f} %, worst {regret['max']:.2f} %, "
            f"mean Spearman {found['spearman']['mean']:.3f}"
        )
    parts.append(
        f"failed runs called does_not_fit or risky: {oom['rows'] - len(oom['missed'])} of {oom['rows']}; "
        f"runs that ran called does_not_fit: {len(oom['false'])} of {oom['ran']} {dict(false) or ''}"
    )
    parts += [f"{name} is let pass: {why or 'no reason known'}" for name, why in oom["explained"].items()]
    return "\n\n".join(parts)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    return run((__doc__ or "").splitlines()[0], ["RUNS", "OOM"], measure, text, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
