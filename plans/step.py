"""A step of a plan as told: its seconds by term, its bytes by tier, its dollars."""

from __future__ import annotations

from ..inputs import Frozen


class Uncertainty(Frozen):
    """Where the step time is expected with 80 % probability, and what that rests on."""

    low_seconds: float
    high_seconds: float
    basis: str


class TimeReport(Frozen):
    """Seconds of one optimizer step; `terms_seconds` add up to `step_seconds` in whole nanoseconds."""

    step_seconds: float
    terms_seconds: dict[str, float]
    hidden_seconds: dict[str, float]
    comm_fraction: float
    limit_seconds: float
    limit_fraction: float
    tokens_per_second: float
    tokens_per_second_per_gpu: float
    model_tflops_per_gpu: float
    mfu: float
    hfu: float
    uncertainty: Uncertainty


class Traffic(Frozen):
    """Bytes one card sends in a step for one axis of parallelism over one tier of the cluster."""

    axis: str
    tier: str
    bytes_per_card: int


class Cost(Frozen):
    """Dollars and days where price and total tokens are known; low and high go with the step's seconds."""

    usd_per_hour: float | None = None
    usd_per_million_tokens: float | None = None
    days: float | None = None
    days_low: float | None = None
    days_high: float | None = None
    usd_total: float | None = None
    usd_total_low: float | None = None
    usd_total_high: float | None = None
