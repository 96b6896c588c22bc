"""A transformer as the ledger sees it: embedding, runs of blocks, head."""

from __future__ import annotations

import os
from typing import Literal, Self

from pydantic import Field, model_validator

from ..inputs import Frozen

Width = int
_BIG = 2**31


class Attention(Frozen):
    """One kind of attention: grouped-query (kv_heads < heads), multi-head (equal), or latent (MLA).

    `window` is the sliding window in tokens, None for full causal attention. `kv_rank`, `q_rank` and
    `rope_head_dim` are set for latent attention only: keys and values come from a compressed vector
    of `kv_rank`, queries from one of `q_rank` (0: straight from the hidden state); `head_dim` is then
    the part of a query head without rotary position and `value_head_dim` that of a value head.
    """

    heads: int = Field(ge=1, le=65536)
    kv_heads: int = Field(ge=1, le=65536)
    head_dim: int = Field(ge=1, le=65536)
    value_head_dim: int | None = Field(default=None, ge=1, le=65536)
    window: int | None = Field(default=None, ge=1, le=_BIG)
    qkv_bias: bool = False
    output_bias: bool = False
    qk_norm: Literal["none", "per_head", "full"] = "none"
    kv_rank: int | None = Field(default=None, ge=1, le=_BIG)
    q_rank: int = Field(default=0, ge=0, le=_BIG)
    rope_head_dim: int = Field(default=0, ge=0, le=65536)

    @model_validator(mode="after")
    def _grouped(self) -> Self:
        if self.heads % self.kv_heads:
            raise ValueError(f"kv_heads {self.kv_heads} does not divide heads {self.heads}")
        return self

    @property
    def query_width(self) -> Width:
        """Width q of all query heads, elements a token."""
        return self.heads * (self.head_dim + self.rope_head_dim)

    @property
    def kv_width(self) -> Width:
        """Width kappa of all key (or value) heads, elements a token."""
        return self.kv_heads * (self.head_dim + self.rope_head_dim)

    @property
    def output_width(self) -> Width:
        """Width of the attention output before its projection, elements a token."""
        return self.heads * (self.value_head_dim or self.head_dim)


class FeedForward(Frozen):
    """One kind of feed-forward: dense (experts = 0) or mixture of experts.

    `width` is the inner width of the dense layer, or of ONE expert; `gated` counts three matrices
    (SwiGLU, GeGLU) instead of two. `shared_width` is the inner width of all shared experts together.
    """

    width: Width = Field(ge=1, le=_BIG)
    gated: bool = True
    bias: bool = False
    experts: int = Field(default=0, ge=0, le=65536)
    experts_per_token: int = Field(default=0, ge=0, le=65536)
    shared_width: Width = Field(default=0, ge=0, le=_BIG)
    shared_gate: bool = False
    router_bias: bool = False

    @model_validator(mode="after")
    def _routed(self) -> Self:
        if self.experts and not 1 <= self.experts_per_token <= self.experts:
            raise ValueError(
                f"experts_per_token {self.experts_per_token} must lie in 1..experts ({self.experts})"
            )
        if not self.experts and (self.experts_per_token or self.shared_width):
            raise ValueError("experts_per_token and shared_width need experts")
        return self

    @property
    def matrices(self) -> int:
        """Weight matrices of one feed-forward or expert: 3 gated, 2 otherwise."""
        return 3 if self.gated else 2


class Block(Frozen):
    """One kind of layer. `norms` counts normalisations over the hidden width (Llama 2, Gemma 3 has 4)."""

    attention: Attention
    feed_forward: FeedForward
    norm: Literal["rms", "layer"] = "rms"
    norms: int = Field(default=2, ge=0, le=8)


class Run(Frozen):
    """`layers` equal blocks in a row."""

    block: Block
    layers: int = Field(ge=1, le=65536)


class Transformer(Frozen):
    """Embedding, runs of blocks, head. One type for GPT, Llama, Mixtral, DeepSeek and mixed stacks.

    `vocab_size` is what the config says; padding for tensor parallel is the ledger's business.
    `positions` are learned position vectors (0 for rotary). `embedding_width` differs from
    `hidden_size` where two projections stand between (OPT-350M).
    """

    name: str
    family: str
    hidden_size: Width = Field(ge=1, le=2**20)
    vocab_size: int = Field(ge=1, le=2**26)
    runs: tuple[Run, ...] = Field(min_length=1, max_length=4096)
    tied_embeddings: bool = False
    positions: int = Field(default=0, ge=0, le=2**26)
    embedding_width: Width | None = Field(default=None, ge=1, le=2**20)
    embedding_norm: bool = False
    final_norm: bool = True
    head_bias: bool = False
    max_sequence_length: int | None = Field(default=None, ge=1)
    source: str = ""

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if self.layers > 4096:
            raise ValueError(f"{self.layers} layers; at most 4096 are read")
        return self

    @property
    def layers(self) -> int:
        """Layers of the whole stack."""
        return sum(run.layers for run in self.runs)

    @property
    def kinds(self) -> tuple[Block, ...]:
        """The distinct blocks, in order of first appearance."""
        return tuple(dict.fromkeys(run.block for run in self.runs))

    @property
    def kind_of_layer(self) -> tuple[int, ...]:
        """Index into `kinds` for each layer, by depth."""
        index = {block: k for k, block in enumerate(self.kinds)}
        return tuple(index[run.block] for run in self.runs for _ in range(run.layers))

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Transformer:
        """The model of a Hugging Face config.json, or of the folder that holds one (InputError)."""
        from .reader import read_config

        return read_config(path)

    @classmethod
    def preset(cls, name: str, origin: str = "preset") -> Transformer:
        """The model of that name in the catalogue, any case, aliases too (InputError).

        >>> Transformer.preset("meta-llama/Llama-3.1-8B").layers
        32
        """
        from .catalogue import preset

        return preset(name, origin)
