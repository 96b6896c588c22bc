"""Which part of each component is trained: of attention, feed-forward, experts, embedding, head, towers."""

from __future__ import annotations

from typing import NamedTuple

from .training import Training
from .transformer import Transformer


class Shares(NamedTuple):
    """Trained parameters over all, by component, 0 to 1. `replicated` are norms, router and biases."""

    attention: float
    dense: float
    experts: float
    replicated: float
    embedding: float
    head: float
    towers: tuple[float, ...] = ()

    @classmethod
    def all_of(cls, towers: int) -> Shares:
        """Everything, of a model with so many towers."""
        return cls(1.0, 1.0, 1.0, 1.0, 1.0, 1.0, (1.0,) * towers)

    @property
    def rest(self) -> Shares:
        """What is left of each component."""
        return Shares(
            attention=1.0 - self.attention,
            dense=1.0 - self.dense,
            experts=1.0 - self.experts,
            replicated=1.0 - self.replicated,
            embedding=1.0 - self.embedding,
            head=1.0 - self.head,
            towers=tuple(1.0 - share for share in self.towers),
        )

    @property
    def whole(self) -> bool:
        """Whether everything is trained."""
        return not any((*self.rest[:-1], *self.rest.towers))


def trained_shares(training: Training, model: Transformer) -> Shares:
    """The shares of a job: none of the model's own parameters where adapters are trained.

    >>> trained_shares(Training(global_batch_size=1, sequence_length=1, trainable=0.25),
    ...     Transformer.preset("llama-3.1-8b")).head
    0.25
    """
    way = training.way
    share = 0.0 if way.adapts else way.share
    frozen = set(training.frozen)

    def of(*parts: str) -> float:
        return 0.0 if frozen.intersection(parts) else share

    return Shares(
        attention=of("attention"),
        dense=of("feed_forward"),
        experts=of("feed_forward", "experts"),
        replicated=0.0 if {"attention", "feed_forward"} <= frozen else share,
        embedding=of("embedding"),
        head=of("head"),
        towers=tuple(of("towers") if tower.trained else 0.0 for tower in model.towers),
    )
