"""Every field and every term can be explained, with the numbers the ledger has."""

from __future__ import annotations

import pytest

from shardwise.costs.glossary import term_names, term_text
from shardwise.inputs import InputError
from shardwise.plans.fields import field_text
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
