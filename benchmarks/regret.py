"""Choice between layouts, and out-of-memory verdicts: ``python -m benchmarks.regret RUNS.csv OOM.csv``

Rows of one model, cluster, software, arithmetic and batch (within 2 %, as data_parallel must divide it) that
differ in layout only form a group; lines of one layout are averaged, groups of at least four layouts count.
Regret is what the layout that the ledger ranks first takes longer, by measurement and sequence, than the best
measured one; by source, under the catalogue's constants and under those that the other sources give. Beside
them is what the scatter of repeated lines leaves to a ledger without error.
Recall: known out-of-memory runs called does_not_fit or risky. False rate: rows that ran, with recompute,
micro-batch, sharding and interleaving given, called does_not_fit; rows whose activations lay on the host and
were priced on the card are counted apart.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from shardwise.costs.law import law
from shardwise.runs.priced import Run, price_jobs, read_rows
from shardwise.runs.record import read_records
from shardwise.runs.views import verdict
from shardwise.runs.ways import ON_THE_HOST

from .face import Result, run, table
from .layouts import Layout, groups_of
from .left_out import price_left_out
from .noise import ceiling, spread
from .scores import percent, spearman

DECIDES_MEMORY = {"micro_batch_seqs", "global_batch_seqs", "recompute", "zero_stage", "vpp"}


def measure(files: Sequence[str]) -> Result:
    """Regret over the runs in `files[0]`, verdicts over them and the failures in `files[1]`."""
    runs, unread = _priced(files[0])
    failed, unread_failed = _priced(files[1])
    timed = [r for r in runs if r.measured_seconds]
    found = groups_of(timed)
    groups = [_group(layouts) for layouts in found]
    left_out = [_group(layouts) for layouts in groups_of(price_left_out(timed))]
    told = [r for r in runs if not DECIDES_MEMORY & set(r.job.imputed)]
    ran = [r for r in told if ON_THE_HOST not in r.job.stand_ins]
    refused = [r for r in ran if _verdict(r) == "does_not_fit"]
    caught = [r for r in failed if _verdict(r) != "fits"]
    return {
        "regret": {
            "groups": len(groups),
            "mean": fmean(g["regret"] for g in groups) if groups else None,
            "max": max((g["regret"] for g in groups), default=None),
        },
        "spearman": {"mean": fmean(g["spearman"] or 0.0 for g in groups) if groups else None},
        "by_source": {"fitted": _by_source(groups), "left_out": _by_source(left_out)},
        "noise": _noise(found),
        "oom": {
            "rows": len(failed),
            "recall": len(caught) / len(failed) if failed else None,
            "missed": _names(failed, caught),
            "explained": {name: _reasons().get(name, "") for name in _names(failed, caught)},
            "ran": len(ran),
            "on_the_host": len(told) - len(ran),
            "false": [r.job.record.name for r in refused],
            "false_rate": len(refused) / len(ran) if ran else None,
            "lines": [_verdict_line(r) for r in failed],
        },
        "groups": groups,
        "refused": unread + unread_failed,
    }


def _by_source(groups: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Groups, mean regret and mean Spearman of each source."""
    found: dict[str, list[dict[str, Any]]] = {}
    for group in groups:
        found.setdefault(group["source"], []).append(group)
    return {
        source: {
            "groups": len(mine),
            "regret": fmean(g["regret"] for g in mine),
            "spearman": fmean(g["spearman"] or 0.0 for g in mine),
        }
        for source, mine in sorted(found.items())
    }


def _noise(groups: Sequence[Sequence[Layout]]) -> dict[str, dict[str, float]]:
    """Of each source with repeated lines: their scatter, and the Spearman of a ledger without error."""
    sources: dict[str, list[Sequence[Layout]]] = {}
    for layouts in groups:
        sources.setdefault(layouts[0].ids[0].rpartition("-")[0], []).append(layouts)
    found = {}
    for source, mine in sorted(sources.items()):
        deviation = spread([layout.lines for layouts in mine for layout in layouts])
        if deviation is not None:
            times = [[layout.measured for layout in layouts] for layouts in mine]
            found[source] = {"percent": 100.0 * deviation, "spearman": ceiling(times, deviation)}
    return found


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


def _source_lines(found: Result) -> list[list[object]]:
    """A line a source under the catalogue's constants, and one under those of the other sources."""
    return [
        [source, fit.replace("_", " "), *entry.values()]
        for fit, sources in found["by_source"].items()
        for source, entry in sources.items()
    ]


def text(found: Result) -> str:
    """The result as tables."""
    groups = sorted(found["groups"], key=lambda g: -g["regret"])
    keys = ("source", "layouts", "best", "chosen", "regret", "spearman")
    parts = [table(("group", *keys[1:4], "regret %", "spearman"), [[g[key] for key in keys] for g in groups])]
    parts.append(table(("source", "fit", "groups", "mean regret %", "mean Spearman"), _source_lines(found)))
    parts += [
        f"{source}: lines of one layout scatter by {one['percent']:.1f} %, "
        f"so a ledger without error would have a mean Spearman of {one['spearman']:.3f}"
        for source, one in found["noise"].items()
    ]
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
        f"runs that ran called does_not_fit: {len(oom['false'])} of {oom['ran']} {dict(false) or ''}; "
        f"{oom['on_the_host']} more kept activations on the host, which is not priced"
    )
    parts += [f"{name} is let pass: {why or 'no reason known'}" for name, why in oom["explained"].items()]
    return "\n\n".join(parts)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    return run((__doc__ or "").splitlines()[0], ["RUNS", "OOM"], measure, text, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
