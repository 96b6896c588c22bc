"""Write ``docs/curves.md`` from `benchmarks.efficiency` and `benchmarks.groups`.

python scripts/curves_page.py
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import efficiency, groups  # noqa: E402

PAGE = ROOT / "docs/curves.md"
POINTS = ROOT / "benchmarks/data/efficiency.csv"
COLUMNS = (
    ("products", ("bf16",), "bf16"),
    ("products", ("fp8", "fp8_blockwise", "mxfp8"), "8-bit"),
    ("products", ("fp4",), "4-bit"),
    ("attention", (), "attention"),
    ("collectives", (), "collectives"),
)

HEAD = (
    "Written by `scripts/curves_page.py` from `benchmarks.efficiency` and `benchmarks.groups`: mean error of",
    "speed or bus rate in percent, each measured point predicted without itself. Products are predicted by",
    "curves fitted to other shapes, attention and collectives (1 MiB and more) by tables without that length",
    "or size, collectives of a second source by the table of the first.",
)
NOTES = (
    "L40S is bound by its power: 1.8 pJ a FLOP at 350 W let 197 TFLOP/s of bf16 stand, short measurements",
    "reach 258; `gemm.json` holds the energy and the time its clock takes to settle (0.08 s). Its eight",
    "cards have no peer-to-peer copies, and single sizes of their table run at 1.7 times the rate of their",
    "neighbours. The second source of A100 collectives is one process that drives eight cards.",
)


def page() -> str:
    """The page of today's curves."""
    found, beyond = efficiency.measure([str(POINTS)]), groups.measure([str(POINTS)])
    return "\n".join(line.rstrip() for line in [*_curves(found), "", *_groups(beyond)]) + "\n"


def _curves(found: dict[str, Any]) -> Iterator[str]:
    yield "# Accuracy of the cards' curves"
    yield ""
    yield from HEAD
    yield ""
    yield "| card | " + " | ".join(title for *_, title in COLUMNS) + " |"
    yield "|---" * (len(COLUMNS) + 1) + "|"
    cards = {line["card"] for group in found["groups"].values() for line in group["cards"]}
    for card in sorted(cards):
        cells = [_cell(found["groups"][group]["cards"], card, kinds) for group, kinds, _ in COLUMNS]
        yield f"| {card} | " + " | ".join(cells) + " |"
    yield ""
    yield from NOTES


def _cell(lines: list[dict[str, Any]], card: str, kinds: tuple[str, ...]) -> str:
    """Mean error over the points of a card."""
    mine = [line for line in lines if line["card"] == card and (not kinds or line["arithmetic"] in kinds)]
    rows = sum(line["rows"] for line in mine)
    return f"{sum(line['mape'] * line['rows'] for line in mine) / rows:.1f}" if rows else ""


def _groups(found: dict[str, Any]) -> Iterator[str]:
    yield "## Groups beyond one NVLink island"
    yield ""
    judged = f"{found['within']} of {found['judged']}"
    yield f"Between nodes or over PCI Express {judged} bus rates are within 15 %:"
    yield "those that stand in a table or gave a card its rate, 28 that four constants were fitted to, and"
    yield f"{found['unseen']} that nothing was taken from, of which {found['unseen_within']} are within."
    yield ""
    yield "| card | collective | shape | predicted GB/s | measured | error % | known by | not judged |"
    yield "|---|---|---|---|---|---|---|---|"
    far = [line for line in found["lines"] if abs(line["error"]) > 10 or line["note"]]
    for line in far:
        numbers = f"{line['predicted']:.1f} | {line['measured']:.1f} | {line['error']:+.1f}"
        words = (line["card"], line["kind"], line["shape"], numbers, line["known"], line["note"])
        yield f"| {' | '.join(words)} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
