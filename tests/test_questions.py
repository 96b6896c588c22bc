"""The open questions in examples/questions: ranking, margin, and a ranking that flips at the break-even."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardwise.plans import read_question
from shardwise.plans.row import Compare
from shardwise.solver import Case, compare

FOLDER = Path(__file__).resolve().parent.parent / "examples" / "questions"
QUESTIONS = sorted(FOLDER.glob("*.toml"))

pytestmark = [pytest.mark.tree, pytest.mark.slow]


def asked(path: Path) -> tuple[Compare, list[Case]]:
    """The answer to a question file, and its cases."""
    question = read_question(str(path))
    cases = [Case(name, changes) for name, changes in question.cases]
    return compare(question.request, cases, question.along), cases


def test_there_are_four() -> None:
    """The four open questions are there."""
    assert len(QUESTIONS) == 4


@pytest.mark.parametrize("path", QUESTIONS, ids=lambda path: path.stem)
def test_a_question_is_answered(path: Path) -> None:
    """Both cases have plans; the verdict names winner and margin, and says settled or measure."""
    found, _ = asked(path)
    first, second = (next(row for row in found.rows if row.name == name) for name in found.ranking)

    assert found.margin_percent is not None and found.margin_percent >= 0
    assert found.verdict.startswith(f"{first.name} before {second.name} by {found.margin_percent:.1f} %")
    assert found.settles_percent is not None
    assert found.settled == (found.margin_percent > found.settles_percent)
    assert (": settled: " if found.settled else ": measure: ") in found.verdict


@pytest.mark.parametrize("path", QUESTIONS, ids=lambda path: path.stem)
def test_the_ranking_flips_at_the_break_even(path: Path) -> None:
    """A hundredth of the range below the value one case wins, as much above the other; else none flips."""
    found, cases = asked(path)
    request = read_question(str(path)).request
    flip = found.break_even
    assert flip is not None
    step = 0.01 * (flip.high - flip.low)
    if flip.value is None:
        values = {flip.low: flip.below, flip.high: flip.below}
    else:
        values = {flip.value - step: flip.below, flip.value + step: flip.above}
    for value, winner in values.items():
        whole = flip.field.endswith(("_bytes", "_size"))
        moved = request.changed({flip.field: round(value) if whole else value})
        assert compare(moved, cases).ranking[0] == winner
