"""Modules that selective recompute can run again, and which of them the layers of a model have."""

from __future__ import annotations

from collections.abc import Iterable

from ..inputs import InputError
from .mixers import Attention
from .training import Module
from .transformer import Block, Transformer

LACKED: dict[Module, str] = {
    "core_attn": "attention over keys",
    "mla_up_proj": "latent attention",
    "layernorm": "a norm that is a kernel of its own (before latent attention, before experts)",
    "moe_act": "routed experts",
    "mlp": "a dense feed-forward",
    "moe": "routed experts",
    "shared_experts": "shared experts",
}
"""What a layer needs to have the module, in words."""


def latent(block: Block) -> bool:
    """Whether keys and values of a layer are made from latents."""
    return any(mixer.kv_rank for mixer in block.mixers)


def lone_norms(block: Block) -> tuple[bool, bool]:
    """Whether the norm before the mixer, and that before the feed-forward, is a kernel of its own."""
    return latent(block), bool(block.feed_forward.experts)


def held_modules(model: Transformer) -> tuple[Module, ...]:
    """The modules that some layer of `model` has.

    >>> held_modules(Transformer.preset("llama-3.1-8b"))
    ('core_attn', 'mlp')
    """
    found = {name for block in model.kinds for name, there in _there(block).items() if there}
    return tuple(name for name in LACKED if name in found)


def _there(block: Block) -> dict[Module, bool]:
    forward = block.feed_forward
    routed = bool(forward.experts)
    return {
        "core_attn": any(isinstance(mixer, Attention) for mixer in block.mixers),
        "mla_up_proj": latent(block),
        "layernorm": any(lone_norms(block)),
        "moe_act": routed,
        "mlp": not routed and forward.width > 0,
        "moe": routed,
        "shared_experts": routed and forward.shared_width > 0,
    }


def check_modules(model: Transformer, named: Iterable[Module], origin: str) -> None:
    """Refuses a module that no layer of `model` has, with those that some layer has."""
    held = held_modules(model)
    for name in named:
        if name not in held:
            reason = f"no layer of {model.name} has {LACKED[name]}, so nothing of that name is run again"
            raise InputError("training.recompute_modules", name, origin, reason, legal=list(held))
