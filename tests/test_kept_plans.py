"""Saved plans: what was edited since is told, by part; nothing is told of one as it was written."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from plans_by_hand import deepspeed, plan

from shardwise import InputError
from shardwise.cli import main
from shardwise.plans import as_json, edited, read_plan, read_request, stamped

EDITS: dict[str, tuple[tuple[str, ...], Any]] = {
    "training": (("request", "training", "sequence_length"), 16),
    "limits": (("request", "limits", "memory_margin"), 0.01),
    "strategy": (("strategy", "gradient_accumulation_steps"), 9),
    "time": (("time", "step_seconds"), 0.001),
    "memory": (("memory", "total_bytes"), 7),
}


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A plan of this release, as written."""
    made = plan(deepspeed(2, 2)).model_copy(update={"versions": {"shardwise": version("shardwise")}})
    path = tmp_path / "plan.json"
    path.write_text(as_json(stamped(made)))
    return path


def edit(path: Path, place: tuple[str, ...], value: Any) -> None:
    """Puts `value` at `place` of a JSON file."""
    data = json.loads(path.read_text())
    inner = data
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    path.write_text(json.dumps(data))


def test_a_plan_as_written_is_not_edited(saved: Path) -> None:
    """Reading changes nothing, neither does another layout of the same JSON."""
    assert edited(read_plan(str(saved))) == ()
    saved.write_text(json.dumps(json.loads(saved.read_text()), indent=7))
    assert edited(read_plan(str(saved))) == ()


@pytest.mark.parametrize("part", EDITS)
def test_an_edit_is_told_by_its_part(part: str, saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The part alone that was edited is named; commands that take a plan up say so and go on."""
    edit(saved, *EDITS[part])

    assert edited(read_plan(str(saved))) == (part,)
    main(["emit", str(saved), "--to", "deepspeed", "-q"])
    assert f"warning: {saved} was edited since it was written: {part};" in capsys.readouterr().err


def test_another_release_spells_its_parts_otherwise(saved: Path) -> None:
    """Nothing is claimed of a plan that another release wrote."""
    edit(saved, ("versions", "shardwise"), "0.0.1")
    edit(saved, *EDITS["time"])

    assert edited(read_plan(str(saved))) == ()


def test_a_saved_plan_is_no_request(saved: Path) -> None:
    """Given as a request, the message names the commands that take plans."""
    with pytest.raises(InputError, match="is a saved plan.*check REQUEST --plan.*why PLAN.*emit PLAN"):
        read_request(str(saved))
