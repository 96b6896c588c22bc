"""The master: knobs as variables over a batch of rows, rules stated in the model, cuts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from random import Random

import numpy as np
import pytest
from oracle.brute import Least, brute
from oracle.requests import request
from oracle.wishes import obeys

from shardwise.costs.columns import FLAGS, NAMES, WORDS, Strategies
from shardwise.inputs import InputError
from shardwise.solver.master import Master
from shardwise.solver.rules import KNOBS, Rule

Knobs = dict[str, int]

POSITIVE = tuple(name for name in KNOBS if name not in (*FLAGS, "zero_stage"))


def columns(batch: Sequence[Knobs]) -> Strategies:
    """Rows that differ in their knobs only."""
    values = {name: [int(knobs.get(name, 0)) for knobs in batch] for name in NAMES}
    return Strategies(**{name: np.array(values[name], dtype=np.int64) for name in NAMES})


def rule(text: str) -> Rule:
    """A rule from nowhere in particular."""
    return Rule(text, "test")


def random_batch(rng: Random, rows: int) -> list[Knobs]:
    """Rows with knobs of every kind; no two rows need be possible on one cluster."""
    degrees = {name: [rng.choice((1, 1, 2, 3, 4, 8, 16)) for _ in range(rows)] for name in POSITIVE}
    stages = [rng.randint(0, 3) for _ in range(rows)]
    flags = {name: [rng.randint(0, 1) for _ in range(rows)] for name in FLAGS}
    table = {**degrees, **flags, "zero_stage": stages}
    return [{name: values[row] for name, values in table.items()} for row in range(rows)]


def number(rng: Random, depth: int) -> str:
    """A random expression: knobs, small numbers, + - * // %."""
    if depth == 0 or rng.random() < 0.25:
        return rng.choice(KNOBS) if rng.random() < 0.7 else str(rng.randint(0, 9))
    sign = rng.choice(("+", "-", "*", "//", "%"))
    left = number(rng, depth - 1)
    if sign in ("//", "%"):
        right = rng.choice(POSITIVE) if rng.random() < 0.6 else str(rng.randint(1, 5))
    else:
        right = number(rng, depth - 1)
    return f"({left} {sign} {right})"


def truth(rng: Random, depth: int) -> str:
    """A random rule: comparisons, some of them chains, joined by and, or, not."""
    kind = rng.choice(("compare", "chain", "and", "or", "not")) if depth else "compare"
    if kind == "not":
        return f"not ({truth(rng, depth - 1)})"
    if kind in ("and", "or"):
        return f" {kind} ".join(f"({truth(rng, depth - 1)})" for _ in range(rng.choice((2, 2, 3))))
    parts = [number(rng, 2) for _ in range(3 if kind == "chain" else 2)]
    text = parts[0]
    for part in parts[1:]:
        text += f" {rng.choice(('<', '<=', '>', '>=', '==', '!='))} {part}"
    return text


@cache
def ruled(seed: int) -> tuple[str, list[Knobs], list[int]]:
    """A random rule (short enough to be legal), a batch, and the bounds of its rows, all different."""
    rng = Random(seed)
    batch = random_batch(rng, 10)
    text = truth(rng, rng.choice((0, 1, 1, 2)))
    while len(text) > 400:
        text = truth(rng, 1)
    return text, batch, rng.sample(range(1, 1000), len(batch))


def taken(master: Master, most: int) -> list[tuple[int, int]]:
    """(bound, row) in the order the master takes them, each cut when taken; up to `most`."""
    found: list[tuple[int, int]] = []
    while len(found) < most and (chosen := master.solve()) is not None:
        row, bound, _ = chosen
        found.append((bound, row))
        master.cut(row)
    return found


@pytest.mark.parametrize("seed", range(12))
def test_cuts_bring_the_rows_in_order_of_their_bounds(seed: int) -> None:
    """Each cut row returns the next best one, each row once, none when all are cut."""
    rng = Random(seed)
    bounds = [rng.randint(1, 10**12) for _ in range(rng.randint(1, 30))]
    found = taken(Master(columns(random_batch(rng, len(bounds))), bounds, []), len(bounds) + 1)

    assert found == sorted((bound, row) for row, bound in enumerate(bounds))


@pytest.mark.parametrize("seed", range(12))
def test_rows_of_one_bound_are_each_taken_once(seed: int) -> None:
    """Of equal rows any may come first, but every one comes."""
    rng = Random(seed)
    bounds = [rng.randint(1, 4) for _ in range(20)]
    found = taken(Master(columns(random_batch(rng, 20)), bounds, []), 21)

    assert [bound for bound, _ in found] == sorted(bounds)
    assert sorted(row for _, row in found) == list(range(20))
    assert all(bounds[row] == bound for bound, row in found)


@pytest.mark.parametrize("seed", range(150))
def test_a_rule_in_the_master_holds_as_plain_arithmetic_does(seed: int) -> None:
    """Random rules: of rows nobody filtered, the master takes exactly those that obey, best first."""
    text, batch, bounds = ruled(seed)
    obeying = sorted((bound, row) for row, bound in enumerate(bounds) if obeys(text, batch[row]))
    found = taken(Master(columns(batch), bounds, [rule(text)]), len(batch) + 1)

    assert found == obeying, text
    assert rule(text).holds({name: getattr(columns(batch), name) for name in KNOBS}).tolist() == [
        obeys(text, knobs) for knobs in batch
    ], text


def test_random_rules_part_the_rows() -> None:
    """The random rules above are of use: many let some rows pass and not others; all operators occur."""
    mixed, texts = 0, ""
    for seed in range(150):
        text, batch, _ = ruled(seed)
        texts += f" {text}"
        mixed += len({obeys(text, knobs) for knobs in batch}) == 2

    assert mixed >= 50
    signs = ("+", "-", "*", "//", "%", "<", "<=", ">", ">=", "==", "!=", "and", "or")
    assert all(f" {sign} " in texts for sign in signs)
    assert "not (" in texts


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("tensor_parallel * pipeline_parallel <= 4", 1),
        ("tensor_parallel + pipeline_parallel == 9", 0),
        ("tensor_parallel - pipeline_parallel > 0", 0),
        ("tensor_parallel - pipeline_parallel < 0", 3),
        ("tensor_parallel // pipeline_parallel == 2", 2),
        ("pipeline_parallel % tensor_parallel == 1", 0),
        ("1 < pipeline_parallel <= tensor_parallel < 8", 1),
        ("not tensor_parallel == 8 and not pipeline_parallel == 2", 3),
        ("tensor_parallel == 1 or pipeline_parallel == 2", 1),
        ("tensor_parallel != 8 and tensor_parallel != 2", 2),
        ("zero_stage * 2 + sequence_parallel == 3", 2),
    ],
)
def test_a_rule_on_two_knobs(text: str, row: int) -> None:
    """One rule at a time over four rows of rising bounds."""
    degrees = [(8, 1, 0, 0), (2, 2, 1, 0), (4, 2, 1, 1), (1, 4, 2, 1)]
    names = ("tensor_parallel", "pipeline_parallel", "zero_stage", "sequence_parallel")
    batch = [dict.fromkeys(POSITIVE, 1) | dict(zip(names, values, strict=True)) for values in degrees]
    chosen = Master(columns(batch), [10, 20, 30, 40], [rule(text)]).solve()

    assert chosen is not None
    assert chosen[:2] == (row, [10, 20, 30, 40][row])


def test_rules_together_all_hold() -> None:
    """Two rules leave what obeys both; where none does, no row is left."""
    degrees = [{"tensor_parallel": t, "pipeline_parallel": 4 // t} for t in (1, 2, 4)]
    batch = [dict.fromkeys(POSITIVE, 1) | cut for cut in degrees]
    first, second = rule("tensor_parallel >= 2"), rule("pipeline_parallel >= 2")

    chosen = Master(columns(batch), [1, 2, 3], [first, second]).solve()
    assert chosen is not None
    assert chosen[0] == 1
    assert Master(columns(batch), [1, 2, 3], [first, rule("pipeline_parallel >= 4")]).solve() is None


def test_a_rule_may_not_reach_beyond_the_model() -> None:
    """A product that may pass 2^62 is refused by name, not wrapped round."""
    batch = [dict.fromkeys(KNOBS, 2**20)]
    with pytest.raises(InputError) as caught:
        Master(columns(batch), [1], [rule(" * ".join(["data_parallel"] * 4) + " > 1")])
    assert (caught.value.code, caught.value.field) == ("bad-rule", "choose.rules")


@cache
def real_batches() -> list[list[Least]]:
    """Of eight requests the fastest rows with their exact steps, by the exhaustive search."""
    found: list[list[Least]] = []
    for seed in range(1, 30 * 20, 30):
        fitting = [least for least in brute(request(seed)).rows if least.step_ns is not None]
        fitting.sort(key=lambda least: least.step_ns or 0)
        if len(fitting) >= 6 and len(found) < 8:
            found.append(fitting[:40])
    return found


def test_the_next_best_of_real_batches() -> None:
    """Without the winner the next best row comes; with a rule the winner breaks, the next that obeys."""
    assert len(real_batches()) == 8
    for fitting in real_batches():
        steps = [least.step_ns or 0 for least in fitting]
        rows = Strategies.of_rows({name: [getattr(least.row, name) for least in fitting] for name in NAMES})
        assert [bound for bound, _ in taken(Master(rows, steps, []), 4)] == steps[:4]

        first = fitting[0].row
        text = (
            f"not (tensor_parallel * pipeline_parallel == {first.tensor_parallel * first.pipeline_parallel} "
            f"and micro_batch_size == {first.micro_batch_size})"
        )
        obeying = [least.step_ns for least in fitting if obeys(text, least.row._asdict())]
        found = taken(Master(rows, steps, [rule(text)]), 2)
        assert not obeys(text, first._asdict())
        assert [bound for bound, _ in found] == obeying[:2]


def test_words_are_no_knobs() -> None:
    """Columns of words have no number a rule could compare."""
    assert not set(KNOBS) & set(WORDS)
