"""Cases as data: verbs, runs in a folder, misses first, counts by kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import cases
from benchmarks.predicates import Outcome, judge, verb_of
from shardwise.inputs import InputError
from shardwise.runs.record import read_records

FOUND = {"a": 5, "text": "8 and 16", "list": [{"n": 1}, {"n": 3}], "none": None}
RUNS = {"one": Outcome(1, "error: Field", FOUND, Path("nowhere"))}


@pytest.mark.parametrize(
    ("predicate", "holds"),
    [
        ({"at": "a", "equals": 5}, True),
        ({"at": "a", "differs": 5}, False),
        ({"at": "a", "one_of": [4, 6]}, False),
        ({"at": "a", "at_least": 5}, True),
        ({"at": "a", "at_most": 4}, False),
        ({"at": "a", "between": [4, 6]}, True),
        ({"at": "a", "within_percent": [5.5, 9]}, False),
        ({"at": "a", "within_percent": [5.5, 10]}, True),
        ({"at": "a", "unit": "ms", "equals": 5000}, True),
        ({"at": "list.*.n", "equals": 3}, True),
        ({"at": "list.*.n", "of": "sum", "equals": 4}, True),
        ({"at": "list.*.n", "of": "count", "equals": 3}, False),
        ({"at": "list.1.n", "over": {"at": "a"}, "equals": 0.6}, True),
        ({"at": "text", "contains": "fiel"}, True),
        ({"at": "list", "contains": [{"n": 1}]}, True),
        ({"at": "exit_code", "equals": 1}, True),
        ({"at": "absent.path", "lacks": "x"}, False),
        ({"at": "absent.path", "absent": True}, True),
        ({"at": "none", "at_least": 0}, False),
        ({"file": "gone.json", "at": "a", "equals": 5}, False),
    ],
)
def test_a_verb_holds_of_what_is_found(predicate: dict[str, Any], holds: bool) -> None:
    """Nothing found holds for no verb but `absent`."""
    assert judge(predicate, RUNS)[0] == holds


@pytest.mark.parametrize("predicate", [{"at": "a"}, {"equals": 1, "absent": True}, {"equal": 1}])
def test_a_predicate_has_one_verb_of_the_table(predicate: dict[str, Any]) -> None:
    """A misspelt verb is an error and no predicate that always holds."""
    with pytest.raises(InputError, match="one verb"):
        verb_of(predicate)


def test_a_run_that_is_not_there_is_an_error() -> None:
    """So that no predicate holds of nothing."""
    with pytest.raises(InputError, match="no run"):
        judge({"run": "two", "at": "a", "equals": 5}, RUNS)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two cases of one file with predicates, and one line without."""
    (tmp_path / "cases.csv").write_text(
        "id,kind,source,setup,expected_from_our_tool\nx1,e,s,,\nx2,e,s,,\nx3,c,s,,\n"
    )
    shown = {"show": ["show", "model", "{folder}/m.json", "--json"]}
    files = {"m.json": {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 5}}
    holds = [{"at": "exit_code", "equals": 2}, {"at": "error.field", "equals": "no_such_key"}]
    held = {"says": "", "files": files, "runs": shown, "holds": holds[:1]}
    missed = {"says": "", "files": files, "runs": shown, "holds": holds}
    (tmp_path / "predicates").mkdir()
    (tmp_path / "why").mkdir()
    (tmp_path / "predicates" / "e.json").write_text(
        json.dumps({"cases": {"x1": held, "x2": missed, "x9": held}})
    )
    (tmp_path / "why" / "e.json").write_text(json.dumps({"x1": "not needed", "x2": "the heads come first"}))
    return tmp_path


def test_misses_come_first_with_their_reason(folder: Path) -> None:
    """A reason stands beside a miss only; lines without predicates are counted, ids without lines are not."""
    found = cases.measure([str(folder / "cases.csv"), str(folder / "predicates" / "e.json")])

    assert [line["verdict"] for line in found["lines"]] == ["missed", "held", "held"]
    assert found["lines"][0]["why"] == "the heads come first"
    assert found["lines"][1]["why"] == ""
    assert found["kinds"]["e"] == {
        "cases": 2, "cases_asked": 2, "cases_held": 1, "predicates": 3, "held": 2, "missed": 1, "explained": 1
    }  # fmt: skip
    assert found["kinds"]["c"]["cases_asked"] == 0
    assert "why: the heads come first" in cases.text(found)


def test_every_predicate_file_can_be_read() -> None:
    """One verb each, runs that are there, cases of the CSV, and reasons for known cases only."""
    tables = sorted(cases.CASES.glob("*.csv"))
    known = {record.text("id") for table in tables for record in read_records(table, cases.COLUMNS)}
    for path in sorted((cases.CASES / "predicates").glob("*.json")):
        found = json.loads(path.read_text(encoding="utf-8"))["cases"]
        assert set(found) <= known
        for case in found.values():
            assert case["says"]
            for predicate in case["holds"]:
                assert verb_of(predicate)
                assert predicate.get("run", next(iter(case["runs"]))) in case["runs"]
    for path in (cases.CASES / "why").glob("*.json"):
        asked = json.loads((cases.CASES / "predicates" / path.name).read_text(encoding="utf-8"))["cases"]
        assert set(json.loads(path.read_text(encoding="utf-8"))) <= set(asked)
