"""Adding terms up: first the coefficients, then the counts, wherever that is the same."""

from __future__ import annotations

import numpy as np
import pytest

from shardwise.costs.frame import Frame, evaluate
from shardwise.costs.stage_counts import Counts
from shardwise.costs.sums import add_up
from shardwise.costs.terms import Note, Per, Term

NOTE = Note("made up", "tests", "A")


def drawn(seed: int, whole: bool) -> tuple[list[Term], Frame]:
    """Twelve terms of every sort over forty rows of up to four stages with one to three chunks."""
    rng = np.random.default_rng(seed)
    rows, stages, kinds = 40, 4, 2
    held = np.arange(stages)[None, :] < rng.integers(1, stages + 1, rows)[:, None]
    chunks = rng.integers(1, 4, rows)
    layer = rng.integers(1, 9, (rows, stages, kinds)) * held[:, :, None]
    layer = layer * chunks[:, None, None] if whole else layer
    full = np.where(rng.random((rows, stages, kinds)) < 0.5, layer, 0)
    counts = Counts(layer, full, layer - full, full, held)
    terms = []
    for number in range(12):
        per: Per = ("stage", "flight", "chunk")[number % 3]
        names = ("fixed", "first", "last", "layer", "full", "selective", "offloaded")
        shapes = {
            name: (rows,) if name in names[:3] or rng.random() < 0.5 else (rows, kinds) for name in names
        }
        pieces = {name: rng.integers(-50, 99, shape) for name, shape in shapes.items() if rng.random() < 0.7}
        terms.append(Term(f"t{number}", per, NOTE, pieces))
    loop = np.zeros(rows, dtype=np.bool_)
    return terms, Frame.placed(
        counts, chunks, {"flight": rng.integers(1, 6, (rows, stages))}, vee=loop, both=loop
    )


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_the_sum_of_terms_is_the_sum_of_their_values(seed: int, whole: bool) -> None:
    """Also where chunks do not hold whole layers, and each term is rounded up by itself."""
    terms, frame = drawn(seed, whole)

    assert frame.whole is whole
    np.testing.assert_array_equal(add_up(terms, frame), sum(evaluate(term, frame) for term in terms))
