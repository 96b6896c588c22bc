"""The hash of a plan and of each of its files, and what somebody has edited since."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..inputs import read_json
from ..inputs.error import InputError
from ..models.chunks import in_order
from ..models.strategy import Strategy
from ..models.transformer import Transformer
from ..plans.plan import Plan
from ..plans.request import Request
from ..plans.saved import WRITTEN, answer_of, as_json, plan_from
from .documents import Document

PLAN = "plan.json"
SHORT = 4
"""Digits of a hash that people are told."""


class Edit(NamedTuple):
    """A choice of the plan that a file now states otherwise."""

    field: str
    was: str
    now: str


class Origin(NamedTuple):
    """The plan some files were written for: its hash, files and choices changed since; the plan itself."""

    plan_hash: str
    edited_files: tuple[str, ...]
    edits: tuple[Edit, ...]
    plan: Plan


def digest(text: str) -> str:
    """SHA-256 of a text, as `sha256sum` prints it."""
    return hashlib.sha256(text.encode()).hexdigest()


def plan_hash(plan: Plan) -> str:
    """SHA-256 of the plan as JSON."""
    return digest(as_json(plan))


def with_sums(plan: Plan, target: str, files: Mapping[str, str]) -> str:
    """`plan.json`: the plan, its hash, the client and the SHA-256 of each of `files`."""
    sums = {name: digest(text) for name, text in files.items()}
    return as_json(
        answer_of(plan) | {WRITTEN: {"plan_hash": plan_hash(plan), "target": target, "files": sums}}
    )


def origin_of(documents: Sequence[Document], strategy: Strategy) -> Origin | None:
    """What a plan.json beside `documents`, which state `strategy`, tells of them; None without one."""
    folder = os.path.dirname(documents[0].name)
    try:
        data = read_json(os.path.join(folder, PLAN), "plan")
        written: Any = data.get(WRITTEN)
        plan = plan_from(data, PLAN)
    except InputError:
        return None
    if not isinstance(written, dict) or not isinstance(written.get("files"), dict):
        return None
    edited = [name for name, sum_ in written["files"].items() if _sum(folder, name) not in (None, sum_)]
    if plan_hash(plan) != written.get("plan_hash"):
        edited.append(PLAN)
    return Origin(str(written.get("plan_hash")), tuple(edited), tuple(edits(plan.strategy, strategy)), plan)


def edits(was: Strategy, now: Strategy) -> list[Edit]:
    """Choices in which two strategies differ."""
    old, new = _flat(was), _flat(now)
    return [Edit(name, old[name], new[name]) for name in old if old[name] != new.get(name, old[name])]


def other_job(was: Request, now: Request) -> list[Edit]:
    """Fields of the job, its model and its machines in which the request of a plan differs from another."""
    old, new = _told(was), _told(now)
    return [Edit(name, old[name], new[name]) for name in old if old[name] != new[name]]


def _told(request: Request) -> dict[str, str]:
    """Model, machines, cards and each field of the job, as text."""
    cluster = request.cluster
    found = {"model": request.model.name, "cluster": cluster.name, "cluster.gpus": str(cluster.gpus)}
    return found | {f"training.{name}": _field(value) for name, value in request.training}


def _field(value: object) -> str:
    if isinstance(value, Transformer):
        return value.name
    return ", ".join(map(str, value)) if isinstance(value, tuple) else _word(value)


def _flat(strategy: Strategy) -> dict[str, str]:
    """Choices by name as text; the integers of stages as one list each."""
    found = {name: _word(value) for name, value in strategy.row().items()}
    for name in ("layers", "recompute_full_layers", "recompute_selective_layers", "offloaded_layers"):
        counts = [getattr(stage, name) for stage in strategy.stages]
        found[name] = json.dumps(counts[0] if len(counts) == 1 else counts)
    if strategy.virtual_pipeline > 1:
        found["chunk_layers"] = json.dumps(in_order(strategy))
    return found


def _word(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _sum(folder: str, name: str) -> str | None:
    """SHA-256 of a file of the folder, None where it is gone."""
    path = os.path.join(folder, os.path.basename(name))
    if not os.path.isfile(path):
        return None
    sums = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(2**16), b""):
            sums.update(block)
    return sums.hexdigest()
