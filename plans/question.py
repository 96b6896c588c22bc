"""A question to `compare`: a request, cases laid over it, and a field along which their ranking may flip."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..inputs import InputError
from ..inputs.origin import placed
from ..inputs.record import dataclass
from .raw import Raw
from .request import Request
from .settings import INSIDE, field_of


@dataclass(frozen=True)
class Question:
    """`cases` are (name, dotted field to value); `along` is (field, low, high) of a break-even, or None."""

    request: Request
    cases: tuple[tuple[str, Mapping[str, Any]], ...]
    along: tuple[str, float, float] | None


def question_of(raw: Raw, read: Callable[[Raw], Request]) -> Question:
    """The question in `raw`, whose other tables `read` makes into a request. Raises `InputError`."""
    cases, along = raw.tree.pop("cases", {}), raw.tree.pop("break_even", None)
    if not isinstance(cases, dict) or not all(isinstance(case, dict) for case in cases.values()):
        raise InputError("cases", cases, _at(raw, "cases"), "must be tables: [cases.NAME]")
    named = tuple(
        (name, {field_of(key, _at(raw, f"cases.{name}.{key}")): value for key, value in case.items()})
        for name, case in cases.items()
    )
    request = read(raw)
    for name, changes in named:
        keys = {field_of(key, ""): f"cases.{name}.{key}" for key in cases[name]}
        _refuse_bad(request, name, changes, {field: _at(raw, path) for field, path in keys.items()})
    return Question(request, named, None if along is None else _along(along, _at(raw, "break_even")))


def _refuse_bad(request: Request, name: str, changes: Mapping[str, Any], places: Mapping[str, str]) -> None:
    """Refuses a case that cannot be, with the place of the field that is at fault."""
    try:
        request.changed(dict(changes), origin=f"case {name}")
    except InputError as error:
        raise placed(error, places) from None


def _at(raw: Raw, field: str) -> str:
    return raw.origins.get(field) or raw.origins.get(field.partition(".")[0]) or "request"


def _along(table: Any, origin: str) -> tuple[str, float, float]:
    """(field, low, high) of a [break_even] table."""
    if not isinstance(table, dict) or set(table) != {"field", "low", "high"}:
        raise InputError("break_even", table, origin, "must have exactly field, low and high")
    return along_of(table["field"], table["low"], table["high"], origin)


def along_of(key: str, low: object, high: object, origin: str) -> tuple[str, float, float]:
    """(field, low, high) of a break-even, checked."""
    field = field_of(str(key), origin)
    numeric = ("training.global_batch_size", "training.sequence_length", "cluster.oversubscription")
    if field not in numeric and not field.startswith((INSIDE, "limits.")):
        reason = "must be a number of the machine, the batch, the sequence or a limit"
        raise InputError("break_even.field", key, origin, reason, legal=["cluster.node.nic_bytes_per_s"])
    ends = [end for end in (low, high) if isinstance(end, int | float) and not isinstance(end, bool)]
    if len(ends) < 2 or not ends[0] < ends[1]:
        raise InputError("break_even.low", low, origin, "low and high must be numbers, low below high")
    return field, float(ends[0]), float(ends[1])
