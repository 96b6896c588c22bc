"""The JSON schemas of what goes in and out, made from the types; published under docs/schemas."""

from __future__ import annotations

import json

from pydantic import BaseModel

from ..models import Strategy
from .check import Check
from .fields import FieldText
from .message import Diagnosis
from .plan import NoPlan, OutOfTime, Plan
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


def schema_files() -> dict[str, str]:
    """File name to text of every published schema."""
    schemas = {name: kind.model_json_schema(mode="serialization") for name, kind in TYPES.items()}
    return {f"{name}.json": json.dumps(it, sort_keys=True, indent=2) + "\n" for name, it in schemas.items()}
