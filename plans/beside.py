"""What stands beside a plan: other classes, what else would pay, the ladder to it, warnings."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import PlainSerializer, ValidatorFunctionWrapHandler, WrapValidator

from ..inputs import Frozen
from ..inputs.later import Later
from ..models.strategy import Strategy
from .peak import Verdict


class Alternative(Frozen):
    """The best plan of another class and what it loses."""

    name: str
    strategy: Strategy
    step_seconds: float
    memory_bytes: int
    loss_percent: float
    why: str


class Offer(Frozen):
    """What the request does not allow but would pay."""

    set: str
    resulting_step_seconds: float
    gain_percent: float
    caveat: str


class Rung(Frozen):
    """One step of the ladder from plain data parallel to the plan: the lever, and what stands after it.

    `bought_bytes` and `paid_seconds` are against the rung the lever starts from; `hidden_seconds` those that
    overlap hides: without it the step would take so much longer.
    """

    lever: str
    set: str
    memory_bytes: int
    step_seconds: float
    bought_bytes: int = 0
    paid_seconds: float = 0.0
    hidden_seconds: float = 0.0
    verdict: Verdict


class Notice(Frozen):
    """A warning with what to do about it."""

    code: str
    message: str
    hint: str


def _kept(values: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    """Values that are made later stay so; others are validated."""
    return values if isinstance(values, Later) else handler(values)


Alternatives = Annotated[
    tuple[Alternative, ...],
    WrapValidator(_kept),
    PlainSerializer(tuple, return_type=tuple[Alternative, ...]),
]
Offers = Annotated[
    tuple[Offer, ...], WrapValidator(_kept), PlainSerializer(tuple, return_type=tuple[Offer, ...])
]
Ladder = Annotated[
    tuple[Rung, ...], WrapValidator(_kept), PlainSerializer(tuple, return_type=tuple[Rung, ...])
]
"""Tuples that may be a `Later`."""
