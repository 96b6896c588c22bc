"""Rules on knobs: what the grammar takes and refuses, what it says, and that nothing is ever run."""

from __future__ import annotations

import numpy as np
import pytest
from oracle.requests import request

from shardwise.costs.columns import NAMES, WORDS, Strategies
from shardwise.inputs import InputError
from shardwise.plans import Request
from shardwise.solver.rules import KNOBS, MAX_LENGTH, Rule
from shardwise.solver.search import Search

NOT_A_COMPARISON = "is not a comparison of knobs, such as tensor_parallel * 2 <= 16"
NO_TRUTH = "must be a comparison, or comparisons joined by and, or, not"
NO_NUMBER = "may hold whole numbers below 2^31, knobs and + - * // % only"
NO_DIVISOR = "divides by something other than a knob or a positive number"
NO_COMPARISON = "compares with something other than < <= > >= == !="

ROWS = {name: np.array([1, 2, 4, 8], dtype=np.int64) for name in KNOBS} | {
    "zero_stage": np.array([0, 1, 2, 3], dtype=np.int64),
    "pipeline_parallel": np.array([4, 2, 2, 1], dtype=np.int64),
    "sequence_parallel": np.array([0, 1, 0, 1], dtype=np.int64),
}


def holds(text: str) -> list[bool]:
    """Which of four rows obey."""
    found: list[bool] = np.broadcast_to(Rule(text, "test").holds(ROWS), 4).tolist()
    return found


def refusal(text: str) -> InputError:
    """The error for a rule outside the grammar."""
    with pytest.raises(InputError) as caught:
        _ = Rule(text, "job.toml:7").tree
    return caught.value


def asked(rules: tuple[str, ...], origin: str = "--set") -> Request:
    """A request in which something fits, with rules."""
    whole = request(18)
    choose = whole.choose.model_copy(update={"rules": rules})
    return whole.model_copy(update={"choose": choose, "origins": {"choose.rules": origin}})


@pytest.mark.parametrize(
    ("legal", "illegal", "reason"),
    [
        ("tensor_parallel == 1", "tensor_parallel = 1", NOT_A_COMPARISON),
        ("tensor_parallel == 1", "tensor_parallel == 1 and", NOT_A_COMPARISON),
        ("tensor_parallel == 1", "tensor_parallel == 1; 1 == 1", NOT_A_COMPARISON),
        ("(tensor_parallel) == 1", "(tensor_parallel == 1", NOT_A_COMPARISON),
        (" tensor_parallel == 1 ", "  ", NOT_A_COMPARISON),
        ("data_parallel == 1", "data_parallel == \uff11", NOT_A_COMPARISON),
        ("tensor_parallel == 1", "tensor_parallel\0 == 1", NOT_A_COMPARISON),
        ("tensor_parallel >= 1", "tensor_parallel", NO_TRUTH),
        ("not tensor_parallel == 1", "not tensor_parallel", NO_TRUTH),
        ("tensor_parallel == 1 or zero_stage == 1", "tensor_parallel == 1 or zero_stage", NO_TRUTH),
        ("sequence_parallel == 1", "sequence_parallel", NO_TRUTH),
        ("1 == 1", "True", NO_TRUTH),
        ("tensor_parallel == 1", "tensor_parallel == 1 if zero_stage == 1 else zero_stage == 2", NO_TRUTH),
        ("tensor_parallel != 1", "tensor_parallel is 1", NO_COMPARISON),
        ("tensor_parallel == 1", "tensor_parallel in (1, 2)", NO_COMPARISON),
        ("tensor_parallel == 1", "tensor_parallel not in (1, 2)", NO_COMPARISON),
        ("tensor_parallel - 2 < 0", "-tensor_parallel < 0", NO_NUMBER),
        ("tensor_parallel // 2 > 1", "tensor_parallel / 2 > 1", NO_NUMBER),
        ("tensor_parallel * tensor_parallel > 1", "tensor_parallel ** 2 > 1", NO_NUMBER),
        ("tensor_parallel + 1 > 1", "tensor_parallel | 1 > 1", NO_NUMBER),
        ("tensor_parallel * 2 > 1", "tensor_parallel << 1 > 1", NO_NUMBER),
        ("1 < tensor_parallel", "1.5 < tensor_parallel", NO_NUMBER),
        ("1 < tensor_parallel", "1e3 < tensor_parallel", NO_NUMBER),
        ("1 < tensor_parallel", "1j == tensor_parallel", NO_NUMBER),
        ("sequence_parallel == 1", "sequence_parallel == True", NO_NUMBER),
        ("zero_stage == 0", "zero_stage == None", NO_NUMBER),
        ("zero_stage == 3", "zero_stage == '3'", NO_NUMBER),
        ("2147483647 > tensor_parallel", "2147483648 > tensor_parallel", NO_NUMBER),
        ("tensor_parallel < 3", "tensor_parallel < (zero_stage < 3)", NO_NUMBER),
        ("(tensor_parallel + 1) < 3", "(tensor_parallel, 1) < (3, 4)", NO_NUMBER),
        ("tensor_parallel % 3 == 0", "tensor_parallel % 0 == 0", NO_DIVISOR),
        ("tensor_parallel // micro_batch_size == 0", "tensor_parallel // zero_stage == 0", NO_DIVISOR),
        ("tensor_parallel % data_parallel == 0", "tensor_parallel % sequence_parallel == 0", NO_DIVISOR),
        ("tensor_parallel % data_parallel == 0", "tensor_parallel % reshard_after_forward == 0", NO_DIVISOR),
        ("tensor_parallel // 2 // 2 == 0", "tensor_parallel // (data_parallel - 1) == 0", NO_DIVISOR),
    ],
)
def test_the_grammar(legal: str, illegal: str, reason: str) -> None:
    """Pairs: the one is read, the other, which differs in one thing, is refused with the reason."""
    assert Rule(legal, "test").tree
    assert refusal(illegal).reason == reason


@pytest.mark.parametrize(
    ("name", "legal"),
    [
        ("tensr_parallel", "tensor_parallel"),
        ("micro_batch", "micro_batch_size"),
        ("zero", "zero_stage"),
        ("pipeline_paralel", "pipeline_parallel"),
    ],
)
def test_an_unknown_name_is_told_the_nearest_knob(name: str, legal: str) -> None:
    """A misspelt knob is named, and the knob meant comes first of the legal ones."""
    error = refusal(f"{name} == 1")
    assert error.reason == f"names {name}, which is no knob"
    assert error.legal[0] == legal


@pytest.mark.parametrize("name", sorted(WORDS))
def test_words_cannot_be_compared(name: str) -> None:
    """A knob that is a word has a list in `choose`, not a number for rules."""
    assert refusal(f"{name} == 1").reason == f"names {name}, which is no knob"


def test_the_error_names_field_value_and_origin() -> None:
    """One line tells what was wrong, where it stood and what was met."""
    error = refusal("tensor_parallel / 2 > 1")
    assert (error.field, error.value, error.origin) == (
        "choose.rules",
        "tensor_parallel / 2 > 1",
        "job.toml:7",
    )
    assert error.code == "bad-rule"
    assert str(error) == f"choose.rules = tensor_parallel / 2 > 1 (from job.toml:7): {NO_NUMBER}"


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("tensor_parallel + pipeline_parallel == 6", [False, False, True, False]),
        ("tensor_parallel - pipeline_parallel < 0", [True, False, False, False]),
        ("tensor_parallel * pipeline_parallel == 8", [False, False, True, True]),
        ("tensor_parallel // 3 == 1", [False, False, True, False]),
        ("tensor_parallel % 3 == 2", [False, True, False, True]),
        ("pipeline_parallel - tensor_parallel // 1 - 1 < 0", [False, True, True, True]),
        ("(zero_stage - 3) // 2 == 0 - 1", [False, True, True, False]),
        ("(zero_stage - 3) % 2 == 1", [True, False, True, False]),
        ("1 < tensor_parallel <= 4", [False, True, True, False]),
        ("1 < tensor_parallel > pipeline_parallel", [False, False, True, True]),
        ("tensor_parallel == 1 or zero_stage == 3", [True, False, False, True]),
        ("tensor_parallel > 1 and sequence_parallel == 0", [False, False, True, False]),
        ("not (tensor_parallel > 1 and sequence_parallel == 0)", [True, True, False, True]),
        ("tensor_parallel == 1 or tensor_parallel == 2 and zero_stage == 0", [True, False, False, False]),
        ("1 < 2", [True, True, True, True]),
        ("2 < 1", [False, False, False, False]),
    ],
)
def test_rules_mean_what_python_means(text: str, rows: list[bool]) -> None:
    """Precedence, chains, floor division and remainder of negative numbers are Python's."""
    assert holds(text) == rows


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').abort() == 1",
        "open('x', 'w') == 1",
        "exec('raise SystemExit') == 1",
        "(lambda: 1)() == 1",
        "[tensor_parallel for x in (1,)] == 1",
        "tensor_parallel.__class__ == 1",
        "tensor_parallel[0] == 1",
        "(tensor_parallel := 4) == 4",
        "f'{exit()}' == 1",
        "__debug__ == 1",
        "*tensor_parallel == 1",
        "await x == 1",
        "tensor_parallel @ 2 == 1",
    ],
)
def test_nothing_is_evaluated(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls, attributes, names of Python: refused before anything could run."""
    for name in ("eval", "exec", "open"):
        monkeypatch.setattr(f"builtins.{name}", _never)
    assert refusal(text).code == "bad-rule"


def _never(*_: object, **__: object) -> None:
    raise AssertionError("a rule was run")


def test_a_rule_is_never_handed_to_eval(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even a legal rule is walked, not run."""
    for name in ("eval", "exec"):
        monkeypatch.setattr(f"builtins.{name}", _never)
    assert holds("tensor_parallel * 2 <= 4") == [True, True, False, False]


def test_length_and_depth_end_in_an_error_or_a_rule() -> None:
    """Long and deeply nested texts are refused or read; none ends in a traceback of the parser."""
    long = "tensor_parallel == 1" + " or tensor_parallel == 2" * 30
    assert len(long) > MAX_LENGTH
    assert refusal(long).reason == f"is longer than {MAX_LENGTH} characters"
    assert refusal("(" * 250 + "1" + ")" * 249).reason == NOT_A_COMPARISON
    assert holds("not " * 120 + "1 < 2") == [True] * 4
    assert holds("1" + "+1" * 240 + " == 241") == [True] * 4
    assert refusal("9" * 499).reason == NO_TRUTH


def test_a_search_keeps_to_its_rules_and_counts_what_they_cut() -> None:
    """Rules are parsed before anything is searched; the rows each one cuts are told."""
    free = Search(asked(())).run()
    text = "data_parallel >= 2"
    ruled = Search(asked((text, "micro_batch_size == 1"))).run()
    assert ruled.tally.rows == free.tally.rows
    assert 0 < ruled.tally.by_rule[f"choose.rules: {text}"] <= ruled.tally.rule < ruled.tally.rows
    assert ruled.best is None or (
        ruled.best.strategy.data_parallel >= 2 and ruled.best.strategy.micro_batch_size == 1
    )
    with pytest.raises(InputError) as caught:
        Search(asked(("data_parallel >= 2", "data_paralel >= 2"))).run()
    assert (caught.value.origin, caught.value.legal[0]) == ("--set", "data_parallel")


def test_a_rule_without_knobs_holds_for_all_rows_or_none() -> None:
    """A rule on numbers alone keeps or cuts every row, and is counted so."""
    free = Search(asked(())).run()
    kept, cut = Search(asked(("1 < 2",))).run(), Search(asked(("2 < 1",))).run()
    assert kept.best is not None and free.best is not None
    assert kept.best.step_ns == free.best.step_ns
    assert kept.tally.by_rule == {"choose.rules: 1 < 2": 0}
    assert cut.best is None
    assert cut.tally.by_rule == {"choose.rules: 2 < 1": cut.tally.rows}


@pytest.mark.parametrize(
    "text",
    [
        "2147483647 * 2147483647 * 4 > 0",
        "data_parallel * 2147483647 * 2147483647 * 2 > 0",
        "2147483647 * 2147483647 * 2147483647 > data_parallel",
    ],
)
def test_numbers_beyond_the_model_are_refused(text: str) -> None:
    """A rule that may reach 2^62 is refused by name; it is not wrapped round into another rule."""
    with pytest.raises(InputError) as caught:
        Search(asked((text,))).run()
    assert (caught.value.code, caught.value.field, caught.value.origin) == (
        "bad-rule",
        "choose.rules",
        "--set",
    )


def test_knobs_are_the_whole_numbers_of_a_strategy() -> None:
    """Every column of numbers can be named, and no other."""
    assert set(KNOBS) | set(WORDS) == set(NAMES)
    assert set(NAMES) == set(Strategies.__dataclass_fields__)
