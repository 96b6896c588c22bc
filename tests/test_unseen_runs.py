"""Runs to which no constant is fitted: what the ledger says of other people's machines."""

from __future__ import annotations

import csv
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from benchmarks import accuracy
from shardwise.runs.priced import read_rows
from shardwise.runs.record import read_records

ROOT = Path(__file__).parents[1]
DATA = ROOT / "benchmarks" / "data"
UNSEEN, BLIND, PUBLISHED = DATA / "unseen_runs.csv", DATA / "blind_runs.csv", DATA / "published_runs.csv"
LEAST = {UNSEEN: (300, 10), BLIND: (200, 15)}
"""Rows and sources that a file has at least."""
REFUSED = {
    UNSEEN: {},
    BLIND: {
        "mlperf_llama2_70b_lora-027": "cluster",
        **dict.fromkeys(("hf_docs_titan-001", "hf_docs_titan-002"), "precision"),
    },
}
"""Rows that may be refused, with what is missing: a node of eight H200-NVL, FP32 on TITAN RTX."""
PAGES = {"CHANGELOG.md", "README.md", "benchmarks/data/README.md", "tests/test_unseen_runs.py"}
MAY_NAME = {
    UNSEEN: {
        *PAGES,
        "scripts/constants.py",
        "tests/test_benchmarks.py",
        "tests/test_other_software.py",
        "tests/test_published_speed.py",
    },
    BLIND: PAGES,
}
"""Files that speak of the rows; none of them fits a constant to them."""


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """What `benchmarks.accuracy` says of the rows."""
    result: dict[str, Any] = accuracy.measure([str(UNSEEN)])
    return result


def head(path: Path) -> list[str]:
    """The columns of a file."""
    with path.open(encoding="utf-8", newline="") as file:
        return next(csv.reader(file))


def sources(path: Path) -> set[str]:
    """The sources of a file."""
    return {line.text("source") for line in read_records(path)}


@pytest.mark.parametrize("path", LEAST, ids=lambda path: path.stem)
def test_the_rows_have_the_columns_of_the_fitted_ones_and_other_sources(path: Path) -> None:
    """Same head, no source of another file, every row with its reference, its notes and one identity."""
    lines = read_records(path)
    rows, found_in = LEAST[path]

    assert head(path) == head(PUBLISHED)
    assert all(not sources(path) & sources(other) for other in (UNSEEN, BLIND, PUBLISHED) if other != path)
    assert len(lines) >= rows
    assert len(sources(path)) >= found_in
    assert all(line.text("source_ref") and line.text("notes") is not None for line in lines)
    assert len({line.name for line in lines}) == len(lines)


def test_every_blind_row_has_a_measure_and_says_what_was_derived() -> None:
    """A step time, a rate or a peak stands in each, and no note is empty."""
    measured = ("step_time_s", "tokens_per_s_per_gpu", "peak_mem_gib")
    lines = read_records(BLIND)

    assert [line.name for line in lines if not any(line.number(column) for column in measured)] == []
    assert [line.name for line in lines if not line.text("notes")] == []


@pytest.mark.parametrize("path", LEAST, ids=lambda path: path.stem)
def test_no_fit_reads_the_rows(path: Path) -> None:
    """No other file names them, and no fitted constant has such a source: intervals of peaks alone do."""
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    speaking = {
        name
        for name in tracked.split()
        if name.endswith((".py", ".md", ".json", ".toml", ".yml", ".sh", "Makefile"))
        and path.name in (ROOT / name).read_text(encoding="utf-8", errors="replace")
    }
    memory = json.loads((ROOT / "costs" / "catalogue" / "law_memory.json").read_text(encoding="utf-8"))
    left_out = json.loads((DATA / "left_out.json").read_text(encoding="utf-8"))["sources"]

    assert speaking <= MAY_NAME[path]
    assert not sources(path) & set(left_out)
    assert not any(source in entry["source"] for entry in memory.values() for source in sources(path))


@pytest.mark.parametrize("path", LEAST, ids=lambda path: path.stem)
def test_every_row_is_read(path: Path) -> None:
    """However its card, precision or link is spelled, no row is refused but those known."""
    refused = {r.record.name: r.code for r in read_rows(read_records(path))[1]}

    assert refused.items() <= REFUSED[path].items()


def test_a_file_of_nonsense_is_reported_not_crashed_on(tmp_path: Path) -> None:
    """Every measured cell in turn is no number; each line is refused with a reason, the rest is scored."""
    with UNSEEN.open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))[:5]
    odd = [
        {**line, "id": f"{line['id']}-{column}-{text}", column: text}
        for line in lines[:1]
        for column in ("step_time_s", "tokens_per_s_per_gpu", "peak_mem_gib", "mfu_pct", "gpus", "year")
        for text in ("OOM", "inf", "-3")
    ]
    path = tmp_path / "runs.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, head(UNSEEN))
        writer.writeheader()
        writer.writerows([*lines, *odd])
    told = accuracy.measure([str(path)])

    assert told["rows"]["read"] == len(lines) + len(odd)
    assert told["rows"]["priced"] == len(lines) + 3
    assert len(told["refusals"]) == len(odd) - 3
    assert accuracy.text(told)


def test_dense_recipes_of_nvidia_are_foretold(found: dict[str, Any]) -> None:
    """Llama 3.1 and Nemotron pre-training on H100, NeMo 24.09: 15 % each, 6 % on average."""
    known = {line.name: line for line in read_records(UNSEEN)}
    errors = [
        abs(line["step_error"])
        for line in found["lines"]
        if known[line["id"]].text("framework") == "NeMo 24.09" and not known[line["id"]].integer("experts")
    ]

    assert len(errors) >= 30
    assert max(errors) <= 15
    assert sum(errors) / len(errors) <= 6


def test_sources_that_nobody_fitted_are_foretold_in_the_main(found: dict[str, Any]) -> None:
    """Half the rows within 15 %, order kept; the worst sources are told in the data's README."""
    step = found["step"]

    assert step["rows"] >= 300
    assert step["median_ape"] <= 15
    assert step["spearman"] >= 0.97
