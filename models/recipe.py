"""Byte recipes: what one parameter costs in weights, gradients and optimizer state."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import Field

from ..inputs import InputError, nearest
from ..inputs.data import data
from ..inputs.listed import Entries, Listed
from ..inputs.record import dataclass


@dataclass(frozen=True, kw_only=True)
class Recipe(Listed):
    """Bytes a parameter: `optimizer_bytes` with the master copy, `step_bytes` alive only at the step."""

    name: str
    weights_bytes: Annotated[float, Field(ge=0)]
    gradients_bytes: Annotated[float, Field(ge=0)]
    optimizer_bytes: Annotated[float, Field(ge=0)]
    step_bytes: Annotated[float, Field(ge=0)]
    wire_gather_bytes: Annotated[float, Field(ge=0)]
    wire_reduce_bytes: Annotated[float, Field(ge=0)]
    transposed_bytes: Annotated[float, Field(ge=0)] = 0.0
    """Of `weights_bytes` a transposed copy, which cards that read operands both ways need not hold."""
    of_products: bool = False
    """Whether `weights_bytes` are those of matrices that 8- or 4-bit products read: embedding and head, which
    are not among them, stay in 16 bits (Megatron Core: neither is a module of Transformer Engine)."""
    widened_bytes: Annotated[float, Field(ge=0)] = 0.0
    """What a micro-batch reads and writes more than a sum in the gradient's own type: its gradient is copied
    to the wider type of the sum and added there."""
    source: str

    def held_by(self, reads_transposed: bool) -> Recipe:
        """The recipe on a card that can read an operand of 8-bit products transposed, or cannot.

        >>> recipe("megatron-fp8-adamw").held_by(reads_transposed=True).weights_bytes
        3.0
        """
        if not (reads_transposed and self.transposed_bytes):
            return self
        return replace(self, weights_bytes=self.weights_bytes - self.transposed_bytes, transposed_bytes=0.0)

    @property
    def ends_weights_bytes(self) -> float:
        """Bytes of a weight of embedding and head.

        >>> [recipe(name).ends_weights_bytes for name in ("megatron-fp8-adamw", "megatron-bf16-adamw")]
        [2.0, 2.0]
        """
        return 2.0 if self.of_products else self.weights_bytes

    @property
    def total_bytes(self) -> float:
        """Resident bytes a parameter before sharding."""
        return self.weights_bytes + self.gradients_bytes + self.optimizer_bytes


@dataclass(frozen=True, kw_only=True)
class Loss(Listed):
    """A loss implementation: bytes per token and vocabulary entry, alive at its worst instant and moved."""

    name: str
    bytes_per_entry: Annotated[float, Field(ge=0)]
    tensor_parallel_bytes_per_entry: Annotated[float, Field(ge=0)]
    whole_vocabulary: bool = False
    """Whether logits are gathered before the loss: each tensor rank then holds every entry."""
    chunks: Annotated[int, Field(ge=1)] | Literal["vocabulary / hidden size"] = 1
    """Parts that the tokens are taken in, one after another: their number, or so many that the logits of one
    are about as large as all hidden states, each a power of 2 tokens."""
    gradients_in_forward: bool = False
    """Whether the gradients of the head and of its input stand in the forward pass already."""
    kept_bytes_per_entry: Annotated[float, Field(ge=0)] = 0.0
    """What its own backward keeps, where another loss runs before that: of backends that train predictors."""
    moved_bytes_per_entry: Annotated[float, Field(ge=0)]
    """What its kernels read and write, both passes together, the head's product apart."""
    source: str


@cache
def table(name: str) -> dict[str, dict[str, Any]]:
    """The entries of the catalogue file `name`, by key."""
    entries: dict[str, dict[str, Any]] = data(__package__, "catalogue", f"{name}.json")[name]
    return entries


@cache
def recipes() -> Entries[Recipe]:
    """All byte recipes by name."""
    return Entries(table("recipes"), lambda name, entry: Recipe.listed(name=name, **entry))


@cache
def losses() -> Entries[Loss]:
    """All loss kernels by name."""
    return Entries(table("losses"), lambda name, entry: Loss.listed(name=name, **entry))


def recipe(name: str, origin: str = "recipe") -> Recipe:
    """The recipe `name`; raises `InputError` with the nearest names.

    >>> recipe("zero-paper").total_bytes
    16.0
    """
    if name not in recipes():
        raise InputError("recipe", name, origin, "no such byte recipe", legal=nearest(name, recipes()))
    return recipes()[name]
