"""The job: what one optimizer step must process, and with which optimizer."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from ..inputs import Frozen

Optimizer = Literal["adamw", "adamw-bf16", "adamw-8bit", "adafactor", "lion", "muon", "sgd"]


class Training(Frozen):
    """A training job.

    `global_batch_size` counts sequences per optimizer step, `sequence_length` tokens a sequence.
    """

    global_batch_size: int = Field(ge=1, le=2**24)
    sequence_length: int = Field(ge=1, le=2**24)
    optimizer: Optimizer = "adamw"
    total_tokens: int | None = Field(default=None, ge=1, le=2**62)

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if self.global_batch_size * self.sequence_length > 2**40:
            raise ValueError("global_batch_size * sequence_length must stay below 2^40 tokens")
        return self

    @property
    def tokens(self) -> int:
        """Tokens of one optimizer step."""
        return self.global_batch_size * self.sequence_length
