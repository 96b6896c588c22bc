"""Modules of a layer that selective recompute runs again: what the layer then saves no longer.

In the words of Megatron Core (transformer_config.py, `recompute_modules`). "core_attn" frees what the
attention core keeps beside its operands and its result: scores, or the statistics of a fused kernel.
"mla_up_proj" makes queries, keys and values of latent attention again from their latents. "layernorm" frees
the output of norms that stand alone: before latent attention and before experts; others are part of the
product after them. "moe_act" frees the input of the last matrix of routed experts. "mlp", "moe" and
"shared_experts" keep the input of a dense feed-forward, of all experts, or of shared ones alone.
"""

from __future__ import annotations

from collections.abc import Collection

from ..models.training import Module
from ..models.transformer import Block


def fed_widths(
    each: float, inner: float, block: Block, modules: Collection[Module]
) -> tuple[float, float, float]:
    """Bytes an element of the (dense, shared, routed) width of a feed-forward saves, of `each` with all kept.

    `inner` of them are the input of the last matrix.
    """
    gone = "moe" in modules
    act = inner if "moe_act" in modules else 0.0
    return (
        0.0 if "mlp" in modules else each,
        0.0 if gone or "shared_experts" in modules else each,
        0.0 if gone else max(each - act, 0.0),
    )
