"""Numbers of a model that no price depends on and every run does: positions, norms, activations, routing."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ..inputs import Frozen


class Scaling(Frozen):
    """How rotary frequencies are stretched beyond the `original_length` they were trained at, tokens.

    `kind` is the word of config.json ("linear", "llama3", "yarn", ...; "by_layer" where kinds of layers
    differ). `low_frequency` and `high_frequency` bound what llama3 interpolates; `beta_fast`, `beta_slow`,
    `mscale`, `mscale_all_dim` and `attention_factor` are those of YaRN (arXiv 2309.00071, section 3), as
    transformers 5.24.0 reads them (modeling_rope_utils.py).
    """

    kind: str = Field(max_length=64)
    factor: float = Field(default=1.0, gt=0)
    original_length: int | None = Field(default=None, ge=1)
    low_frequency: float = Field(default=1.0, gt=0)
    high_frequency: float = Field(default=4.0, gt=0)
    beta_fast: float = Field(default=32.0, gt=0)
    beta_slow: float = Field(default=1.0, gt=0)
    mscale: float | None = None
    mscale_all_dim: float | None = None
    attention_factor: float | None = None


class Rotary(Frozen):
    """Rotary positions: the `base` of the wavelengths, the `share` of a head that turns, its scaling."""

    base: float = Field(gt=0)
    share: float = Field(default=1.0, gt=0, le=1)
    scaling: Scaling | None = None


class Routing(Frozen):
    """How a router weighs experts.

    The scores of the chosen experts are made to sum to one if `normalised`, then multiplied by `scale`.
    A token chooses among the experts of `groups_per_token` of `groups` equal groups; one group is all.
    """

    score: Literal["softmax", "sigmoid"] = "softmax"
    normalised: bool = True
    groups: int = Field(default=1, ge=1)
    groups_per_token: int = Field(default=1, ge=1)
    scale: float = Field(default=1.0, gt=0)


class Constants(Frozen):
    """The numbers of one model; `initial_deviation` is the standard deviation of its first weights.

    `rotary` is None for other positions, `routing` for a model without experts.
    """

    norm_epsilon: float = Field(ge=0)
    activation: str = Field(max_length=64)
    initial_deviation: float = Field(ge=0)
    rotary: Rotary | None = None
    routing: Routing | None = None
