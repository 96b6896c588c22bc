"""What a plan must keep to, and what it should make small."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field, ValidationInfo, field_validator

from ..inputs import Frozen
from ..inputs.quantity import bytes_of

TierName = Literal["island", "node", "leaf", "spine"]


class Limits(Frozen):
    """Hard limits of the search.

    `memory_margin` is the share of usable card memory kept free; `tensor_parallel_within` the
    widest tier a tensor-parallel group may span; `max_step_seconds` a deadline for one optimizer
    step; `host_memory_bytes` the most that offloaded states may take of a node's host memory (bytes, or
    "1.5TB", "512GiB"), None for all that the node can give; `max_usd_per_hour` what the whole cluster may
    cost.

    `max_comm_fraction` is the largest share of the step that communication may show (`time.comm_fraction`,
    in whole ten-thousandths); `max_uplink_bytes_per_step` what the network cards of one machine together
    may send in a step (`uplink_bytes_per_step`; bytes, or "40GB").
    """

    model_config = ConfigDict(strict=True)

    memory_margin: float = Field(default=0.08, ge=0, le=0.9)
    tensor_parallel_within: TierName | None = None
    max_step_seconds: float | None = Field(default=None, gt=0, le=1e9)
    host_memory_bytes: int | None = Field(default=None, ge=1)
    max_usd_per_hour: float | None = Field(default=None, gt=0, le=1e9)
    max_comm_fraction: float | None = Field(default=None, ge=0, le=1)
    max_uplink_bytes_per_step: int | None = Field(default=None, ge=0, le=2**60)

    @property
    def on_stages(self) -> bool:
        """Whether something is limited that no row tells alone: what stages show and send."""
        return self.max_comm_fraction is not None or self.max_uplink_bytes_per_step is not None

    def host_bytes(self, share_bytes: int) -> int:
        """Bytes that offloaded states may take of a node that can give `share_bytes` (0: not known).

        A limit lowers what a node can give; it makes no machine larger.

        >>> Limits(host_memory_bytes=100).host_bytes(90), Limits(host_memory_bytes=80).host_bytes(90)
        (90, 80)
        """
        if self.host_memory_bytes is None:
            return share_bytes
        return min(self.host_memory_bytes, share_bytes or self.host_memory_bytes)

    @field_validator("host_memory_bytes", "max_uplink_bytes_per_step", mode="before")
    @classmethod
    def _bytes(cls, value: Any, info: ValidationInfo) -> Any:
        return None if value is None else bytes_of(value, f"limits.{info.field_name}", "limits")


class Objective(Frozen):
    """What is made as small as possible.

    With `gpus` the fewest cards of the cluster that have a plan within every limit, and on these the fastest.
    """

    minimize: Literal["step_seconds", "usd_per_token", "gpus"] = "step_seconds"
