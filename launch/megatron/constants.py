"""Numbers that cost nothing, as Megatron-LM takes them: rotary positions, norms, first weights, routing.

Checked against megatron/training/arguments.py, gpt_builders.py and core/models/gpt/gpt_model.py of the
releases core_v0.16.1 to core_v0.19.0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ...models.constants import Constants, Rotary, Routing
from ...models.mixers import Attention
from ...models.read_constants import usual_constants
from ...models.transformer import Transformer

GELU = ("gelu", "gelu_new", "gelu_fast", "gelu_python", "gelu_pytorch_tanh")
SILU = ("silu", "swish")

BUILDERS = "gpt_builders.py"
_ROTARY = "megatron/core/models/common/embeddings/rotary_pos_embedding.py"
_CONFIG = "megatron/core/transformer/transformer_config.py"

FIXED = {
    "llama3": {
        "original_length": (_ROTARY, "original_max_position_embeddings={},", 8192),
        "low_frequency": (_ROTARY, "low_freq_factor={:g},", 1.0),
        "high_frequency": (_ROTARY, "high_freq_factor={:g},", 4.0),
    },
    "yarn": {
        "original_length": (_CONFIG, "original_max_position_embeddings: int = {}", 4096),
        "beta_fast": (_CONFIG, "beta_fast: float = {:g}", 32.0),
        "beta_slow": (_CONFIG, "beta_slow: float = {:g}", 1.0),
    },
}
"""Numbers of a scaling that stand in the code alone: the file, the line as it should be, what it says."""

LLAMA3_FACTOR = 8.0
"""The factor of GPTModel where nobody hands it another."""


def number_args(model: Transformer) -> dict[str, Any]:
    """Arguments of norms, first weights and rotary positions; none where the numbers are not known."""
    known = model.constants
    if known is None:
        return {}
    found = {"norm_epsilon": known.norm_epsilon, "init_method_std": known.initial_deviation}
    return found | (_rotary(known.rotary, _latent(model)) if known.rotary else {})


def _rotary(rotary: Rotary, latent: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"rotary_base": int(rotary.base)}
    if rotary.share < 1.0:
        found["rotary_percent"] = rotary.share
    scaling = rotary.scaling
    if scaling is None or latent:
        return found
    if scaling.kind == "llama3":
        return found | {"use_rope_scaling": True, "rope_scaling_factor": scaling.factor}
    return found | {"rotary_seq_len_interpolation_factor": int(scaling.factor)}


def latent_args(model: Transformer) -> dict[str, Any]:
    """Arguments of the rotary part of latent attention, which is YaRN unless it is told otherwise."""
    rotary = model.constants.rotary if model.constants else None
    if rotary is None or not _latent(model):
        return {}
    scaling = rotary.scaling
    if scaling is None:
        return {"rope_type": "rope", "no_rope_fusion": True}
    return {
        "rope_type": "yarn",
        "rotary_scaling_factor": scaling.factor,
        "mscale": 1.0 if scaling.mscale is None else scaling.mscale,
        "mscale_all_dim": scaling.mscale_all_dim or 0.0,
    }


def router_args(model: Transformer) -> dict[str, Any]:
    """How a router scores and chooses; the usual way of the family where the model does not say."""
    routing = routing_of(model)
    limited = routing.groups_per_token < routing.groups
    return {
        "moe_router_pre_softmax": routing.score == "softmax" and not routing.normalised,
        "moe_router_score_function": "sigmoid" if routing.score == "sigmoid" else None,
        "moe_router_num_groups": routing.groups if limited else None,
        "moe_router_group_topk": routing.groups_per_token if limited else None,
        "moe_router_topk_scaling_factor": None if routing.scale == 1.0 else routing.scale,
    }


def routing_of(model: Transformer) -> Routing:
    """The routing of `model`, or that of its family."""
    known = model.constants or usual_constants(model.family)
    return (known.routing if known else None) or Routing()


class Edit(NamedTuple):
    """A line that Megatron-LM's `file` must hold for a number of the model to be heard, and why."""

    file: str
    line: str
    why: str


def edits(model: Transformer) -> Iterator[Edit]:
    """What a checkout must hold beyond its releases: numbers with an argument that is not handed on, or none.

    gpt_builders.py tells GPTModel whether rotary positions are scaled, but not by what; some numbers of a
    scaling are defaults in the code alone.
    """
    scaling = model.constants.rotary.scaling if model.constants and model.constants.rotary else None
    if scaling is None:
        return
    if scaling.kind == "linear":
        word = "seq_len_interpolation_factor=args.rotary_seq_len_interpolation_factor"
        yield Edit(BUILDERS, word, "--rotary-seq-len-interpolation-factor is not handed to GPTModel")
    if scaling.kind == "llama3" and scaling.factor != LLAMA3_FACTOR:
        word = "rope_scaling_factor=args.rope_scaling_factor"
        yield Edit(BUILDERS, word, "--rope-scaling-factor is not handed to GPTModel")
    for name, (file, line, usual) in FIXED.get(scaling.kind, {}).items():
        value = getattr(scaling, name)
        if value != usual:
            yield Edit(
                file, line.format(value), f"rotary scaling takes {usual:g}, and has no argument for it"
            )


def reasons(model: Transformer) -> Iterator[str]:
    """What of the numbers has no argument."""
    known = model.constants
    if known is None:
        return
    yield from _of_activation(known, model)
    if known.rotary is not None:
        yield from _of_rotary(known.rotary, _latent(model))
    if known.routing is not None:
        yield from _of_routing(known.routing, model)


def _of_activation(known: Constants, model: Transformer) -> Iterator[str]:
    gated = model.kinds[0].feed_forward.gated
    words = SILU if gated else GELU
    if known.activation not in words:
        written = "--swiglu gates by SiLU" if gated else "a feed-forward without a gate is a GELU"
        yield f"{written}, this model has {known.activation}"


def _of_rotary(rotary: Rotary, latent: bool) -> Iterator[str]:
    if rotary.base != int(rotary.base):
        yield f"--rotary-base takes a whole number, this model has {rotary.base}"
    scaling = rotary.scaling
    if scaling is None:
        return
    if latent != (scaling.kind == "yarn") or scaling.kind not in ("yarn", "llama3", "linear"):
        way = "YaRN of latent attention" if latent else "--use-rope-scaling (llama3) and linear scaling"
        yield f"rotary positions are scaled by {way} alone, this model has {scaling.kind}"
        return
    if scaling.attention_factor is not None:
        yield "there is no argument for attention_factor of rotary scaling"
    if scaling.kind == "linear" and scaling.factor != int(scaling.factor):
        yield f"--rotary-seq-len-interpolation-factor takes a whole number, this model has {scaling.factor}"


def _of_routing(routing: Routing, model: Transformer) -> Iterator[str]:
    chosen = max(kind.feed_forward.experts_per_token for kind in model.kinds)
    if routing.score == "sigmoid" and not routing.normalised and chosen > 1:
        yield "sigmoid scores of the chosen experts are always made to sum to one"
    if routing.score == "softmax" and routing.normalised and chosen == 1:
        yield "the score of a single chosen expert is not made to be one"
    if routing.groups_per_token < routing.groups and chosen < routing.groups_per_token:
        yield f"{routing.groups_per_token} groups are chosen by their best experts, and a token has {chosen}"


def _latent(model: Transformer) -> bool:
    first = model.kinds[0].attention
    return isinstance(first, Attention) and first.kv_rank is not None
