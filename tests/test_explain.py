"""Every field and every term can be explained, with the numbers the ledger has."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from shardwise.cli import main, tables
from shardwise.cli.schema import ALL
from shardwise.costs.glossary import term_names, term_text
from shardwise.inputs import InputError
from shardwise.plans.answer_words import answer_word, spellings
from shardwise.plans.fields import field_text
from shardwise.plans.schema import schema_of
from shardwise.plans.settings import FIELDS


@pytest.mark.parametrize("field", FIELDS)
def test_every_field_has_a_text(field: str) -> None:
    """Meaning, unit, default and source; none is empty."""
    found = field_text(field)

    assert found.field == field
    assert all([found.meaning, found.unit, found.default, found.source])


def test_defaults_are_those_of_the_types() -> None:
    """A default is read from the types, never written twice."""
    assert field_text("memory_margin").default == "0.08"
    assert field_text("optimizer").default == "adamw"


@pytest.mark.parametrize("term", term_names())
def test_every_term_has_a_formula(term: str) -> None:
    """Formula, source and unit come from the ledger's own notes."""
    found = term_text(term)

    assert all([found.formula, found.source, found.unit, found.grade])


def test_a_term_tells_the_ledgers_numbers() -> None:
    """Weights of 8.03e9 parameters in 16 bits are whole under ZeRO-2 and an eighth under ZeRO-3."""
    whole, cut = term_text("zero2.weights"), term_text("zero3.weights")

    assert whole.amounts[0].value == pytest.approx(2 * 8_030_261_248, rel=1e-3)
    assert cut.amounts[0].value == pytest.approx(2 * 8_030_261_248 / 8, rel=1e-2)


def test_an_unknown_name_is_refused() -> None:
    """A name that is no term comes with the nearest ones."""
    with pytest.raises(InputError, match="weights"):
        term_text("weight")


def test_words_of_an_answer_and_other_tools_names(capsys: pytest.CaptureFixture[str]) -> None:
    """What a screen prints can be asked for, and what DeepSpeed, Megatron or the Trainer call a field."""
    asked = {
        "mfu": "mfu: model FLOPs",
        "time.hfu": "hfu: as mfu",
        "per_device_train_batch_size": "choose.micro_batch_size:",
        "tensor-model-parallel-size": "choose.tensor_parallel:",
        "tp": "choose.tensor_parallel:",
        "zero": "choose.zero_stage:",
    }
    for word, told in asked.items():
        assert main(["explain", word]) == 0
        assert capsys.readouterr().out.startswith(told)


JOB = ("--global-batch-size", "16", "--sequence-length", "1024")
MODEL = ("qwen2.5-0.5b", "--cluster", "dgx-h100", *JOB)
MESSAGE = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
SCREENS = (
    ("plan", *MODEL, "-v", "-o", "plan.json"),
    ("plan", *MODEL, "-v", "--nodes", "2", "--set", "backend=megatron", "--set", "pipeline_parallel=2"),
    ("plan", *MODEL, "-v", "--set", "backend=fsdp", "--set", "offload_optimizer=cpu"),
    ("plan", *MODEL, "-v", "--set", "trainable=qlora(16)", "--set", "reference_model=self"),
    ("check", *MODEL, "--plan", "plan.json", "-v"),
    ("check", *MODEL, "--plan", "plan.json", "--message", "message.txt"),
    ("why", "plan.json", "micro_batch_size=1", "-v"),
    ("compare", *MODEL, "--vary", "nodes=1,2", "-v"),
    ("curve", *MODEL, "--gpus", "2..4", "-v"),
    ("ledger", "qwen2.5-0.5b", "--gpus", "8", "-v"),
    ("ledger", "30e9", "--gpus", "8", "--offload", "optimizer"),
    ("show", "model", "qwen3-30b-a3b", "-v"),
    ("show", "model", "t5-3b", "-v"),
    ("show", "cluster", "dgx-h100", "--set", "nodes=4", "-v"),
    *(("list", kind) for kind in ("models", "clusters", "gpus", "stacks", "optimizers")),
)
LABELLED = {
    "memory, worst stage", "time of a step", "hidden behind compute", "traffic of a card a step", "term, s",
    "term, ms", "expected at the backward", "expected at the forward",
}  # fmt: skip
"""Heads of tables whose first column holds names of the ledger."""


def printed(monkeypatch: pytest.MonkeyPatch, folder: Path) -> set[str]:
    """Heads of all tables of the screens, first columns of those of the ledger, and words of layouts."""
    words: set[str] = set()
    table, items = tables.table, tables.items

    def noted(header: Sequence[str], rows: Iterable[Sequence[object]], indent: str = "") -> str:
        kept = [list(row) for row in rows]
        words.update(head for head in header if head)
        if header[0] in LABELLED or (not header[0] and "ZeRO-3" in header):
            words.update(str(row[0]).strip() for row in kept)
        if header[0] == "traffic of a card a step":
            words.update(str(row[1]) for row in kept if row[1] != "all")
        return table(header, kept, indent)

    def told(parts: Iterable[str], indent: str = "  ", gap: str = "   ") -> str:
        kept = list(parts)
        if kept and kept[0] in ("deepspeed", "fsdp", "megatron"):
            words.update(kept)
        return items(kept, indent, gap)

    for name, module in list(sys.modules.items()):
        if name.startswith("shardwise.cli") and getattr(module, "table", None) is table:
            monkeypatch.setattr(module, "table", noted)
        if name.startswith("shardwise.cli") and getattr(module, "items", None) is items:
            monkeypatch.setattr(module, "items", told)
    monkeypatch.chdir(folder)
    (folder / "message.txt").write_text(MESSAGE, encoding="utf-8")
    for screen in SCREENS:
        assert main(list(screen)) in (0, 1), screen
    return words


def explained(word: str, capsys: pytest.CaptureFixture[str]) -> bool:
    """Whether a printed word can be asked for; of the words of a layout some beginning of them."""
    parts = re.sub(r" \(.*", "", word).split()
    spellings = [word, *(" ".join(parts[:n]) for n in range(len(parts) - 1, 0, -1) if parts[n][0].isdigit())]
    found = any(main(["explain", spelling]) == 0 for spelling in (*spellings, parts[0]))
    capsys.readouterr()
    return found


@pytest.mark.slow
def test_every_word_of_a_screen_can_be_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Heads of columns, terms, axes and tiers, words of a layout: what a screen prints, `explain` tells."""
    for module in (
        "answers_text",
        "check_text",
        "ledger_text",
        "list",
        "model_text",
        "plan_text",
        "show_cluster",
    ):
        __import__(f"shardwise.cli.{module}")
    words = printed(monkeypatch, tmp_path)
    capsys.readouterr()
    monkeypatch.undo()

    assert len(words) > 100
    assert not sorted(word for word in words if not explained(word, capsys))


@pytest.mark.parametrize("word", ["no overlap gradient reduce", "no overlap parameter gather"])
def test_a_switch_that_is_off_leads_to_its_field(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A layout prints "no" before what is off."""
    assert main(["explain", word]) == 0
    assert capsys.readouterr().out.startswith(f"choose.{word.removeprefix('no ').replace(' ', '_')}:")


def test_every_printed_spelling_leads_to_its_word() -> None:
    """No two words of an answer are printed alike, and each spelling finds the word it stands with."""
    for word, shown in spellings():
        found = answer_word(shown.replace("*", "8") if len(shown) > 1 else shown)
        assert found is not None and found.field == word, shown


def test_schedules_are_told_with_bubble_and_memory(capsys: pytest.CaptureFixture[str]) -> None:
    """Each on lines of its own."""
    assert main(["explain", "pipeline_schedule"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    for word in (
        "zb-h1: zero bubble",
        "bubble (p-1)(F+B-W)",
        "holds p+1 micro-batches, twice the parameters",
    ):
        assert word in told


def test_json_has_every_meaning_that_the_text_has(capsys: pytest.CaptureFixture[str]) -> None:
    """A word with several meanings is one object: the first, and the others under `also`."""
    several = 0
    for name in ("micro_batch_size", "recompute", "host", "step_seconds", "data_parallel", "memory"):
        if main(["explain", name]) != 0:
            continue
        text = capsys.readouterr().out
        assert main(["explain", name, "--json"]) == 0
        first = json.loads(capsys.readouterr().out)
        told = [first, *first["also"]]
        several += len(told) > 1
        heads = [each.get("field") or each["term"] for each in told]
        assert all(re.search(rf"^{re.escape(head)}( =|:)", text, re.MULTILINE) for head in heads)
        assert len(re.findall(r"^\S+( =|:) ", text, re.MULTILINE)) == len(told)
    assert several


@pytest.mark.parametrize(
    ("shown", "field"),
    [
        ("zero 1", "choose.zero_stage"),
        ("accumulation 16", "choose.gradient_accumulation_steps"),
        ("ulysses + ring", "choose.context_parallel_kind"),
        ("MTP", "training.mtp_layers"),
        ("layouts considered", "rows_considered"),
        ("leanest", "leanest"),
        ("limit", "limit"),
    ],
)
def test_words_are_explained_as_screens_show_them(
    shown: str, field: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A knob with its value, a value with its blanks, a paper's short word, words of proofs and refusals."""
    assert main(["explain", shown, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["field"] == field


def keys_of(schema: dict[str, Any]) -> set[str]:
    """Names of the fields of every object in a schema."""
    objects = [schema, *schema.get("$defs", {}).values()]
    return {name for each in objects for name in each.get("properties", {})}


def keys_in(answer: Any) -> Iterator[str]:
    """Keys of every object in an answer."""
    if isinstance(answer, list):
        for each in answer:
            yield from keys_in(each)
    elif isinstance(answer, dict):
        for key, value in answer.items():
            yield key
            yield from keys_in(value)


@cache
def told(key: str) -> bool:
    """Whether a key can be asked for; many stand in several answers."""
    return main(["explain", key]) == 0


@pytest.mark.parametrize("name", ALL)
def test_every_key_of_an_answer_can_be_asked_for(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever the schema of an answer can hold, `explain` knows: a field, a term, a word or a key."""
    unknown = {key for key in keys_of(schema_of(ALL[name])) if not told(key)}
    capsys.readouterr()

    assert ", ".join(sorted(unknown)) == ""


def test_every_key_that_answers_do_hold_can_be_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keys of tables too, such as the terms of a time; names of machines and of other tools' keys apart."""
    monkeypatch.chdir(tmp_path)
    held: set[str] = set()
    commands: Sequence[Sequence[str]] = (
        ("plan", *MODEL, "-o", "plan.json"),
        ("plan", *MODEL, "--nodes", "2", "--set", "backend=megatron", "--set", "offload_optimizer=cpu"),
        ("check", *MODEL, "--plan", "plan.json"),
        ("why", "plan.json", "micro_batch_size=1"),
        ("compare", *MODEL, "--vary", "nodes=1,2"),
        ("curve", *MODEL, "--gpus", "2..4"),
        ("plan", "mixtral-8x7b", "--cluster", "dgx-h100", "--gpus", "1", *JOB),
        ("plan", *MODEL, "--set", "zero_stage=9"),
        ("ledger", "30e9", "--gpus", "8"),
        ("show", "model", "qwen3-30b-a3b"),
        ("show", "cluster", "dgx-h100"),
    )
    for command in commands:
        main([*command, "--json"])
        held.update(keys_in(json.loads(capsys.readouterr().out or Path("plan.json").read_text("utf-8"))))
    unknown = {
        key for key in held if "." not in key and not key.isupper() and not told(key) and key not in TOOLS
    }
    capsys.readouterr()

    assert ", ".join(sorted(unknown)) == ""


TOOLS = {"shardwise", "ortools", "numpy", "pydantic", "attention_bias", "hidden_act", "initializer_range"}
"""Keys under `versions`, and those of a model's own file."""


def test_an_empty_name_is_no_name(capsys: pytest.CaptureFixture[str]) -> None:
    """It explains nothing by chance."""
    for name in ("", "  "):
        assert main(["explain", name]) == 2
        assert "is empty" in capsys.readouterr().err
