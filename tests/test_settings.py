"""Settings of published runs that stand in their authors' scripts fill blank cells, and only those."""

from __future__ import annotations

from typing import Any

import pytest

from shardwise.runs.facts import facts
from shardwise.runs.record import Record
from shardwise.runs.settings import completed

ENTRIES: list[dict[str, Any]] = facts("settings")["entries"]
TOLD = {"framework": "Megatron-LM", "layers": "80", "hidden": "12288", "tp": "8", "pp": "8"}


def filled(**cells: str) -> tuple[Record, tuple[str, ...]]:
    """The 145B row of arXiv 2104.04473, Table 1, with some cells changed."""
    return completed(Record({**TOLD, "global_batch_seqs": "2304", **cells}))


def test_blank_cells_are_told_by_the_script() -> None:
    """Micro-batches of two, five layers of ten a virtual stage."""
    record, notes = filled()
    assert (record.text("micro_batch_seqs"), record.text("vpp")) == ("2", "2")
    assert notes and all("run_table_1.sh" in note for note in notes)


def test_what_a_row_gives_stays() -> None:
    """A row that says one chunk keeps it."""
    record, notes = filled(vpp="1")
    assert record.text("vpp") == "1"
    assert not any(note.startswith("vpp") for note in notes)


@pytest.mark.parametrize(
    "cells", [{"pp": "10"}, {"hidden": "12289"}, {"global_batch_seqs": "2305"}, {"framework": "torchtitan"}]
)
def test_another_run_is_left_alone(cells: dict[str, str]) -> None:
    """A layout, a width, a batch or a framework apart from the script's tells nothing."""
    record, notes = filled(**cells)
    assert record.text("micro_batch_seqs") == record.text("vpp") == ""
    assert notes == ()


def test_defaults_of_a_trainer_are_told_by_its_own_code() -> None:
    """XTuner and ms-swift recompute unless told not to; a row that says none keeps it."""
    for framework in ("XTuner (HF + DeepSpeed)", "HF Trainer (swift)"):
        assert completed(Record({"framework": framework}))[0].text("recompute") == "full"
        assert completed(Record({"framework": framework, "recompute": "none"}))[0].text("recompute") == "none"


@pytest.mark.parametrize(
    "entry", [e for e in ENTRIES if "pp" in e["of"]], ids=lambda entry: str(entry["of"]["hidden"])
)
def test_chunks_divide_the_layers_of_a_stage(entry: dict[str, Any]) -> None:
    """What a script tells can run."""
    held, rest = divmod(entry["of"]["layers"], entry["of"]["pp"])
    assert rest == 0
    assert held % entry["told"].get("vpp", 1) == 0
    assert entry["source"]
