"""What one rank holds and processes: parameters after every cut, tokens, and groups of ranks."""

from __future__ import annotations

from dataclasses import field
from functools import cached_property
from typing import Any

import numpy as np

from ..hardware import Cluster
from ..inputs.record import dataclass
from ..models.counts import ModelCount, count
from ..models.strategy import ELEMENT_BYTES
from ..models.training import Training
from ..models.transformer import Block, Transformer
from .columns import Floats, Ints, Strategies
from .group import Group, placed
from .portion import Cut, Portion, Whole, portions
from .schedule import chunks_held, chunks_on


@dataclass(frozen=True)
class Layout:
    """One job on one cluster under n strategies. Arrays are (n,) or, by kind of layer, (n, kinds)."""

    transformer: Transformer
    training: Training
    cluster: Cluster
    strategies: Strategies
    known: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What functions of this layout have found: see `once`."""

    @cached_property
    def counted(self) -> ModelCount:
        """Parameters of the whole model."""
        return count(self.transformer)

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The kinds of layers."""
        return self.transformer.kinds

    @property
    def reads_transposed(self) -> bool:
        """Whether 8-bit products of the card can read an operand transposed."""
        return self.cluster.node.gpu.reads_transposed

    @cached_property
    def data_ranks(self) -> Ints:
        """Ranks over which states of dense parameters may be sharded: data_parallel * context_parallel."""
        return self.strategies.data_parallel * self.strategies.context_parallel

    @cached_property
    def shard(self) -> Ints:
        """Cards that share one copy of the sharded states (1 where nothing is sharded)."""
        return np.where(self.strategies.zero_stage > 0, self.strategies.shard_group_size, 1)

    @cached_property
    def expert_ranks(self) -> Ints:
        """Ranks that hold the same experts: dp * cp * tp / (ep * etp)."""
        s = self.strategies
        return np.maximum(
            self.data_ranks * s.tensor_parallel // (s.expert_parallel * s.expert_tensor_parallel), 1
        )

    @cached_property
    def expert_shard(self) -> Ints:
        """Cards that share one copy of the sharded expert states."""
        partial = self.shard < self.data_ranks
        return np.where(self.strategies.zero_stage > 0, np.where(partial, self.shard, self.expert_ranks), 1)

    @cached_property
    def tokens(self) -> Floats:
        """Tokens T of a micro-batch on one rank: micro_batch_size * sequence_length / context_parallel."""
        s = self.strategies
        return s.micro_batch_size * self.training.sequence_length / s.context_parallel

    @cached_property
    def element_bytes(self) -> Floats:
        """Bytes of an activation and of a gathered weight: 4 in fp32 training, else 2."""
        wide = self.strategies.is_("precision", "fp32")
        return np.where(wide, ELEMENT_BYTES["fp32"], ELEMENT_BYTES["bf16"])

    @cached_property
    def hidden_bytes(self) -> Floats:
        """Bytes of the hidden states of a micro-batch, whole: element_bytes T h."""
        return self.element_bytes * self.tokens * self.transformer.hidden_size

    @cached_property
    def split_tokens(self) -> Floats:
        """Divisor of what sequence parallel splits: tensor_parallel with it, 1 without."""
        s = self.strategies
        return np.where(s.sequence_parallel > 0, s.tensor_parallel, 1).astype(np.float64)

    @property
    def cut(self) -> Cut:
        """The layers as the strategies cut them."""
        s = self.strategies
        experts = s.expert_parallel * s.expert_tensor_parallel
        model = (self.transformer, self.training, self.counted)
        return Cut(*model, s.tensor_parallel, experts, s.expert_tensor_parallel)

    @property
    def whole(self) -> Whole:
        """The model as the strategies cut it."""
        return Whole(**vars(self.cut), embedding=self.embedding, head=self.head, copy=self.embedding_copy)

    @cached_property
    def portions(self) -> tuple[Portion, ...]:
        """Parameters of a rank by byte recipe, the trained ones first."""
        return portions(self.whole)

    @property
    def trained(self) -> Portion:
        """The parameters that have gradients and an optimizer."""
        return self.portions[0]

    @cached_property
    def vocabulary(self) -> Ints:
        """Padded vocabulary: the next multiple of the backend's unit times tensor_parallel."""
        s = self.strategies
        unit = s.by_backend("vocab_multiple") * s.tensor_parallel
        return -(-self.transformer.vocab_size // unit) * unit

    @cached_property
    def embedding(self) -> Floats:
        """Parameters of embedding, positions and their projections on the first stage of a rank."""
        width = self.transformer.embedding_width or self.transformer.hidden_size
        extra = self.counted.embedding - self.transformer.vocab_size * width + self.counted.positions
        return self.vocabulary * width / self.strategies.tensor_parallel + extra

    @cached_property
    def head(self) -> Floats:
        """Parameters of head and final norm on the last stage; a tied head is a copy if stages differ."""
        width = self.transformer.embedding_width or self.transformer.hidden_size
        shared = self.transformer.tied_embeddings & (self.strategies.pipeline_parallel == 1)
        own = np.where(shared, 0, self.vocabulary * width / self.strategies.tensor_parallel)
        return own + self.counted.final_norm

    @cached_property
    def embedding_copy(self) -> Floats:
        """Parameters of the token vectors that a predictor reads on the last stage, beside a head of its own.

        Megatron-LM builds them where the predictor stands, if the first stage is another one.
        """
        model, stages = self.transformer, self.strategies.pipeline_parallel
        there = model.mtp_layers > 0 and not model.tied_embeddings
        rows = self.vocabulary * model.hidden_size / self.strategies.tensor_parallel
        return np.where((stages > 1) & there, rows, 0.0)

    @cached_property
    def run_again(self) -> Floats:
        """By kind of layer 1 where full recompute runs it again, 0 where it is kept all the same.

        Megatron-LM skips predictors under the block method, by which stages recompute a number of layers.
        """
        return np.array([0.0 if block.joins else 1.0 for block in self.blocks])

    @cached_property
    def dp_stride(self) -> Ints:
        """Distance in ranks between neighbours of the data-parallel axis."""
        s = self.strategies
        inner = s.tensor_parallel * s.context_parallel
        return np.where(s.is_("rank_order", "tp-cp-pp-dp"), inner * s.pipeline_parallel, inner)

    @cached_property
    def pp_stride(self) -> Ints:
        """Distance in ranks between neighbouring stages."""
        s = self.strategies
        inner = s.tensor_parallel * s.context_parallel
        return np.where(s.is_("rank_order", "tp-cp-pp-dp"), inner, inner * s.data_parallel)

    def group(self, size: Ints, stride: Ints) -> Group:
        """A group of `size` ranks at distance `stride`."""
        return placed(self.cluster, self.tensor, size, np.where(size > 1, size * stride, 1), size, stride)

    @cached_property
    def tensor_group(self) -> Group:
        """The ranks of one tensor-parallel group: neighbours."""
        return self.group(self.strategies.tensor_parallel, np.ones_like(self.tensor))

    @property
    def tensor(self) -> Ints:
        """tensor_parallel."""
        return self.strategies.tensor_parallel

    @cached_property
    def context_group(self) -> Group:
        """The ranks of one context-parallel group."""
        return self.group(self.strategies.context_parallel, self.tensor)

    @cached_property
    def expert_group(self) -> Group:
        """The ranks that hold all experts; folded over tensor and data ranks."""
        s = self.strategies
        return self.group(s.expert_parallel, s.expert_tensor_parallel)

    @cached_property
    def expert_tensor_group(self) -> Group:
        """The ranks over which each expert is cut: neighbours."""
        return self.group(self.strategies.expert_tensor_parallel, np.ones_like(self.tensor))

    @cached_property
    def shard_group(self) -> Group:
        """The ranks that share the sharded states (all data ranks where nothing is sharded)."""
        size = np.where(self.strategies.zero_stage > 0, self.shard, self.data_ranks)
        return self._data_group(size)

    @cached_property
    def expert_state_group(self) -> Group:
        """The ranks that share the states of the same experts: neighbours stand one expert group apart."""
        s = self.strategies
        stride = s.expert_parallel * s.expert_tensor_parallel
        inner = s.is_("rank_order", "tp-cp-pp-dp") & (stride >= s.tensor_parallel * s.context_parallel)
        stride = np.where(inner, stride * s.pipeline_parallel, stride)
        size = np.where(s.zero_stage > 0, self.expert_shard, self.expert_ranks)
        return self.group(size, stride)

    @cached_property
    def replica_group(self) -> Group:
        """The ranks that hold the same shard: data ranks beyond the shard group."""
        size = np.where(self.strategies.zero_stage > 0, self.data_ranks // self.shard, 1)
        outer = np.maximum(self.shard // self.strategies.context_parallel, 1)
        return self.group(size, self.dp_stride * outer)

    @cached_property
    def secondary_group(self) -> Group:
        """The neighbours that hold a second copy of the weights together; one rank where there is none."""
        return self._data_group(self.strategies.secondary_shard_group_size)

    def _data_group(self, size: Ints) -> Group:
        """Ranks of the context and data axes together; between them may lie the stages.

        Context ranks are the inner neighbours; the group counts whole context groups.
        """
        c = self.strategies.context_parallel
        outer = np.maximum(-(-size // c), 1)
        span = np.where(size > c, outer * self.dp_stride, size * self.tensor)
        return placed(self.cluster, self.tensor, size, np.where(size > 1, span, 1), outer, self.dp_stride)

    @cached_property
    def data_group(self) -> Group:
        """All ranks that hold the same slice of the model."""
        return self._data_group(self.data_ranks)

    @cached_property
    def pipe_group(self) -> Group:
        """Two neighbouring stages, at the boundary that crosses most.

        Some boundary, or the wrap of interleaved chunks, leaves every tier that does not hold all stages.
        """
        p = self.strategies.pipeline_parallel
        whole = self.group(p, self.pp_stride)
        return Group(np.minimum(p, 2), np.minimum(whole.per_island, 2), whole.level)

    @cached_property
    def ends_group(self) -> Group:
        """The first and the last stage: in one island where all stages are."""
        p = self.strategies.pipeline_parallel
        whole = self.group(p, self.pp_stride)
        size = np.minimum(p, 2)
        return Group(size, np.where(whole.islands > 1, 1, size), whole.level)

    @cached_property
    def in_flight(self) -> Ints:
        """Chunks in flight on each stage, (n, longest pipeline), by schedule (`models.schedule.Held`)."""
        return chunks_held(self.strategies, "in_flight")

    def flight_on(self, rows: Ints, stage: Ints) -> Ints:
        """Chunks in flight on stages (rows, columns) of some rows."""
        return chunks_on(self.strategies, "in_flight", rows, stage)

    @cached_property
    def waiting(self) -> Ints:
        """Chunks in flight whose backward for weights alone is left, (n, longest pipeline)."""
        return chunks_held(self.strategies, "waiting")
