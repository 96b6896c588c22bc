"""Saved plans: what was edited since is told, by part; nothing is told of one as it was written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from plans_by_hand import deepspeed, plan

from shardwise import InputError
from shardwise.cli import main
from shardwise.inputs.release import ledger, release
from shardwise.plans import as_json, read_kept, read_plan, read_request
from shardwise.plans.digests import digests

EDITS: dict[str, tuple[tuple[str, ...], Any]] = {
    "training": (("request", "training", "sequence_length"), 16),
    "limits": (("request", "limits", "memory_margin"), 0.01),
    "strategy": (("strategy", "gradient_accumulation_steps"), 9),
    "time": (("time", "step_seconds"), 0.001),
    "memory": (("memory", "total_bytes"), 7),
    "buckets": (("buckets", "reduce_bucket_elements"), 7),
}


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A plan of this release, as written."""
    made = plan(deepspeed(2, 2)).model_copy(update={"versions": {"shardwise": release()}})
    path = tmp_path / "plan.json"
    path.write_text(as_json(made))
    return path


def edit(path: Path, place: tuple[str, ...], value: Any) -> None:
    """Puts `value` at `place` of a JSON file."""
    data = json.loads(path.read_text())
    inner = data
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    path.write_text(json.dumps(data))


def edited(path: Path) -> tuple[str, ...]:
    """Parts that were edited since the plan was written."""
    return read_kept(str(path)).edited


def told(path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What `emit` warns of before it writes."""
    capsys.readouterr()
    main(["emit", str(path), "--to", "deepspeed", "-q"])
    return capsys.readouterr().err


def test_a_plan_as_written_is_not_edited(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Reading changes nothing, neither does another layout of the same JSON; written again it is the same."""
    assert edited(saved) == ()
    assert as_json(read_plan(str(saved))) == saved.read_text()
    saved.write_text(json.dumps(json.loads(saved.read_text()), indent=7))
    assert edited(saved) == () and told(saved, capsys) == ""


@pytest.mark.parametrize("part", EDITS)
def test_an_edit_is_told_by_its_part(part: str, saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The part alone that was edited is named, also once the plan was written again; commands go on."""
    edit(saved, *EDITS[part])

    assert edited(saved) == (part,)
    assert f"warning: {saved} was edited since it was written: {part};" in told(saved, capsys)
    saved.write_text(as_json(read_plan(str(saved))))
    assert edited(saved) == (part,)


def test_another_commit_fills_in_other_defaults(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A field that the writer did not have is no edit: digests are of the text as it was written."""
    data = json.loads(saved.read_text())
    del data["request"]["training"]["optimizer_in_backward"]
    data["digests"]["training"] = digests(data)["training"]
    data["versions"]["ledger"] = "01234567"
    saved.write_text(json.dumps(data))

    assert edited(saved) == ()
    assert f"was written by another ledger of shardwise {release()} (01234567, this is {ledger()});" in told(
        saved, capsys
    )


def test_another_release_says_so(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The releases are told; digests of another length were made in another way, and claim nothing."""
    edit(saved, ("versions", "shardwise"), "0.0.1")
    edit(saved, ("digests",), {"time": "01234567"})

    assert edited(saved) == ()
    assert f"was written by shardwise 0.0.1, this is {release()}; its step time" in told(saved, capsys)


FOLLOWING: dict[str, tuple[dict[str, Any], str]] = {
    "overlap.gradient_reduce": ({"overlap": {"gradient_reduce": False}}, "overlap_gradient_reduce"),
    "overlap.zero3_gather": ({"overlap": {"zero3_gather": True}}, "the switches of overlap and zero_stage"),
    "recompute": ({"recompute": "full"}, "the stages"),
}


@pytest.mark.parametrize("word", FOLLOWING)
def test_a_word_that_follows_is_not_edited_alone(word: str, saved: Path) -> None:
    """What follows from the choices of a strategy cannot say otherwise: the choice is named, and the line."""
    change, choice = FOLLOWING[word]
    data = json.loads(saved.read_text())
    data["strategy"] |= {key: {**data["strategy"][key], **value} if isinstance(value, dict) else value
                         for key, value in change.items()}  # fmt: skip
    saved.write_text(json.dumps(data, indent=1))

    with pytest.raises(InputError, match=f"contradicts {choice}, by which it is") as error:
        read_plan(str(saved))
    assert error.value.field == f"plan.strategy.{word}"
    assert error.value.origin.startswith(f"{saved}:")


def test_a_saved_plan_is_no_request(saved: Path) -> None:
    """Given as a request, the message names the commands that take plans."""
    with pytest.raises(InputError, match="is a saved plan.*check REQUEST --plan.*why PLAN.*emit PLAN"):
        read_request(str(saved))
