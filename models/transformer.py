"""A transformer as the ledger sees it: embedding, runs of blocks, head."""

from __future__ import annotations

import os
from functools import cached_property
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from ..inputs import Frozen, InputError
from .constants import Constants
from .mixers import Mixing, Width

_BIG = 2**31

JOINING_NORMS = 3
"""Norms of a module that predicts a further token: of hidden states, of the embedding, before the head."""


class FeedForward(Frozen):
    """One kind of feed-forward: dense (experts = 0), mixture of experts, or none (width 0).

    `width` is the inner width of the dense layer, or of ONE expert; `gated` counts three matrices
    (SwiGLU, GeGLU) instead of two. `shared_width` is the inner width of what every token meets beside
    its routed experts: shared experts together, or a dense feed-forward in the same layer (Gemma 4,
    Arctic). `latent_width` is the width the routed experts read and write where two projections stand
    between (Nemotron 3). `other` counts replicated parameters that belong to no field here.
    """

    width: Width = Field(ge=0, le=_BIG)
    gated: bool = True
    bias: bool = False
    experts: int = Field(default=0, ge=0, le=65536)
    experts_per_token: int = Field(default=0, ge=0, le=65536)
    shared_width: Width = Field(default=0, ge=0, le=_BIG)
    shared_gate: bool = False
    router_bias: bool = False
    latent_width: Width | None = Field(default=None, ge=1, le=2**20)
    other: int = Field(default=0, ge=0, le=2**40)

    @model_validator(mode="after")
    def _routed(self) -> Self:
        if self.experts and not 1 <= self.experts_per_token <= self.experts:
            raise ValueError(
                f"experts_per_token {self.experts_per_token} must lie in 1..experts ({self.experts})"
            )
        if self.experts and not self.width:
            raise ValueError("experts need a width")
        if not self.experts and (self.experts_per_token or self.shared_width):
            raise ValueError("experts_per_token and shared_width need experts")
        return self

    @property
    def matrices(self) -> int:
        """Weight matrices of one feed-forward or expert: 3 gated, 2 otherwise."""
        return 3 if self.gated else 2


class Block(Frozen):
    """One kind of layer. `norms` counts normalisations over the hidden width (Llama 2, Gemma 3 has 4).

    `norm` says what one holds: a scale ("rms", or "scale" for a LayerNorm without bias), scale and bias
    ("layer"), nothing ("none", OLMo). `beside` are further mixers of the same layer: cross-attention
    over an encoder (T5), a state space next to attention (Falcon-H1). `other` counts replicated
    parameters of the layer beside all that. Order and residuals (parallel attention and feed-forward,
    norms before or after) change no number.
    """

    attention: Mixing
    feed_forward: FeedForward
    norm: Literal["rms", "layer", "scale", "none"] = "rms"
    norms: int = Field(default=2, ge=0, le=16)
    beside: tuple[Mixing, ...] = ()
    other: int = Field(default=0, ge=0, le=2**40)

    joins: ClassVar[bool] = False
    """Whether it joins two hidden states of a token, 2 h -> h, and is followed by a head pass of its own."""

    @property
    def mixers(self) -> tuple[Mixing, ...]:
        """The attention and what stands beside it."""
        return (self.attention, *self.beside)


class Module(Block):
    """One module that predicts a further token (MTP), as a layer of the stack.

    It norms the hidden states and the embedding of the further token, projects both together (2 h -> h), runs
    the block, and norms what it gives to the head of the model. DeepSeek-V3 report, section 2.2.
    """

    joins: ClassVar[bool] = True

    @classmethod
    def of(cls, predictor: Predictor, hidden: int) -> Module:
        """A module of `predictor`: its block with three norms more; beside these the 2 h^2 of the projection.

        >>> Module.of(Transformer.preset("deepseek-v3").predictor, 7168).norms
        5
        """
        block = predictor.block
        norms = JOINING_NORMS * {"rms": 1, "scale": 1, "layer": 2, "none": 0}[block.norm] * hidden
        beside = max(predictor.other - 2 * hidden * hidden - norms, 0)
        return cls(**{**dict(block), "norms": block.norms + JOINING_NORMS, "other": block.other + beside})


class Run(Frozen):
    """`layers` equal blocks in a row."""

    block: Block
    layers: int = Field(ge=1, le=65536)


class Tower(Frozen):
    """An encoder of images or sound that feeds the stack: its own layers, width and parameters.

    `other` are its patch and position embeddings and outer norms, `connector` the projection into the
    hidden width of the stack (often trained while the tower is frozen: `trained` false). `tokens` are
    the patches of one image or clip at the size the file names, before any merging.
    """

    name: str
    family: str
    hidden_size: Width = Field(ge=1, le=2**20)
    runs: tuple[Run, ...] = Field(min_length=1, max_length=4096)
    tokens: int | None = Field(default=None, ge=1, le=_BIG)
    other: int = Field(default=0, ge=0, le=2**48)
    connector: int = Field(default=0, ge=0, le=2**48)
    trained: bool = True


class Predictor(Frozen):
    """`depth` modules that predict further tokens (MTP), each one `block` and `other` parameters.

    Embedding and head are those of the model. Counted apart from it: a file holds them, and training
    may leave them out.
    """

    block: Block
    depth: int = Field(ge=1, le=64)
    other: int = Field(default=0, ge=0, le=2**48)


class Transformer(Frozen):
    """Embedding, runs of blocks, head. One type for GPT, Llama, DeepSeek, Mamba, BERT, T5 and mixed stacks.

    `vocab_size` is what the config says; padding for tensor parallel is the ledger's business.
    `positions` are learned position vectors (0 for rotary). `embedding_width` differs from
    `hidden_size` where two projections stand between (OPT-350M). `head` is false where the model ends
    with its last hidden state (BertModel). `other` counts parameters outside embedding, layers and head:
    token types, position buckets, poolers, norms between stacks, embeddings of each layer.

    An encoder-decoder is one stack: the first `encoder_layers` are the encoder, the rest attend to it.
    `mtp_layers` modules of `predictor` are trained: they are the last layers of the stack, of a kind of their
    own, and part of every count. `constants` are the numbers that cost nothing and every run needs, None
    where they are not known. `notes` are sentences on the file it was read from that a person should know.
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
    head: bool = True
    head_bias: bool = False
    encoder_layers: int = Field(default=0, ge=0, le=4096)
    towers: tuple[Tower, ...] = Field(default=(), max_length=8)
    predictor: Predictor | None = None
    mtp_layers: int = Field(default=0, ge=0, le=64)
    other: int = Field(default=0, ge=0, le=2**48)
    max_sequence_length: int | None = Field(default=None, ge=1)
    constants: Constants | None = None
    source: str = ""
    notes: tuple[str, ...] = Field(default=(), max_length=64)

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if self.layers > 4096:
            raise ValueError(f"{self.layers} layers; at most 4096 are read")
        if self.mtp_layers > self.predictor_depth:
            raise ValueError(f"mtp_layers {self.mtp_layers} must lie in 0..{self.predictor_depth}")
        return self

    @property
    def predictor_depth(self) -> int:
        """Modules that predict further tokens, trained or not."""
        return self.predictor.depth if self.predictor else 0

    @cached_property
    def stack(self) -> tuple[Run, ...]:
        """The runs, and after them the modules that are trained to predict further tokens."""
        if self.predictor is None or not self.mtp_layers:
            return self.runs
        module = Module.of(self.predictor, self.hidden_size)
        return (*self.runs, Run.model_construct(block=module, layers=self.mtp_layers))

    @property
    def layers(self) -> int:
        """Layers of the whole stack."""
        return sum(run.layers for run in self.stack)

    @cached_property
    def kinds(self) -> tuple[Block, ...]:
        """The distinct blocks, in order of first appearance."""
        return tuple(dict.fromkeys(run.block for run in self.stack))

    @cached_property
    def kind_of_layer(self) -> tuple[int, ...]:
        """Index into `kinds` for each layer, by depth."""
        index = {block: k for k, block in enumerate(self.kinds)}
        return tuple(index[run.block] for run in self.stack for _ in range(run.layers))

    def predicting(self, modules: int, origin: str = "training.mtp_layers") -> Transformer:
        """The model with so many modules of its predictor trained; InputError where it has fewer.

        >>> Transformer.preset("deepseek-v3").predicting(1).layers
        62
        """
        if modules == self.mtp_layers:
            return self
        if not 0 <= modules <= self.predictor_depth:
            reason = f"modules that predict further tokens: {self.name} has {self.predictor_depth or 'none'}"
            legal = [str(number) for number in range(self.predictor_depth, -1, -1)]
            raise InputError("training.mtp_layers", modules, origin, reason, legal=legal[:3])
        return self.model_copy(update={"mtp_layers": modules})

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
