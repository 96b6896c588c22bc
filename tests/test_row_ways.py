"""Published rows are priced in the way they were trained."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardwise.runs.priced import price_jobs
from shardwise.runs.record import COLUMNS, Record, read_records
from shardwise.runs.rows import read_row
from shardwise.runs.software import software_of
from shardwise.runs.ways import way_of_row

RUNS = Path(__file__).parents[1] / "benchmarks" / "data" / "published_runs.csv"


def row(**cells: str) -> Record:
    """A row of which only some cells are said."""
    return Record(dict.fromkeys(COLUMNS, "") | cells)


@pytest.mark.parametrize(
    ("cells", "fields"),
    [
        ({"optimizer": "adam fp32 states"}, {"optimizer": "adamw", "master_weights": True}),
        ({"optimizer": "adam bf16 states", "framework": "Megatron-LM"}, {"optimizer": "adamw-bf16"}),
        (
            {"optimizer": "adam bf16 states", "framework": "torchtune"},
            {"optimizer": "adamw", "master_weights": False},
        ),
        ({"optimizer": "other", "notes": "paged 8-bit AdamW"}, {"optimizer": "paged-adamw-8bit"}),
        ({"optimizer": "other", "notes": "optimizer in backward"}, {"optimizer_in_backward": True}),
        ({"optimizer": "Adafactor"}, {"optimizer": "adafactor"}),
        ({"notes": "QLoRA, rank 64"}, {"trainable": "qlora(64)"}),
        ({"framework": "torchtune LoRA", "notes": "r = 8"}, {"trainable": "lora(8)"}),
        ({"trainable": "0.25", "notes": "LoRA"}, {"trainable": 0.25}),
        ({"notes": "full SFT, SQuAD packed to 4096"}, {"mean_document_length": 200}),
    ],
)
def test_columns_and_notes_name_the_way(cells: dict[str, str], fields: dict[str, object]) -> None:
    """Optimizer, copies and what is trained; a column goes before the notes."""
    line = row(**cells)
    found = way_of_row(line, software_of(line)).fields
    assert {name: found[name] for name in fields} == fields


def test_a_rank_nobody_said_makes_the_row_imputed() -> None:
    """16 stands in."""
    line = row(notes="LoRA on all linears")
    way = way_of_row(line, software_of(line))
    assert way.fields["trainable"] == "lora(16)" and way.imputed == ("trainable",)


def test_matrices_nobody_named_are_those_of_the_softwares_own_recipe() -> None:
    """NeMo since 2024 adapts linear_qkv where tuned for speed; notes and other software are as they say."""
    nemo = {"framework": "NeMo/Megatron-Core", "year": "2024"}
    cells = (
        {**nemo, "notes": "LoRA, SQuAD packed to 4096"},
        {**nemo, "notes": "LoRA rank 16 on o_proj"},
        {"framework": "HF Transformers (PEFT)", "notes": "LoRA rank 16"},
    )
    found = [
        way_of_row(line, software_of(line)).fields.get("lora_targets") for line in (row(**c) for c in cells)
    ]
    assert found == [["q_proj", "k_proj", "v_proj"], ["o_proj"], None]


@pytest.mark.tree
def test_lines_of_the_cumulative_table_keep_what_earlier_lines_brought() -> None:
    """torchtune-004 keeps all gradients; from 005 on each is used as it comes."""
    lines = {line.name: line for line in read_records(RUNS) if line.text("source") == "torchtune"}
    found = [
        way_of_row(lines[f"torchtune-00{n}"], software_of(lines[f"torchtune-00{n}"])).fields
        for n in (4, 5, 7)
    ]
    assert [fields["optimizer_in_backward"] for fields in found] == [False, True, True]
    assert found[2]["optimizer"] == "adamw-8bit"


@pytest.mark.tree
def test_pure_16_bit_training_is_priced_as_measured() -> None:
    """Seven lines of one table, 60 to 17.6 GiB: the mean error is at most 6 %, and all lie within 13 %."""
    names = [f"torchtune-00{n}" for n in range(1, 8)]
    jobs = [read_row(line) for line in read_records(RUNS) if line.name in names]
    errors = [run.gib / (run.job.measured_gib or 1) - 1 for run in price_jobs(jobs)]
    assert len(errors) == 7
    assert max(map(abs, errors)) < 0.13
    assert sum(map(abs, errors)) / 7 < 0.06
