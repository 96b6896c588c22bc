"""Portions: the parameters of a rank by byte recipe — trained ones, frozen ones, frozen ones in 4 bits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from ..inputs.record import dataclass
from ..models.adapters import adapted
from ..models.counts import ModelCount
from ..models.shares import Shares, trained_shares
from ..models.training import Training
from ..models.transformer import Block, Transformer
from .columns import Floats, Ints

PortionName = Literal["trained", "frozen", "quantised"]


@dataclass(frozen=True)
class Portion:
    """Unsharded parameters of a rank that share a byte recipe.

    `dense` and `expert` are those of a layer, (n, kinds): routed experts apart; `first` and `last` those
    of embedding and head, (n,).
    """

    name: PortionName
    dense: Floats
    expert: Floats
    first: Floats
    last: Floats

    @property
    def layer(self) -> Floats:
        """Parameters of a layer, by kind."""
        return self.dense + self.expert

    @property
    def empty(self) -> bool:
        """Whether nothing has this recipe."""
        return not (self.dense.any() or self.expert.any() or self.first.any() or self.last.any())


@dataclass(frozen=True)
class Cut:
    """The layers of the model as ranks hold them: degrees that cut a layer, (n,)."""

    transformer: Transformer
    training: Training
    counted: ModelCount
    tensor: Ints
    experts: Ints
    """expert_parallel * expert_tensor_parallel."""
    expert_tensor: Ints

    def layers(self, shares: Shares) -> tuple[Floats, Floats]:
        """(dense, routed) parameters of a layer that `shares` leave, (n, kinds)."""
        t, layers = self.tensor, self.counted.layers
        dense = [_dense(k.attention, k.dense, k.replicated, shares, t) for k in layers]
        return np.stack(dense, axis=1), np.stack(
            [shares.experts * k.experts / self.experts for k in layers], axis=1
        )

    def quantised(self) -> Portion:
        """What lies in 4 bits of a layer, without embedding and head."""
        none = np.zeros(len(self.tensor))
        return Portion("quantised", *self.layers(_packed(self)), none, none)


def _packed(cut: Cut) -> Shares:
    """Shares of the weights in 4 bits: frozen matrices of layers."""
    rest = trained_shares(cut.training, cut.transformer).rest
    return rest._replace(replicated=0.0, embedding=0.0, head=0.0, towers=(0.0,) * len(rest.towers))


@dataclass(frozen=True)
class Whole(Cut):
    """The model as ranks hold it, with parameters of embedding and head, (n,)."""

    embedding: Floats
    head: Floats
    copy: Floats
    """Of the embedding on the last stage."""

    @property
    def towers(self) -> int:
        """Parameters of all towers, which `embedding` includes."""
        return sum(self.counted.towers)

    def part(self, name: PortionName, shares: Shares) -> Portion:
        """`shares` of every component."""
        own = sum(size * share for size, share in zip(self.counted.towers, shares.towers, strict=True))
        return Portion(
            name,
            *self.layers(shares),
            (self.embedding - self.towers) * shares.embedding + own,
            self.head * shares.head + self.copy * shares.embedding,
        )

    def adapters(self) -> Portion:
        """The adapters alone: those of a cut side of a matrix are cut with it."""
        columns = [self._adapters(block) for block in self.transformer.kinds]
        none = np.zeros(len(self.tensor))
        dense, expert = (np.stack(part, axis=1) for part in zip(*columns, strict=True))
        return Portion("trained", dense, expert, none, none)

    def _adapters(self, block: Block) -> tuple[Floats, Floats]:
        """(dense, routed) adapter parameters of one layer on a rank."""
        rank = self.training.way.rank
        dense, expert = np.zeros(len(self.tensor)), np.zeros(len(self.tensor))
        for matrix in adapted(block, self.transformer.hidden_size, self.training.lora_targets):
            cut = self.expert_tensor if matrix.routed else self.tensor
            inputs = matrix.inputs / (cut if matrix.cut == "row" else 1)
            outputs = matrix.outputs / (cut if matrix.cut == "column" else 1)
            if matrix.routed:
                local = matrix.copies * self.expert_tensor / self.experts
                expert = expert + rank * (inputs + outputs) * local
            else:
                dense = dense + rank * (inputs + outputs)
        return dense, expert


def _dense(attention: int, forward: int, kept: int, shares: Shares, tensor: Ints) -> Floats:
    found: Floats = (attention * shares.attention + forward * shares.dense) / tensor
    return found + kept * shares.replicated


def portions(whole: Whole) -> tuple[Portion, ...]:
    """The portions of a job that hold anything, the trained one first."""
    return tuple(part for part in _portions(whole) if part.name == "trained" or not part.empty)


def _portions(whole: Whole) -> Iterator[Portion]:
    shares = trained_shares(whole.training, whole.transformer)
    kind = whole.training.way.kind
    yield whole.adapters() if whole.training.way.adapts else whole.part("trained", shares)
    if shares.whole:
        return
    rest = shares.rest
    if kind == "qlora":
        yield whole.part("quantised", _packed(whole))
        rest = rest._replace(attention=0.0, dense=0.0, experts=0.0)
    yield whole.part("frozen", rest)
