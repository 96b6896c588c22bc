"""Runs of many more sources: which are fitted, what the others foretell of each, and the blind ones."""

from __future__ import annotations

import csv
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from benchmarks import accuracy
from benchmarks.fit import priors, trusted
from shardwise.models import Transformer, training_flops_per_token
from shardwise.runs.predictors import counted_flops_per_token, trained_modules
from shardwise.runs.priced import read_rows
from shardwise.runs.record import read_records
from shardwise.runs.rows import has_time

ROOT = Path(__file__).parents[1]
DATA = ROOT / "benchmarks" / "data"
MORE, PUBLISHED = DATA / "more_runs.csv", DATA / "published_runs.csv"
BLIND, SECOND, THIRD = DATA / "blind_runs.csv", DATA / "second_blind_runs.csv", DATA / "third_blind_runs.csv"
OOMS = (DATA / "blind_oom.csv", DATA / "third_blind_oom.csv")
BLINDS = (BLIND, SECOND, THIRD, *OOMS)
LEAST = {MORE: (300, 10), BLIND: (200, 15), SECOND: (120, 15), THIRD: (120, 20)}
"""Rows and sources that a file has at least."""
REFUSED = {
    MORE: {},
    BLIND: dict.fromkeys(("hf_docs_titan-001", "hf_docs_titan-002"), "precision"),
    SECOND: {},
    THIRD: {"mlperf51_llama2_70b_lora-003": "unknown-gpu"},
}
"""Rows that may be refused, with what is missing: FP32 on TITAN RTX, MI350X in the catalogue."""
MAY_NAME = {
    "CHANGELOG.md",
    "README.md",
    "benchmarks/data/README.md",
    "scripts/constants.py",
    "tests/test_more_runs.py",
}
"""Files that speak of the blind rows; none of them fits a constant to them, one draws the peak's interval."""


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """What `benchmarks.accuracy` says of the rows."""
    result: dict[str, Any] = accuracy.measure([str(MORE)])
    return result


def head(path: Path) -> list[str]:
    """The columns of a file."""
    with path.open(encoding="utf-8", newline="") as file:
        return next(csv.reader(file))


def sources(path: Path) -> set[str]:
    """The sources of a file."""
    return {line.text("source") for line in read_records(path)}


def left_out() -> set[str]:
    """Sources that a fit was made without."""
    return set(json.loads((DATA / "left_out.json").read_text(encoding="utf-8"))["sources"])


@pytest.mark.parametrize("path", LEAST, ids=lambda path: path.stem)
def test_the_rows_have_the_columns_of_the_fitted_ones_and_other_sources(path: Path) -> None:
    """Same head, no source of another file, every row with its reference, its notes and one identity."""
    lines = read_records(path)
    rows, found_in = LEAST[path]

    assert head(path) == head(PUBLISHED)
    assert all(not sources(path) & sources(other) for other in (*LEAST, PUBLISHED) if other != path)
    assert len(lines) >= rows
    assert len(sources(path)) >= found_in
    assert all(line.text("source_ref") and line.text("notes") is not None for line in lines)
    assert len({line.name for line in lines}) == len(lines)


@pytest.mark.parametrize("path", (BLIND, SECOND, THIRD), ids=lambda path: path.stem)
def test_every_blind_row_has_a_measure_and_says_what_was_derived(path: Path) -> None:
    """A step time, a rate or a peak stands in each, and no note is empty."""
    measured = ("step_time_s", "tokens_per_s_per_gpu", "peak_mem_gib")
    lines = read_records(path)

    assert [line.name for line in lines if not any(line.number(column) for column in measured)] == []
    assert [line.name for line in lines if not line.text("notes")] == []


@pytest.mark.parametrize("path", OOMS, ids=lambda path: path.stem)
def test_every_blind_row_out_of_memory_says_so(path: Path) -> None:
    """The columns of the runs, no measure beside the word, a reference and one identity for each."""
    measured = ("step_time_s", "tokens_per_s_per_gpu", "peak_mem_gib")
    lines = read_records(path)

    assert head(path) == head(PUBLISHED)
    assert len(lines) >= 8
    assert all(line.text("notes").startswith("OOM") and line.text("source_ref") for line in lines)
    assert [line.name for line in lines if any(line.number(column) for column in measured)] == []
    assert len({line.name for line in lines}) == len(lines)


@pytest.mark.parametrize("path", BLINDS, ids=lambda path: path.stem)
def test_no_fit_reads_the_blind_rows(path: Path) -> None:
    """No other file names them, and no fitted constant has such a source."""
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    speaking = {
        name
        for name in tracked.split()
        if name.endswith((".py", ".md", ".json", ".toml", ".yml", ".sh", "Makefile"))
        and path.name in (ROOT / name).read_text(encoding="utf-8", errors="replace")
    }
    memory = json.loads((ROOT / "costs" / "catalogue" / "law_memory.json").read_text(encoding="utf-8"))

    assert speaking <= MAY_NAME
    assert not sources(path) & left_out()
    assert not any(source in entry["source"] for entry in memory.values() for source in sources(path))


def test_every_fitted_source_is_left_out_once() -> None:
    """Each source of either file whose timed rows a fit trusts has the constants that the others give."""
    jobs, _ = read_rows([*read_records(MORE), *read_records(PUBLISHED)])

    assert {j.record.text("source") for j in jobs if has_time(j.record) and trusted(j.record)} == left_out()


def test_what_no_fit_trusts_is_in_the_files_and_says_why() -> None:
    """Rows and sources that the priors leave out exist, each with a reason; they are few."""
    lines = [*read_records(MORE), *read_records(PUBLISHED)]
    aside = priors()["left_out_of_fits"]

    assert set(aside) <= {line.name for line in lines} | {line.text("source") for line in lines}
    assert all(len(why) > 20 for why in aside.values())
    assert sum(not trusted(line) for line in lines) <= 0.12 * len(lines)


@pytest.mark.parametrize("path", LEAST, ids=lambda path: path.stem)
def test_every_row_is_read(path: Path) -> None:
    """However its card, precision or link is spelled, no row is refused but those known."""
    refused = {r.record.name: r.code for r in read_rows(read_records(path))[1]}

    assert refused.items() <= REFUSED[path].items()


def test_a_file_of_nonsense_is_reported_not_crashed_on(tmp_path: Path) -> None:
    """Every measured cell in turn is no number; each line is refused with a reason, the rest is scored."""
    with MORE.open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))[:5]
    odd = [
        {**line, "id": f"{line['id']}-{column}-{text}", column: text}
        for line in lines[:1]
        for column in ("step_time_s", "tokens_per_s_per_gpu", "peak_mem_gib", "mfu_pct", "gpus", "year")
        for text in ("OOM", "inf", "-3")
    ]
    path = tmp_path / "runs.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, head(MORE))
        writer.writeheader()
        writer.writerows([*lines, *odd])
    told = accuracy.measure([str(path)])

    assert told["rows"]["read"] == len(lines) + len(odd)
    assert told["rows"]["priced"] == len(lines) + 3
    assert len(told["refusals"]) == len(odd) - 3
    assert accuracy.text(told)


def test_dense_recipes_of_nvidia_are_foretold(found: dict[str, Any]) -> None:
    """Llama 3.1 and Nemotron pre-training on H100, NeMo 24.09: 15 % each, 6 % on average."""
    known = {line.name: line for line in read_records(MORE)}
    errors = [
        abs(line["step_error"])
        for line in found["lines"]
        if known[line["id"]].text("framework") == "NeMo 24.09" and not known[line["id"]].integer("experts")
    ]

    assert len(errors) >= 30
    assert max(errors) <= 15
    assert sum(errors) / len(errors) <= 6


def test_sources_are_foretold_by_the_others(found: dict[str, Any]) -> None:
    """Each under the constants that the others give: half the rows within 12 %, order kept."""
    step = found["step"]["left_out"]

    assert step["rows"] >= 300
    assert step["median_ape"] <= 12
    assert step["spearman"] >= 0.97


def test_published_flops_tell_which_runs_trained_a_predictor() -> None:
    """FLOP/s of every row of DeepSeek-V3 by NVIDIA's recipes are our count, with the module or without.

    4 % lie between both. Runs of release 25.11 of Megatron-Bridge on GB200 and GB300 went without.
    """
    model = Transformer.preset("deepseek-v3")
    known = {n: training_flops_per_token(model.predicting(n), 4096) for n in (0, 1)}
    rows = [row for file in (PUBLISHED, MORE) for row in read_records(file)]
    told = {
        row.name: (trained_modules(row, model), counted)
        for row in rows
        if row.text("layers") == "61" and (counted := counted_flops_per_token(row)) is not None
    }

    assert len(told) == 16
    assert all(abs(counted / known[modules] - 1) < 0.006 for modules, counted in told.values())
    without = {
        name.removeprefix("nvidia_megatron_bridge-") for name, (modules, _) in told.items() if not modules
    }
    assert without == {"059", "060", "067", "068"}
