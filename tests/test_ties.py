"""Equal steps: most headroom first, then fewest mechanisms, then the row; over all rows, not within one."""

from __future__ import annotations

import pytest
from oracle.evaluate import Evaluator
from oracle.prices import costs_of
from oracle.requests import request
from oracle.rows import every_row
from oracle.stack import stack_of
from oracle.stages import layouts
from oracle.wishes import card_kib, recompute_words

from shardwise.plans import Request
from shardwise.solver.search import Search

pytestmark = pytest.mark.slow


def most_headroom(asked: Request, step_ns: int) -> tuple[int, int]:
    """(KiB the fullest card keeps free at best, layouts) among all layouts of that step."""
    every = list(every_row(asked))
    best, tied = -1, 0
    for row, costs in zip(every, costs_of(asked, every), strict=True):
        evaluator = Evaluator(asked, row, costs)
        for layout in layouts(row, stack_of(asked), recompute_words(asked)):
            if evaluator.step_ns(layout) == step_ns:
                tied += 1
                peak = max(evaluator.weight(stage, held).peak_kib for stage, held in enumerate(layout))
                best = max(best, card_kib(asked) - peak)
    return best, tied


def test_of_equal_steps_the_roomiest_is_taken() -> None:
    """No layout of any row with the least step leaves more of the fullest card free."""
    shared = 0
    for seed in range(60):
        asked = request(seed)
        best = Search(asked).run().best
        if best is None:
            continue
        headroom, tied = most_headroom(asked, best.step_ns)
        assert best.headroom_kib == headroom, seed
        shared += tied > 1
    assert shared >= 3
