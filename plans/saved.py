"""Answers as JSON text and back: sorted keys, derived words beside the choices they follow from."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError

from ..inputs import InputError
from ..inputs.files import parse_json
from ..inputs.lines import json_places
from ..inputs.origin import as_input_error, placed
from ..inputs.release import ledger
from ..models import Strategy
from ..models.backend import derived_words
from .digests import digests, mismatched
from .follows import choices, refuse_contradiction
from .plan import Plan
from .raw import read_source


def as_json(data: object) -> str:
    """`data` (plain, or a pydantic object) as JSON text: sorted keys, two spaces, a line feed at the end."""
    plain = answer_of(data) if isinstance(data, BaseModel) else data
    return json.dumps(plain, sort_keys=True, indent=2, allow_nan=False) + "\n"


def answer_of(outcome: BaseModel) -> dict[str, Any]:
    """The JSON object of an outcome; each strategy in it also tells the words that follow from it.

    A plan is stamped: with the ledger it was made by, and the digest of each of its parts.
    """
    data: dict[str, Any] = _told(outcome.model_dump(mode="json", by_alias=True))
    if isinstance(outcome, Plan):
        data["strategy"] |= {"writable_by": list(outcome.writable_by), "placement": outcome.placement}
        data["versions"] = {"ledger": ledger(), **outcome.versions}
        data["digests"] = outcome.digests or digests(data)
    return data


def _is_strategy(data: Mapping[str, Any]) -> bool:
    return {"backend", "stages", "pipeline_parallel"} <= set(data)


def _told(data: Any) -> Any:
    """`data` with the words that follow beside the choices of each strategy in it."""
    if isinstance(data, list):
        return [_told(value) for value in data]
    if not isinstance(data, dict):
        return data
    told = {key: _told(value) for key, value in data.items()}
    if _is_strategy(data):
        told |= derived_words(Strategy.model_validate(data))
    return told


def _bare(data: Any, field: str, name: str) -> Any:
    """`data` without the words that `_told` adds; refused where they contradict their strategy."""
    if isinstance(data, list):
        return [_bare(value, field, name) for value in data]
    if not isinstance(data, dict):
        return data
    if not _is_strategy(data):
        return {key: _bare(value, f"{field}.{key}", name) for key, value in data.items()}
    plain = choices(data, field, name)
    try:
        strategy = Strategy.model_validate(plain)
    except ValidationError as error:
        raise as_input_error(error, {"plan": name}, field, Strategy) from None
    refuse_contradiction(data, strategy, field, name)
    return plain


class Kept(NamedTuple):
    """A plan that was read again, with the parts somebody edited since it was written."""

    plan: Plan
    edited: tuple[str, ...]


def read_plan(source: str) -> Plan:
    """The plan in the file `source` ("-": standard input), as `plan --json` or `-o` wrote it.

    Raises `InputError` for anything else, an outcome without a plan and a newer schema included.
    """
    return read_kept(source).plan


def read_kept(source: str) -> Kept:
    """As `read_plan`, with what was edited since."""
    text, name = read_source(source, "plan")
    data = parse_json(text, "plan", name)
    try:
        return kept_from(data, name)
    except InputError as error:
        raise placed(error, json_places(text, name, "plan")) from None


WRITTEN = "written"
"""What a folder of launch files adds to its plan: hashes, which are no part of the plan."""


def plan_from(data: Mapping[str, Any], name: str) -> Plan:
    """The plan in the JSON object of the file `name`."""
    return kept_from(data, name).plan


def kept_from(data: Mapping[str, Any], name: str) -> Kept:
    """The plan in the JSON object of the file `name`, with its edited parts.

    Digests are held against the text as it stands: another commit may fill in other defaults.
    """
    status = data.get("status")
    if status in ("infeasible", "unknown") or "error" in data:
        found = status or "error"
        raise InputError("plan.status", found, name, "holds no plan", legal=["optimal", "feasible"])
    version = data.get("schema_version", "nothing")
    if "strategy" not in data and {"model", "cluster", "training"} & data.keys():
        reason = f"is a request, not a plan: `shardwise plan {shlex.quote(name)} -o plan.json` makes one"
        raise InputError("plan", name, name, reason, code="contradiction")
    if version != 1 or isinstance(version, bool):
        reason = "is no plan this version reads"
        raise InputError("plan.schema_version", version, name, reason, legal=["1"])
    try:
        plain = _bare({key: value for key, value in data.items() if key != WRITTEN}, "plan", name)
        plan = Plan.model_validate_json(json.dumps(plain))
    except ValidationError as error:
        raise as_input_error(error, {"plan": name}, "plan", Plan) from None
    except RecursionError:
        raise InputError("plan", name, name, "is nested too deeply", code="bad-file") from None
    return Kept(_unstamped(plan, edited := mismatched(data)), edited)


def _unstamped(plan: Plan, edited: tuple[str, ...]) -> Plan:
    """`plan` without the stamps that `answer_of` would set again; those that say otherwise stay."""
    made = plan.versions.get("ledger", "unnamed" if plan.digests else ledger())
    versions = {name: version for name, version in plan.versions.items() if name != "ledger"}
    versions |= {} if made == ledger() else {"ledger": made}
    return plan.model_copy(update={"versions": versions, **({} if edited else {"digests": {}})})
