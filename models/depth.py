"""The layers of a stack: which kind stands where, and the block of each, from the dimensions of a file."""

from __future__ import annotations

from itertools import groupby
from typing import Literal

from ..inputs import InputError
from .divisors import nearest_divisors
from .facts import Facts
from .family import Variant
from .mixers import Attention, Mixer
from .scope import Scope
from .transformer import Block, FeedForward, Run


def runs(facts: Facts) -> tuple[Run, ...]:
    """Equal blocks in a row, by depth."""
    equal = groupby(blocks(facts))
    return tuple(Run(block=block, layers=len(list(same))) for block, same in equal)


def blocks(facts: Facts) -> list[Block]:
    """The block of every layer; those of one kind that depend on nothing else are built once."""
    built: dict[tuple[str, str], Block] = {}
    found = []
    for layer in range(facts.integer("layers")):
        names = _variant(facts, facts.family.mixers, layer), _variant(facts, facts.family.forwards, layer)
        block = built.get(names)
        if block is None:
            block, varies = _block(facts, *names, layer)
            if not varies:
                built[names] = block
        found.append(block)
    return found


def _variant(facts: Facts, variants: dict[str, Variant], layer: int) -> str:
    if len(variants) == 1:
        return next(iter(variants))
    scope = facts.scope((), layer)
    return next(name for name, variant in variants.items() if scope.holds(variant.when))


def _block(facts: Facts, mixer: str, forward: str, layer: int) -> tuple[Block, bool]:
    mixing, forwarding = facts.family.mixers[mixer], facts.family.forwards[forward]
    scope = facts.scope([(forward, forwarding), (mixer, mixing)], layer)
    beside = []
    for name, variant in mixing.beside.items():
        inner = facts.scope([(mixer, mixing), (name, variant)], layer)
        beside.append(_mixer(inner, variant))
        scope.varies |= inner.varies
    _needed(facts, scope, mixing)
    block = Block(
        attention=_mixer(scope, mixing),
        feed_forward=_feed_forward(scope, forwarding),
        norm=scope.value("norm"),
        norms=scope.integer("norms"),
        beside=tuple(beside),
        other=scope.integer("layer_other"),
    )
    return block, scope.varies


def _needed(facts: Facts, scope: Scope, variant: Variant) -> None:
    """Refuses a layer that is listed by name but lacks what its kind needs."""
    need = variant.needs
    if need and scope.value(need) is None and facts.value("layer_types"):
        raise facts.error("layer_types", f"asks for a layer with a {need}, but {scope.key(need)} gives none")


def _mixer(scope: Scope, variant: Variant) -> Attention | Mixer:
    if variant.mixer == "none":
        return Mixer(mixer="none")
    return _attention(scope) if variant.mixer == "attention" else _state(scope)


def _attention(scope: Scope) -> Attention:
    heads, head_dim, kv_heads = (scope.integer(name) for name in ("heads", "head_dim", "kv_heads"))
    if heads % kv_heads:
        raise _ungrouped(scope.facts, heads, kv_heads)
    return Attention(
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        value_head_dim=scope.optional("value_head_dim"),
        window=scope.optional("window"),
        chunked=scope.switch("chunked"),
        causal=scope.switch("causal"),
        kv=scope.value("kv"),
        memory_width=scope.optional("memory_width"),
        qkv_bias=scope.switch("qkv_bias"),
        output_bias=scope.switch("output_bias"),
        qk_norm=scope.value("qk_norm"),
        kv_rank=scope.optional("kv_rank"),
        q_rank=scope.optional("q_rank") or 0,
        rope_head_dim=scope.integer("rope_head_dim"),
        gate_width=scope.integer("gate_width"),
        sinks=scope.switch("sinks"),
        index_width=scope.integer("index_width"),
        top_keys=scope.optional("top_keys"),
        other=scope.integer("attention_other"),
    )


def _ungrouped(facts: Facts, heads: int, kv_heads: int) -> InputError:
    reason = f"{kv_heads} key-value heads do not divide {facts.key('heads')} = {heads}"
    return facts.error("kv_heads", reason, nearest_divisors(heads, kv_heads))


def _state(scope: Scope) -> Mixer:
    kind: Literal["state_space", "delta_rule", "linear_attention", "convolution", "recurrent"]
    kind = scope.value("state_kind")
    return Mixer(
        mixer=kind,
        heads=scope.integer("state_heads"),
        head_dim=scope.integer("state_head_dim"),
        state=scope.integer("state"),
        input_width=scope.integer("input_width"),
        output_width=scope.integer("output_width"),
        inner=scope.integer("inner"),
        other=scope.integer("state_other"),
        core_flops=scope.integer("core_flops"),
    )


def _feed_forward(scope: Scope, variant: Variant) -> FeedForward:
    experts = scope.optional("experts") or 0
    kind = variant.forward or ("experts" if experts else "dense")
    if kind == "none":
        return FeedForward(width=0)
    if kind == "dense" or not experts:
        return FeedForward(
            width=scope.integer("ffn_width"),
            gated=scope.switch("gated"),
            bias=scope.switch("ffn_bias"),
            other=scope.integer("ffn_other"),
        )
    return _experts(scope, experts)


def _experts(scope: Scope, experts: int) -> FeedForward:
    facts, chosen = scope.facts, scope.integer("experts_per_token")
    if chosen > experts:
        raise facts.error("experts_per_token", f"exceeds {facts.key('experts')} = {experts}", [experts])
    return FeedForward(
        width=scope.integer("expert_width"),
        gated=scope.switch("gated"),
        bias=scope.switch("expert_bias"),
        experts=experts,
        experts_per_token=chosen,
        shared_width=scope.integer("shared_width"),
        shared_gate=scope.switch("shared_gate"),
        router_bias=scope.switch("router_bias"),
        latent_width=scope.optional("latent_width"),
        other=scope.integer("router_other"),
    )
