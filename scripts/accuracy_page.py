"""Write ``docs/accuracy.md`` from what the benchmarks print.

python -m benchmarks.accuracy --json benchmarks/data/published_runs.csv > accuracy.json
python -m benchmarks.regret --json benchmarks/data/published_runs.csv benchmarks/data/published_oom.csv > regret.json
python scripts/accuracy_page.py accuracy.json regret.json
"""  # noqa: E501

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

KEYS = ("mape_by_source_mean", "median_ape")
PAGE = Path(__file__).resolve().parents[1] / "docs" / "accuracy.md"


def page(accuracy: dict[str, Any], regret: dict[str, Any]) -> str:
    """The page of one run of `benchmarks.accuracy` and one of `benchmarks.regret`."""
    step, rows = accuracy["step"], accuracy["rows"]
    left = step["left_out"]
    lines = [
        "# Accuracy of the step time",
        "",
        "Written by `scripts/accuracy_page.py` from `benchmarks.accuracy` and `benchmarks.regret`; errors of",
        "the step time in percent. *Fitted*: constants fitted on all rows. *Left out*: without the source.",
        "",
        f"Priced {rows['priced']} of {rows['read']} published rows ({rows['complete']} complete, "
        f"{rows['imputed']} with blanks filled by rule), refused {rows['refused']}.",
        "",
        "| rows | count | mean of sources, fitted | median row, fitted | mean of sources, left out "
        "| median row, left out |",
        "|---|---|---|---|---|---|",
    ]
    for name, fitted, without in (
        ("all", step, left),
        ("complete", step["complete"], left["complete"]),
        ("imputed", step["imputed"], left["imputed"]),
        ("dense", step["dense"], None),
        ("mixture of experts", step["moe"], None),
    ):
        numbers = [f"{fitted[key]:.2f}" for key in ("mape_by_source_mean", "median_ape")]
        numbers += [
            "" if without is None else f"{without[k]:.2f}" for k in ("mape_by_source_mean", "median_ape")
        ]
        lines.append(f"| {name} | {fitted['rows']} | " + " | ".join(numbers) + " |")
    lines += [
        "",
        "| source | rows | fitted | bias | left out | bias | Spearman |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, one in step["by_source"].items():
        other = left["by_source"][name]
        lines.append(
            f"| {name} | {one['rows']} | {one['mape']:.1f} | {one['bias']:+.1f} | {other['mape']:.1f} | "
            f"{other['bias']:+.1f} | {one['spearman'] or 0:.3f} |"
        )
    lines += [
        "",
        f"80 % intervals drawn from the other sources hold {100 * step['interval']['inside']:.0f} % of the "
        f"rows; their median width is {step['interval']['median_width_percent']:.0f} % of the step time.",
        "",
        f"Choice among measured layouts: {regret['regret']['groups']} groups, mean regret "
        f"{regret['regret']['mean']:.2f} %, worst {regret['regret']['max']:.2f} %, mean Spearman "
        f"{regret['spearman']['mean']:.3f}.",
        "",
        "| source | fit | groups | mean regret | mean Spearman |",
        "|---|---|---|---|---|",
        *_choices(regret["by_source"]),
        "",
        *(
            f"Lines of one layout of {source} scatter by {one['percent']:.1f} %: "
            f"a ledger without error would have a mean Spearman of {one['spearman']:.3f}."
            for source, one in regret["noise"].items()
        ),
        "",
        "Left-out figures refit the constants of `benchmarks/data/step_priors.json` alone; the form of the",
        "model, the curves of cards and the constants of the host were chosen with all rows in view.",
    ]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _choices(fits: dict[str, Any]) -> list[str]:
    """Lines of the choice among layouts: a source under the catalogue's constants, and left out."""
    return [
        f"| {source} | {fit.replace('_', ' ')} | {one['groups']} | {one['regret']:.2f} "
        f"| {one['spearman']:.3f} |"
        for fit, sources in fits.items()
        for source, one in sources.items()
    ]


if __name__ == "__main__":
    found = [json.loads(Path(file).read_text(encoding="utf-8")) for file in sys.argv[1:3]]
    PAGE.write_text(page(*found), encoding="utf-8")
