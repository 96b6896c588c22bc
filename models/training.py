"""The job: what one optimizer step must process, what of the model it trains, and with which optimizer."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from ..inputs import Frozen, InputError
from ..inputs.quantity import count_of
from .transformer import Transformer
from .way import Way, known_way, way_of

Optimizer = Literal[
    "adamw", "adamw-bf16", "adamw-8bit", "paged-adamw-8bit", "adafactor", "lion", "muon", "sgd",
    "sgd-no-momentum",
]  # fmt: skip

Module = Literal["core_attn", "mla_up_proj", "layernorm", "moe_act", "mlp", "moe", "shared_experts"]
"""Modules of a layer that Megatron Core can run again in the backward pass, in its words."""

Part = Literal["attention", "feed_forward", "experts", "embedding", "head", "towers"]
"""Components that can be frozen."""

ALL_LINEAR = ("all-linear",)


class Training(Frozen):
    """A training job.

    `global_batch_size` counts sequences per optimizer step, `sequence_length` tokens of the longest
    sequence: memory is priced by it, time by `mean_sequence_length` where that is less. In packed
    sequences tokens attend within their document, of `mean_document_length` tokens.

    `trainable` is "all", "lora(RANK)", "qlora(RANK)" or a share of the parameters; adapters sit on the
    matrices of `lora_targets` (names of matrices, "attention", "mlp", "all-linear"); `frozen` parts are
    not trained. Without `master_weights` weights, gradients and moments are 16-bit, with no fp32 copy.
    `recompute_modules` are what selective recompute runs again; none named: what the software does by itself.
    With `offload_activations` what fully recomputed layers keep, their inputs, lies in host memory meanwhile.
    With `optimizer_in_backward` each gradient is used and freed as it comes. Without `sync_each_batch`
    sharded data parallel keeps whole gradients between micro-batches and reduces them once a step.

    `reference_model` is held beside the trained one and runs forward only (DPO, distillation): "self"
    for the model as it was at the start (under adapters it is the base itself), or another one. Its
    weights are cut as the trained ones, or with `reference_sharded` false whole on every data rank;
    `reference_output` says what of it the loss needs: log-probabilities of the tokens, or all logits.

    `mtp_layers` modules that predict further tokens are trained with the model, each with a loss of its own.
    """

    global_batch_size: int = Field(ge=1, le=2**24)
    sequence_length: int = Field(ge=1, le=2**24)
    mean_sequence_length: int | None = Field(default=None, ge=1, le=2**24)
    mean_document_length: int | None = Field(default=None, ge=1, le=2**24)
    optimizer: Optimizer = "adamw"
    master_weights: bool = True
    optimizer_in_backward: bool = False
    sync_each_batch: bool = True
    offload_activations: bool = False
    recompute_modules: tuple[Module, ...] = Field(default=(), max_length=7)
    total_tokens: int | None = Field(default=None, ge=1, le=2**62)
    trainable: str | float = "all"
    lora_targets: tuple[str, ...] = Field(default=ALL_LINEAR, min_length=1, max_length=64)
    frozen: tuple[Part, ...] = Field(default=(), max_length=6)
    reference_model: Literal["self"] | Transformer | None = None
    reference_sharded: bool = True
    reference_output: Literal["log_probs", "logits"] = "log_probs"
    mtp_layers: int = Field(default=0, ge=0, le=64)

    @field_validator("trainable", mode="before")
    @classmethod
    def _written(cls, value: Any) -> Any:
        return way_of(value).written

    @field_validator("total_tokens", mode="before")
    @classmethod
    def _counted(cls, value: Any) -> Any:
        """A number, or text as ``1T``."""
        return None if value is None else count_of(value, "training.total_tokens", "training")

    @field_validator("lora_targets", "frozen", "recompute_modules", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        """One word, words between commas, or a list of words."""
        if isinstance(value, str):
            value = [word.strip() for word in value.split(",")]
        return tuple(dict.fromkeys(value)) if isinstance(value, list | tuple) else value

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if self.global_batch_size * self.sequence_length > 2**40:
            raise ValueError("global_batch_size * sequence_length must stay below 2^40 tokens")
        for name in ("mean_sequence_length", "mean_document_length"):
            value = getattr(self, name)
            if value is not None and value > self.sequence_length:
                reason = f"must be at most sequence_length, {self.sequence_length}"
                raise InputError(
                    f"training.{name}", value, "training", reason, legal=[str(self.sequence_length)]
                )
        return self

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.lora_targets != ALL_LINEAR and not self.way.adapts:
            reason = f"has no meaning with trainable = {self.trainable}"
            raise InputError(
                "training.lora_targets", self.lora_targets, "training", reason, legal=["lora(16)"],
                code="contradiction",
            )  # fmt: skip
        if self.mtp_layers and self.reference_model is not None:
            reason = "contradicts training.reference_model: the pass of a reference is priced without them"
            raise InputError(
                "training.mtp_layers", self.mtp_layers, "training", reason, legal=["0"], code="contradiction"
            )
        if self.frozen and self.way.adapts:
            reason = f"contradicts trainable = {self.trainable}, which freezes the whole model"
            raise InputError(
                "training.frozen", self.frozen, "training", reason, legal=["all"], code="contradiction"
            )
        return self

    @property
    def way(self) -> Way:
        """`trainable`, taken apart."""
        return known_way(self.trainable)

    @property
    def timed_length(self) -> int:
        """Tokens of a sequence in the mean: what time is priced by."""
        return self.mean_sequence_length or self.sequence_length

    @property
    def attended_length(self) -> int:
        """Tokens that can see one another in the mean: of a document, else of a sequence."""
        return min(self.mean_document_length or self.timed_length, self.timed_length)

    @property
    def timed(self) -> Training:
        """The job with every sequence of the mean length: the same work and traffic."""
        if self.timed_length == self.sequence_length:
            return self
        shorter = {"sequence_length": self.timed_length, "mean_sequence_length": None}
        document = min(self.mean_document_length or self.timed_length, self.timed_length)
        return self.model_copy(update={**shorter, "mean_document_length": document})

    @property
    def tokens(self) -> int:
        """Tokens of one optimizer step."""
        return self.global_batch_size * self.timed_length
