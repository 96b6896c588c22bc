"""Every field and every term can be explained, with the numbers the ledger has."""

from __future__ import annotations

import pytest

from shardwise.cli import main
from shardwise.costs.glossary import term_names, term_text
from shardwise.inputs import InputError
from shardwise.plans import Check, MemoryReport, Plan, Proof, TimeReport
from shardwise.plans.answer_words import answer_words
from shardwise.plans.fields import field_text
from shardwise.plans.row import CurveRow
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


def test_every_word_of_an_answer_is_one() -> None:
    """Each is a field of an answer's types, or the name of an alternative."""
    known = {"folk"}
    for kind in (Plan, TimeReport, MemoryReport, Proof, CurveRow, Check):
        known |= set(kind.model_fields)
    assert set(answer_words()) <= known
