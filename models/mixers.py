"""What mixes the tokens of a layer: softmax attention in all its kinds, and mixers without softmax."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from ..inputs import Frozen

Width = int
_BIG = 2**31


class Attention(Frozen):
    """One kind of attention: grouped-query (kv_heads < heads), multi-head (equal), or latent (MLA).

    `window` is the sliding window in tokens, None for full attention; with `chunked` the sequence is
    cut into chunks of that length instead (Llama 4). `kv_rank`, `q_rank` and `rope_head_dim` are set
    for latent attention only: keys and values come from a compressed vector of `kv_rank`, queries
    from one of `q_rank` (0: straight from the hidden state); `head_dim` is then the part of a query
    head without rotary position and `value_head_dim` that of a value head.

    `kv` says where keys and values come from: "own" projections; "keys_only", the keys serve as values
    (Gemma 4); "borrowed" from an earlier layer (Gemma 3n); "memory", projected from another stream
    (encoder, vision) of width `memory_width`. `gate_width` are the columns of an output gate,
    `index_width` those of the scores that choose `top_keys` keys (DeepSeek sparse attention).
    `other` counts replicated parameters that belong to no field here.
    """

    heads: int = Field(ge=1, le=65536)
    kv_heads: int = Field(ge=1, le=65536)
    head_dim: int = Field(ge=1, le=65536)
    value_head_dim: int | None = Field(default=None, ge=1, le=65536)
    window: int | None = Field(default=None, ge=1, le=_BIG)
    chunked: bool = False
    causal: bool = True
    kv: Literal["own", "keys_only", "borrowed", "memory"] = "own"
    memory_width: Width | None = Field(default=None, ge=1, le=_BIG)
    qkv_bias: bool = False
    output_bias: bool = False
    qk_norm: Literal["none", "per_head", "full"] = "none"
    kv_rank: int | None = Field(default=None, ge=1, le=_BIG)
    q_rank: int = Field(default=0, ge=0, le=_BIG)
    rope_head_dim: int = Field(default=0, ge=0, le=65536)
    gate_width: Width = Field(default=0, ge=0, le=_BIG)
    sinks: bool = False
    index_width: Width = Field(default=0, ge=0, le=_BIG)
    top_keys: int | None = Field(default=None, ge=1, le=_BIG)
    other: int = Field(default=0, ge=0, le=2**40)

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

    @property
    def key_value_matrices(self) -> int:
        """Projections of the layer's own keys and values: both, keys that are values too, or neither."""
        return {"own": 2, "memory": 2, "keys_only": 1, "borrowed": 0}[self.kv]


class Mixer(Frozen):
    """A mixer without softmax: state space, delta rule, linear attention, gated convolution, or none.

    One shape for all of them: a projection of the hidden state to `input_width` columns, something
    between (`inner` parameters, cut with the heads), a projection from `output_width` back. `heads`
    hold a state of `head_dim` x `state` each. `core_flops` are the forward FLOPs of a token beside
    those of its parameters: the recurrence. `other` counts replicated parameters. The formulas of
    each family are data (models/tables).

    The ledger prices it as an attention whose `query_width` is `input_width`, without keys and values
    (`kv_width` 0), and whose every query meets `core_flops / (2 (input + output))` keys, whatever the
    length: projections, saved activations and core FLOPs are then those of the mixer. "none" has
    width 0: the layer is a feed-forward alone (Nemotron-H).
    """

    mixer: Literal["state_space", "delta_rule", "linear_attention", "convolution", "recurrent", "none"]
    heads: int = Field(default=1, ge=1, le=2**20)
    head_dim: int = Field(default=64, ge=1, le=2**20)
    state: int = Field(default=0, ge=0, le=2**20)
    input_width: Width = Field(default=0, ge=0, le=_BIG)
    output_width: Width = Field(default=0, ge=0, le=_BIG)
    inner: int = Field(default=0, ge=0, le=2**40)
    other: int = Field(default=0, ge=0, le=2**40)
    core_flops: int = Field(default=0, ge=0, le=2**48)

    @property
    def query_width(self) -> Width:
        """Columns of the input projection, elements a token."""
        return self.input_width

    @property
    def kv_heads(self) -> int:
        """As many as heads: none is shared."""
        return self.heads

    @property
    def kv_width(self) -> Width:
        """0: there are no keys and values of their own."""
        return 0

    @property
    def value_head_dim(self) -> int | None:
        """None, as in plain attention."""
        return None

    @property
    def window(self) -> int | None:
        """None: the state reaches back to the first token."""
        return None

    @property
    def kv_rank(self) -> int | None:
        """None: not latent."""
        return None

    @property
    def q_rank(self) -> int:
        """0: not latent."""
        return 0

    @property
    def rope_head_dim(self) -> int:
        """0: not latent."""
        return 0

    @property
    def qk_norm(self) -> Literal["none"]:
        """None: there are no queries and keys."""
        return "none"

    @property
    def gate_width(self) -> Width:
        """0: gates are columns of the input projection."""
        return 0

    @property
    def kv(self) -> Literal["own"]:
        """Own, as in plain attention: nothing of another layer is read."""
        return "own"

    @property
    def key_value_matrices(self) -> int:
        """0: there are no keys and values."""
        return 0

    @property
    def memory_width(self) -> int | None:
        """None: nothing but the hidden state is read."""
        return None

    @property
    def qkv_bias(self) -> bool:
        """False: biases are counted in `inner`."""
        return False

    @property
    def output_bias(self) -> bool:
        """False: biases are counted in `other`."""
        return False


def _which(value: Any) -> str:
    named = "mixer" in value if isinstance(value, dict) else isinstance(value, Mixer)
    return "mixer" if named else "attention"


Mixing = Annotated[
    Annotated[Attention, Tag("attention")] | Annotated[Mixer, Tag("mixer")], Discriminator(_which)
]
"""Either of the two; a JSON object with the key `mixer` is a Mixer."""
