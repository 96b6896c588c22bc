"""Reads a Hugging Face config.json into a Transformer, or refuses it by name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import groupby

from ..inputs import Frozen, read_text
from ..inputs.files import parse_json
from .config_file import ConfigFile
from .counts import count
from .depth import routed, windows
from .divisors import nearest_divisors
from .facts import Facts
from .families import Scalar
from .recognition import family_of, refuse_strange_keys
from .transformer import Attention, Block, FeedForward, Run, Transformer

MAX_PARAMETERS = 2**50
"""Largest model read, parameters; keeps every later product of bytes inside 64 bits."""


class ReadReport(Frozen):
    """What the reader made of a config.json.

    `used` maps a dimension to the key that gave it (or "default of the class", "fact of the family")
    and its value; `ignored` are the keys of the file that changed nothing.
    """

    transformer: Transformer
    used: dict[str, tuple[str, Scalar]]
    ignored: tuple[str, ...]


def read_config(path: str | os.PathLike[str]) -> Transformer:
    """The model of a config.json, or of the folder that holds one.

    Raises InputError whose field is the key at fault and whose origin is ``file:line``; code
    "unknown-family" where no table fits, so that no parameter count is ever a guess.
    """
    return explain_config(path).transformer


def explain_config(path: str | os.PathLike[str]) -> ReadReport:
    """As `read_config`, with the key behind each dimension and the keys that were ignored."""
    name = os.fspath(path)
    if os.path.isdir(name):
        name = os.path.join(name, "config.json")
    text = read_text(name, "model")
    folder, stem = os.path.split(os.path.abspath(name))
    called = os.path.basename(folder) if stem == "config.json" else os.path.splitext(stem)[0]
    return _report(ConfigFile(parse_json(text, "model", name), name, text), called or "model")


def parse_config(config: Mapping[str, object], origin: str, name: str = "model") -> Transformer:
    """The model that the keys of a config.json describe; `origin` and `name` say where they come from."""
    return _report(ConfigFile(config, origin), name).transformer


def _report(file: ConfigFile, name: str) -> ReadReport:
    family = family_of(file)
    refuse_strange_keys(file, family)
    facts = Facts(file, family)
    transformer = _transformer(facts, name)
    total = count(transformer).total
    if total > MAX_PARAMETERS:
        reason = f"makes a model of {float(total):.2e} parameters; at most {float(MAX_PARAMETERS):.2e}"
        raise facts.error("hidden_size", reason)
    spoken = {key for key, _ in facts.used.values()} | {"model_type", "architectures"}
    ignored = tuple(key for key in file.keys if key not in spoken)
    used = {name: facts.used[name] for name in facts.family.dimensions if name in facts.used}
    return ReadReport(transformer=transformer, used=used, ignored=ignored)


def _transformer(facts: Facts, name: str) -> Transformer:
    layers = facts.integer("layers")
    shapes = zip(windows(facts, layers), routed(facts, layers), strict=True)
    runs = [
        Run(block=_block(facts, window, sparse), layers=len(list(same)))
        for (window, sparse), same in groupby(shapes)
    ]
    offset, longest = facts.optional("learned_offset"), facts.optional("max_positions")
    width, hidden = facts.optional("embedding_width"), facts.integer("hidden_size")
    return Transformer(
        name=name,
        family=facts.name,
        hidden_size=hidden,
        vocab_size=facts.integer("vocab_size"),
        runs=tuple(runs),
        tied_embeddings=facts.switch("tied_embeddings"),
        positions=0 if offset is None else (longest or 0) + offset,
        embedding_width=None if width == hidden else width,
        final_norm=facts.switch("final_norm"),
        max_sequence_length=longest,
        source=facts.file.origin,
    )


def _block(facts: Facts, window: int | None, sparse: bool) -> Block:
    heads, kv_heads = facts.integer("heads"), facts.integer("kv_heads")
    if heads % kv_heads:
        reason = f"{kv_heads} key-value heads do not divide {facts.key('heads')} = {heads}"
        raise facts.error("kv_heads", reason, nearest_divisors(heads, kv_heads))
    attention = Attention(
        heads=heads,
        kv_heads=kv_heads,
        head_dim=facts.integer("head_dim"),
        window=window,
        qkv_bias=facts.switch("qkv_bias"),
        output_bias=facts.switch("output_bias"),
        qk_norm=facts.word("qk_norm"),
    )
    return Block(
        attention=attention,
        feed_forward=_experts(facts) if sparse else _dense(facts),
        norm=facts.word("norm"),
        norms=facts.integer("norms"),
    )


def _dense(facts: Facts) -> FeedForward:
    return FeedForward(
        width=facts.integer("ffn_width"), gated=facts.switch("gated"), bias=facts.switch("ffn_bias")
    )


def _experts(facts: Facts) -> FeedForward:
    experts, chosen = facts.integer("experts"), facts.integer("experts_per_token")
    if chosen > experts:
        raise facts.error("experts_per_token", f"exceeds {facts.key('experts')} = {experts}", [experts])
    return FeedForward(
        width=facts.integer("expert_width"),
        gated=facts.switch("gated"),
        bias=facts.switch("ffn_bias"),
        experts=experts,
        experts_per_token=chosen,
        shared_width=facts.integer("shared_width"),
        shared_gate=facts.switch("shared_gate"),
    )
