"""Fit the constants of the step time to published runs and write them into the catalogues.

    python scripts/step_constants.py benchmarks/data/{published,more}_runs.csv
    python scripts/step_constants.py --intervals benchmarks/data/*_runs.csv

Writes ``models/catalogue/stacks.json``, ``costs/catalogue/cards.json`` and ``law.json`` (values alone), and
``benchmarks/data/left_out.json``: for each source the constants that the other sources give. Then, with
``--intervals`` and the files that no fit knows beside those of the fit, ``step_scatter.json``: how far
left-out predictions lie off where a fit would trust the row (``benchmarks.residuals`` says how), and
``benchmarks/data/left_out_scatter.json``: the same without each source, and who ran what on which card.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import intervals  # noqa: E402
from benchmarks.fit import PublishedRows, trusted, unknowns  # noqa: E402
from benchmarks.left_out import price_left_out  # noqa: E402
from benchmarks.pairs import pair_scatters_of  # noqa: E402
from benchmarks.residuals import Residual, own_scatter_of, pools_of, scatters_of, sources_by  # noqa: E402
from shardwise.calibration.fit import Array, Fit, changes  # noqa: E402
from shardwise.costs.scatter import PairScatter, Scatter  # noqa: E402
from shardwise.runs.priced import Run, price_jobs, read_rows  # noqa: E402
from shardwise.runs.record import read_records  # noqa: E402

FILES = {
    "stacks": ROOT / "models/catalogue/stacks.json",
    "cards": ROOT / "costs/catalogue/cards.json",
    "law": ROOT / "costs/catalogue/law.json",
}
INTERVALS = ROOT / "costs/catalogue/step_scatter.json"
LEFT_OUT = ROOT / "benchmarks/data/left_out.json"
ROUNDS = 2


def main(arguments: list[str]) -> None:
    """Fit, leave each source out, write; or write the intervals of what was fitted before."""
    files = [argument for argument in arguments if argument != "--intervals"]
    jobs, _ = read_rows(record for file in files for record in read_records(file))
    runs = tuple(run for run in price_jobs(jobs) if run.measured_seconds)
    if files != arguments:
        _write_intervals(price_left_out([run for run in runs if trusted(run.job.record)]))
    else:
        _fit(PublishedRows(runs))


def _write_intervals(left_out: list[Run]) -> None:
    rows = [Residual.of(run) for run in left_out]
    pools, cards = pools_of(rows), sources_by(rows, lambda row: row.gpu)
    about = (
        "How far measured step times lie from predicted ones, of runs whose source was left out of the fit: "
        "80 % of measured / predicted lie from low to high (benchmarks/residuals.py)."
    )
    data = {
        "_about": f"{about} own: how far runs lie from the other runs of their source, abs(ln). "
        "pairs: how far ratios of two runs of a source lie from predicted ones, ln (benchmarks/pairs.py).",
        "kinds": _listed(scatters_of(pools)),
        "own": asdict(own_scatter_of(rows)),
        "pairs": {which: _listed(found) for which, found in pair_scatters_of(rows).items()},
        "cards": list(cards),
    }
    INTERVALS.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    sources = sorted({row.source for row in rows})
    parts = {
        "sources": {source: _listed(scatters_of(pools, source)) for source in sources},
        "cards": cards,
        "measured": sources_by(rows, lambda row: row.ran),
    }
    lines = [f' "about": "{about} Without each source; and the sources of cards, and of software on cards."']
    for name, part in parts.items():
        body = ",\n".join(f'  "{key}": {json.dumps(part[key])}' for key in sorted(part))
        lines.append(f' "{name}": {{\n{body}\n }}')
    intervals.FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    held = intervals.step_coverage(left_out)
    print(f"intervals of the other sources hold {100 * held['inside']:.0f} % of left-out rows,", end=" ")
    print(f"median width {held['median_width_percent']:.0f} %")


def _listed(found: Mapping[str, Scatter | PairScatter]) -> dict[str, dict[str, Any]]:
    return {kind: asdict(entry) for kind, entry in found.items()}


def _fit(rows: PublishedRows) -> None:
    stacks = sorted({run.candidate.strategy.software_stack for run in rows.runs})
    fit = Fit.start(rows, unknowns(stacks))
    print("before:", _score(rows, fit.seconds))
    for _ in range(ROUNDS):
        fit = fit.refined()
    print("after:", _score(rows, fit.seconds))
    whole = changes(fit.unknowns, fit.values)
    left = {}
    seconds = fit.seconds.copy()
    for source in sorted(set(rows.sources[rows.weights > 0].tolist())):
        own = rows.sources == source
        mine = changes(fit.unknowns, fit.solved(~own))
        left[source] = {path: value for path, value in mine.items() if value != whole[path]}
        seconds[own] = rows.of(source).seconds(mine)
    print("left out:", _score(rows, seconds))
    _write(whole)
    lines = ",\n".join(f'  "{source}": {json.dumps(values)}' for source, values in left.items())
    about = "Constants that the other sources give."
    text = f'{{\n "about": "{about}",\n "sources": {{\n{lines}\n }}\n}}\n'
    LEFT_OUT.write_text(text, encoding="utf-8")


def _score(rows: PublishedRows, seconds: Array) -> str:
    errors = np.abs(seconds / rows.measured - 1.0) * 100.0
    means = [errors[rows.sources == source].mean() for source in sorted(set(rows.sources.tolist()))]
    return f"mean of sources {np.mean(means):.2f} %, median row {np.median(errors):.2f} %"


def _write(values: dict[str, float]) -> None:
    for table, file in FILES.items():
        text = file.read_text(encoding="utf-8")
        data: Any = json.loads(text)
        for path, value in values.items():
            kind, name, field = path.split("/")
            if kind == table and not (kind == "stacks" and field not in data["stacks"][name]):
                text = _replaced(text, data, table, name, field, value)
        json.loads(text)
        file.write_text(text, encoding="utf-8")


def _replaced(text: str, data: Any, table: str, name: str, field: str, value: float) -> str:
    """`text` with one number changed: the first `field` after the entry's own name."""
    mark = f'"gpu": "{name}"' if table == "cards" else f'"{name}":'
    start = text.index(mark)
    key = f'"{field}": '
    begin = text.index(key, start) + len(key)
    end = begin
    while text[end] not in ",}\n ":
        end += 1
    return f"{text[:begin]}{value!r}{text[end:]}"


if __name__ == "__main__":
    main(sys.argv[1:])
