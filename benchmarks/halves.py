"""Half of a source teaches the other half: ``python -m benchmarks.halves RUNS.csv [SOURCE...]``

`calibrate` makes a site of every second row of a source; the other rows are priced with it. Each half
teaches once. Without SOURCE the five of which enough layouts are published. Errors are medians, in percent,
of the rows that were not taught; worst first. *inside*: the share of them in the site's 80 % interval, whose
width in percent of the step stands beside that of the published runs' interval (*before*).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log1p
from pathlib import Path
from statistics import median

import numpy as np

from shardwise.calibration import MeasuredStep, calibrate, steps_of
from shardwise.calibration.measured import MeasuredSteps
from shardwise.costs import price
from shardwise.costs.scatter import StepKind, measured_cards, step_kind, step_scatter
from shardwise.inputs import InputError

from .face import Result, run, table

SOURCES = ("bloom_prequel", "megatron_sc21", "mosaicml_llmfoundry", "nvidia_megatron_bridge", "torchtitan")
DATE = "1970-01-01"
"""Of the sites made here, which nobody keeps."""


def measure(arguments: Sequence[str]) -> Result:
    """A line a source and half."""
    file, *sources = arguments
    steps, _ = steps_of([file], None)
    lines = []
    for source in sources or SOURCES:
        rows = [step for step in steps if step.name.rpartition("-")[0] == source]
        if len(rows) < 2:
            known = sorted({step.name.rpartition("-")[0] for step in steps})
            raise InputError("source", source, Path(file).name, "has no two rows with a time", legal=known)
        halves = rows[::2], rows[1::2]
        lines += [_line(source, *pair) for pair in (halves, halves[::-1])]
    worst = [max(line["after"] for line in lines if line["source"] == s) for s in sources or SOURCES]
    return {"lines": lines, "sources": len(worst), "within_five_percent": sum(w <= 5.0 for w in worst)}


def _line(source: str, taught: list[MeasuredStep], others: list[MeasuredStep]) -> Result:
    site = calibrate(taught, source, DATE).site
    told = {constant.name: constant.value for constant in site.constants}
    rows = MeasuredSteps(tuple(others))
    ratios = rows.seconds(told) / rows.measured
    before, after = (
        100.0 * float(np.median(np.abs(found - 1.0))) for found in (rows.seconds({}) / rows.measured, ratios)
    )
    reach = log1p(site.interval)
    published = [step_scatter(_kind(step)) for step in others]
    return {
        "source": source,
        "taught": site.runs,
        "told": len(others),
        "constants": len(site.constants),
        "before": before,
        "after": after,
        "inside": float(np.mean(np.abs(np.log(ratios)) <= reach)),
        "width_before": median(found.width_percent for found in published),
        "width": 100.0 * (exp(reach) - exp(-reach)),
    }


def _kind(step: MeasuredStep) -> StepKind:
    (ledger,) = price(step.transformer, step.training, step.cluster, [step.strategy])
    return step_kind(ledger.limit_fraction, step.cluster.node.gpu.name in measured_cards())


def text(found: Result) -> str:
    """A table, worst half first."""
    keys = ("source", "taught", "told", "constants", "before", "after", "inside", "width_before", "width")
    lines = sorted(found["lines"], key=lambda line: -line["after"])
    head = (*keys[:4], "median error before %", "after %", "inside", "width before %", "width %")
    body = table(head, [[line[key] for key in keys] for line in lines])
    return f"{body}\n{found['within_five_percent']} of {found['sources']} sources within 5 % in both halves"


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    return run((__doc__ or "").splitlines()[0], ["RUNS", "SOURCES*"], measure, text, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
