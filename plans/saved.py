"""Answers as JSON text and back: sorted keys, derived words beside the choices they follow from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from ..inputs import InputError
from ..inputs.files import parse_json
from ..inputs.origin import as_input_error
from ..models import Strategy
from ..models.backend import derived_words
from .complete import DERIVED
from .plan import Plan
from .raw import read_source


def as_json(data: object) -> str:
    """`data` (plain, or a pydantic object) as JSON text: sorted keys, two spaces, a line feed at the end."""
    plain = answer_of(data) if isinstance(data, BaseModel) else data
    return json.dumps(plain, sort_keys=True, indent=2, allow_nan=False) + "\n"


def answer_of(outcome: BaseModel) -> dict[str, Any]:
    """The JSON object of an outcome; each strategy in it also tells the words that follow from it."""
    data: dict[str, Any] = _told(outcome.model_dump(mode="json", by_alias=True))
    if isinstance(outcome, Plan):
        data["strategy"] |= {"writable_by": list(outcome.writable_by), "placement": outcome.placement}
    return data


_FOLLOWS = (*DERIVED, "overlap", "recompute")
"""Words of a strategy in an answer that follow from its choices."""


def _is_strategy(data: dict[str, Any]) -> bool:
    return {"backend", "stages", "pipeline_parallel"} <= set(data)


def _told(data: Any) -> Any:
    """`data` with the words that follow beside the choices of each strategy in it."""
    if isinstance(data, list):
        return [_told(value) for value in data]
    if not isinstance(data, dict):
        return data
    told = {key: _told(value) for key, value in data.items()}
    if _is_strategy(data):
        strategy = Strategy.model_validate(_bare(data))
        told |= derived_words(strategy)
    return told


def _bare(data: Any) -> Any:
    """`data` without the words that `_told` adds."""
    if isinstance(data, list):
        return [_bare(value) for value in data]
    if not isinstance(data, dict):
        return data
    left_out = _FOLLOWS if _is_strategy(data) else ()
    return {key: _bare(value) for key, value in data.items() if key not in left_out}


def read_plan(source: str) -> Plan:
    """The plan in the file `source` ("-": standard input), as `plan --json` or `-o` wrote it.

    Raises `InputError` for anything else, an outcome without a plan and a newer schema included.
    """
    text, name = read_source(source, "plan")
    return plan_from(parse_json(text, "plan", name), name)


WRITTEN = "written"
"""What a folder of launch files adds to its plan: hashes, which are no part of the plan."""


def plan_from(data: Mapping[str, Any], name: str) -> Plan:
    """The plan in the JSON object of the file `name`."""
    status = data.get("status")
    if status in ("infeasible", "unknown") or "error" in data:
        found = status or "error"
        raise InputError("plan.status", found, name, "holds no plan", legal=["optimal", "feasible"])
    if data.get("schema_version") != 1:
        version, reason = data.get("schema_version", "nothing"), "is no plan this version reads"
        raise InputError("plan.schema_version", version, name, reason, legal=["1"])
    try:
        plain = {key: value for key, value in data.items() if key != WRITTEN}
        return Plan.model_validate_json(json.dumps(_bare(plain)))
    except ValidationError as error:
        raise as_input_error(error, {"plan": name}, "plan", Plan) from None
    except RecursionError:
        raise InputError("plan", name, name, "is nested too deeply", code="bad-file") from None
