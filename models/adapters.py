"""Low-rank adapters: which matrices of a layer can have one, and what it holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from ..inputs import InputError, nearest
from .mixers import Attention, Mixer
from .transformer import Block, FeedForward, Transformer

Reads = Literal["attention", "output", "feed_forward", "inner"]
"""What a matrix multiplies: the normed hidden state before the mixer, what the mixer gives, the normed
hidden state before the feed-forward, or its inner activations."""

GROUPS: dict[str, tuple[str, ...]] = {
    "attention": (
        *("q_proj", "k_proj", "v_proj", "o_proj", "q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj"),
        *("in_proj", "out_proj"),
    ),
    "mlp": ("gate_proj", "up_proj", "down_proj"),
}
"""Words for several matrices; "all-linear" is every matrix of a layer (peft's word)."""

ALIASES: dict[str, tuple[str, ...]] = {
    "c_attn": ("q_proj", "k_proj", "v_proj"),
    "query_key_value": ("q_proj", "k_proj", "v_proj"),
    "qkv_proj": ("q_proj", "k_proj", "v_proj"),
    "wqkv": ("q_proj", "k_proj", "v_proj"),
    "wq": ("q_proj",),
    "wk": ("k_proj",),
    "wv": ("v_proj",),
    "wo": ("o_proj",),
    "output_proj": ("o_proj",),
    "dense": ("o_proj",),
    "gate_up_proj": ("gate_proj", "up_proj"),
    "w1": ("gate_proj",),
    "w2": ("down_proj",),
    "w3": ("up_proj",),
    "c_fc": ("up_proj",),
    "fc1": ("up_proj",),
    "fc2": ("down_proj",),
    "dense_h_to_4h": ("up_proj",),
    "dense_4h_to_h": ("down_proj",),
    "feed_forward": GROUPS["mlp"],
}
"""What other families and tools call them."""


class Matrix(NamedTuple):
    """One kind of weight matrix of a layer.

    `copies` are held (experts), `met` of them multiply one token; `cut` is the side tensor parallel
    cuts (expert tensor parallel where `routed`).
    """

    name: str
    inputs: int
    outputs: int
    cut: Literal["column", "row", "whole"]
    reads: Reads
    copies: int = 1
    met: int = 1
    routed: bool = False


def matrices(block: Block, hidden: int) -> list[Matrix]:
    """The weight matrices of a layer, the router aside, under the names Llama gives them."""
    return [*_mixed(block.attention, hidden), *_fed(block.feed_forward, hidden)]


def _mixed(mixer: Attention | Mixer, hidden: int) -> Iterator[Matrix]:
    if isinstance(mixer, Mixer):
        if mixer.input_width:
            yield Matrix("in_proj", hidden, mixer.input_width, "column", "attention")
            yield Matrix("out_proj", mixer.output_width, hidden, "row", "output")
        return
    yield from _latent(mixer, hidden) if mixer.kv_rank is not None else _grouped(mixer, hidden)
    yield Matrix("o_proj", mixer.output_width, hidden, "row", "output")


def _grouped(attention: Attention, hidden: int) -> Iterator[Matrix]:
    yield Matrix("q_proj", hidden, attention.query_width, "column", "attention")
    source = (attention.memory_width or hidden) if attention.kv == "memory" else hidden
    value = attention.kv_heads * (attention.value_head_dim or attention.head_dim)
    if attention.kv != "borrowed":
        yield Matrix("k_proj", source, attention.kv_width, "column", "attention")
    if attention.kv in ("own", "memory"):
        yield Matrix("v_proj", source, value, "column", "attention")


def _latent(attention: Attention, hidden: int) -> Iterator[Matrix]:
    rank, rope = attention.kv_rank or 0, attention.rope_head_dim
    if attention.q_rank:
        yield Matrix("q_a_proj", hidden, attention.q_rank, "whole", "attention")
        yield Matrix("q_b_proj", attention.q_rank, attention.query_width, "column", "attention")
    else:
        yield Matrix("q_proj", hidden, attention.query_width, "column", "attention")
    yield Matrix("kv_a_proj_with_mqa", hidden, rank + rope, "whole", "attention")
    value = attention.value_head_dim or attention.head_dim
    yield Matrix("kv_b_proj", rank, attention.heads * (attention.head_dim + value), "column", "attention")


def _fed(forward: FeedForward, hidden: int) -> Iterator[Matrix]:
    if forward.experts:
        space = forward.latent_width or hidden
        yield from _one(forward, space, forward.width, forward.experts, forward.experts_per_token)
        if forward.shared_width:
            yield from _one(forward, hidden, forward.shared_width, 1, 1)
    elif forward.width:
        yield from _one(forward, hidden, forward.width, 1, 1)


def _one(forward: FeedForward, hidden: int, width: int, copies: int, met: int) -> Iterator[Matrix]:
    routed = copies > 1
    if forward.gated:
        yield Matrix("gate_proj", hidden, width, "column", "feed_forward", copies, met, routed)
    yield Matrix("up_proj", hidden, width, "column", "feed_forward", copies, met, routed)
    yield Matrix("down_proj", width, hidden, "row", "inner", copies, met, routed)


def spelled_out(targets: Iterable[str]) -> set[str]:
    """The names of matrices that `targets` mean.

    >>> sorted(spelled_out(["attention"]) & {"q_proj", "up_proj"}), sorted(spelled_out(["w2"]))
    (['q_proj'], ['down_proj'])
    """
    found: set[str] = set()
    for word in targets:
        if word == "all-linear":
            found.update(*GROUPS.values())
        else:
            found.update(GROUPS.get(word) or ALIASES.get(word) or (word,))
    return found


def adapted(block: Block, hidden: int, targets: Iterable[str]) -> list[Matrix]:
    """The matrices of a layer that `targets` name."""
    names = spelled_out(targets)
    return [matrix for matrix in matrices(block, hidden) if matrix.name in names]


def adapter_parameters(matrix: Matrix, rank: int) -> int:
    """Parameters of the adapters of a matrix: rank (inputs + outputs) a copy (arXiv 2106.09685)."""
    return rank * (matrix.inputs + matrix.outputs) * matrix.copies


def check_targets(model: Transformer, targets: Iterable[str]) -> None:
    """Refuses a target that no layer of `model` has, with the nearest that some layer has."""
    held = {matrix.name for block in model.kinds for matrix in matrices(block, model.hidden_size)}
    for word in targets:
        if not spelled_out([word]) & held:
            words = [
                *sorted(held),
                *(name for name in GROUPS if held.intersection(GROUPS[name])),
                "all-linear",
            ]
            reason = f"no layer of {model.name} has a matrix of that name"
            legal = nearest(word, words)
            raise InputError("training.lora_targets", word, "training", reason, legal=legal)
