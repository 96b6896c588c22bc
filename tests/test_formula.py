"""Formulas of the family tables: what they may say, and that they can say nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from shardwise.models.formula import NotWhole, evaluate, names

VALUES: dict[str, Any] = {
    "a": 12,
    "b": 5,
    "off": None,
    "no": False,
    "kinds": ("x", "y"),
    "word": "gated-gelu",
}


@pytest.mark.parametrize(
    ("formula", "value"),
    [
        ("a + b * 2 - 1", 21),
        ("a // b", 2),
        ("a % b", 2),
        ("a / 4", 3),
        ("(a + b - 1) // b * b", 15),
        ("-a", -12),
        ("not no", True),
        ("off or b", 5),
        ("a and b", 5),
        ("no or off", None),
        ("a if b > 3 else 0", 12),
        ("1 < b <= 5 != a", True),
        ("'x' in kinds and 'z' not in kinds", True),
        ("kinds[1]", "y"),
        ("len(kinds) + max(a, b) + min(a, b)", 19),
        ("only((3, 3), 3) and only(3, 3) and not only((3, 4), 3)", True),
        ("'gated' in word", True),
        ("a * (1 if no else 0)", 0),
    ],
)
def test_a_formula_has_the_value_that_python_gives_it(formula: str, value: object) -> None:
    """Whole numbers, switches, words and lists."""
    assert evaluate(formula, VALUES.__getitem__) == value


def test_a_division_that_leaves_a_rest_names_its_sides() -> None:
    """The error of a config says which key does not divide which."""
    with pytest.raises(NotWhole) as caught:
        evaluate("a / b", VALUES.__getitem__)

    assert caught.value.names == ("a", "b")


@pytest.mark.parametrize(
    "formula",
    [
        "__import__('os')",
        "a ** b",
        "lambda: 1",
        "[x for x in kinds]",
        "kinds.count('x')",
        "f'{a}'",
        "open('x')",
    ],
)
def test_a_formula_can_say_nothing_else(formula: str) -> None:
    """No calls but the six known, no powers, no loops, no methods."""
    with pytest.raises((ValueError, KeyError)):
        evaluate(formula, VALUES.__getitem__)


def test_names_are_those_that_are_looked_up() -> None:
    """Of a nested section with its dot, functions left out, each once."""
    assert names("max(vision.width, a) * a + b") == ("vision.width", "a", "b")
