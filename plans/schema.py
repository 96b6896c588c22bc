"""The JSON schemas of what goes in and out, made from the types."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from ..inputs import Frozen
from ..models import Strategy
from ..models.strategy import Recompute
from .check import Check
from .fields import FieldText
from .message import Diagnosis
from .no_plan import NoPlan, OutOfTime
from .plan import Plan
from .request import Request
from .row import Compare, Curve, Why

TYPES: dict[str, type[BaseModel]] = {
    "request": Request,
    "strategy": Strategy,
    "plan": Plan,
    "no_plan": NoPlan,
    "out_of_time": OutOfTime,
    "check": Check,
    "compare": Compare,
    "curve": Curve,
    "why": Why,
    "diagnosis": Diagnosis,
    "field": FieldText,
}
"""Type behind each published schema file."""


class Follows(Frozen):
    """Words that answers tell beside the choices of a strategy, which they follow from.

    The last two stand in the strategy of a plan alone.
    """

    recompute: Recompute
    overlap: dict[str, bool]
    writable_by: tuple[str, ...] = ()
    placement: dict[str, str] = {}


def schema_of(kind: type[BaseModel]) -> dict[str, Any]:
    """The schema of a type as it is printed: strategies in it may carry the words of `Follows`."""
    schema = kind.model_json_schema(mode="serialization")
    told = schema if kind is Strategy else schema.get("$defs", {}).get(Strategy.__name__)
    if told is not None:
        told["properties"] |= Follows.model_json_schema()["properties"]
    return schema
