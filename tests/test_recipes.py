"""Published recipes: which one a row takes, and what it says of the row."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from shardwise.models.stack import stacks
from shardwise.runs import Record, read_row
from shardwise.runs.facts import facts
from shardwise.runs.recipes import recipe_of, recipes
from shardwise.runs.software import FAMILY

RELEASES = facts("recipes")["releases"]

QWEN = {
    "id": "row",
    "source": "nobody",
    "year": "2026",
    "gpu": "GB300-288GB",
    "gpus": "8",
    "gpus_per_node": "4",
    "framework": "Megatron-Bridge/Megatron-Core",
    "layers": "48",
    "hidden": "2048",
    "heads": "32",
    "kv_heads": "4",
    "ffn_hidden": "768",
    "ffn_type": "swiglu",
    "vocab": "151936",
    "experts": "128",
    "experts_topk": "8",
    "seq_len": "4096",
    "global_batch_seqs": "512",
    "micro_batch_seqs": "8",
    "tp": "1",
    "pp": "1",
    "cp": "1",
    "ep": "8",
    "zero_stage": "1",
    "precision": "mxfp8",
    "step_time_s": "5.79",
    "notes": "release 26.06; pretraining",
}


def row(**changes: str) -> Record:
    return Record({**QWEN, **changes})


def test_every_recipe_names_a_stack_of_the_catalogue() -> None:
    assert {f"{FAMILY}-{recipe.switches.name}" for recipe in recipes()} <= stacks().keys()


def test_every_release_is_known_and_every_line_has_its_commit() -> None:
    for recipe in recipes():
        assert set(recipe.cells["releases"].split()) <= set(RELEASES)
        assert len(recipe.cells["commit"]) == 40
        assert recipe.cells["path"].endswith(".py")


@pytest.mark.parametrize("index", range(0, 600, 37))
def test_a_row_that_is_a_recipe_takes_it(index: int) -> None:
    known = {"qwen3_30b_a3b": ("48", "2048", "128"), "deepseek_v3": ("61", "7168", "256")}
    mine = [recipe for recipe in recipes() if recipe.cells["model"] in known]
    cells = mine[index % len(mine)].cells
    layers, hidden, experts = known[cells["model"]]
    words = {"fp8cs": "fp8", "fp8mx": "mxfp8"}
    record = row(
        layers=layers,
        hidden=hidden,
        experts=experts,
        gpu=cells["gpu"].upper(),
        gpus=cells["gpus"],
        precision=words.get(cells["precision"], cells["precision"]),
        notes=f"release {cells['releases'].split()[0]}",
        **{
            key: cells[key]
            for key in ("tp", "pp", "vpp", "cp", "ep", "micro_batch_seqs", "global_batch_seqs")
        },
    )
    found, away = recipe_of(record)
    assert away == 0
    same = ("model", "gpu", "precision", "tp", "pp", "ep", "micro_batch_seqs", "global_batch_seqs", "gpus")
    assert all(found.cells[key] == cells[key] for key in same)


def test_release_and_layout_weigh_alike_and_the_layout_breaks_ties() -> None:
    """Steps away are degrees and releases together: an independent count over all recipes of the model."""
    for release, micro in product(("25.11", "26.02", "26.06"), ("1", "4", "8")):
        record = row(notes=f"release {release}", micro_batch_seqs=micro)
        found, away = recipe_of(record)
        costs = []
        for recipe in recipes():
            cells = recipe.cells
            if (cells["model"], cells["gpu"], cells["precision"]) == ("qwen3_30b_a3b", "gb300", "fp8mx"):
                asked = {"tp": "1", "pp": "1", "cp": "1", "ep": "8", "micro_batch_seqs": micro}
                off = sum((cells[key] or "1") != value for key, value in asked.items())
                near = min(
                    abs(RELEASES.index(w) - RELEASES.index(release)) for w in cells["releases"].split()
                )
                costs.append(off + near)
        assert away == min(costs), found.name


def test_a_model_without_recipes_takes_one_of_its_card_and_precision() -> None:
    found, away = recipe_of(row(layers="40", hidden="3072"))
    assert away > 0
    assert (found.cells["gpu"], found.cells["precision"]) == ("gb300", "fp8mx")


def test_a_release_nobody_knows_is_the_last() -> None:
    assert recipe_of(row(notes="release 31.01"))[0] is recipe_of(row(notes=f"release {RELEASES[-1]}"))[0]


def test_the_job_says_which_recipe_and_how_near() -> None:
    assert any(note.startswith("recipe qwen3_30b_a3b gb300") and "its own" in note for note in notes(row()))
    assert any("steps away" in note for note in notes(row(micro_batch_seqs="2")))


def notes(record: Record) -> tuple[str, ...]:
    return read_row(record).stand_ins


def test_a_recipe_fills_interleaving_and_recompute() -> None:
    deepseek = {
        "layers": "61",
        "hidden": "7168",
        "heads": "128",
        "kv_heads": "128",
        "ffn_hidden": "2048",
        "vocab": "129280",
        "experts": "256",
        "gpu": "GB200-192GB",
        "gpus": "256",
        "pp": "4",
        "ep": "64",
        "micro_batch_seqs": "1",
        "global_batch_seqs": "4096",
    }
    job = read_row(row(**deepseek))
    chosen = {
        (c.strategy.virtual_pipeline, c.strategy.stages[0].recompute_selective_layers > 0)
        for c in job.candidates
    }
    assert chosen == {(4, True)}
    assert "vpp" not in job.imputed and "recompute" in job.imputed
    assert {"vpp", "recompute"} <= set(read_row(row(**{**deepseek, "ep": "32"})).imputed)
    other = read_row(row(**deepseek, vpp="2", recompute="none"))
    assert {c.strategy.virtual_pipeline for c in other.candidates} == {2}
    assert not np.any([s.recompute_selective_layers for c in other.candidates for s in c.strategy.stages])
