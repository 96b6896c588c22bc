"""Context parallel: how ranks that share a sequence exchange it, and which layers each kind can run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, get_args

from .divisors import divisors_of
from .mixers import Attention
from .transformer import Block, Transformer

ContextKind = Literal["none", "ring", "all_gather", "ulysses", "ulysses+ring"]
CONTEXT_KINDS: tuple[ContextKind, ...] = get_args(ContextKind)

USUAL: dict[str, ContextKind] = {"deepspeed": "ulysses", "fsdp": "all_gather", "megatron": "ring"}
"""What each backend does where nothing is said: Ulysses is the only kind DeepSpeed has, torch gathers keys
and values (`_ContextParallelOptions.rotate_method`), Megatron-LM passes them on (`--cp-comm-type p2p`)."""

NO_WINDOW = "keys and values that go round a ring meet no sliding window (Transformer Engine)"
LATENT = "keys and values of different widths (latent attention) go round a ring alone (Transformer Engine)"


class Exchange(NamedTuple):
    """A kind, and the ranks of an all-to-all that exchange heads for tokens: 1 where none do."""

    kind: ContextKind
    ulysses_group_size: int


def usual_group(kind: str, context: int) -> int:
    """Ranks that exchange heads under a kind where nothing is said: all of them under Ulysses, else one."""
    return context if kind == "ulysses" else 1


def exchanges(context: int) -> Iterator[Exchange]:
    """Every kind that `context` ranks can have, with every size of group.

    >>> [tuple(one) for one in exchanges(4)]
    [('ring', 1), ('all_gather', 1), ('ulysses', 4), ('ulysses+ring', 2)]
    """
    if context == 1:
        yield Exchange("none", 1)
        return
    for kind in CONTEXT_KINDS[1:4]:
        yield Exchange(kind, usual_group(kind, context))
    for size in divisors_of(context)[1:-1]:
        yield Exchange("ulysses+ring", size)


def misfit(exchange: Exchange, context: int) -> str:
    """Why `context` ranks cannot have this exchange, whatever the model; empty where they can."""
    kind, group = exchange
    if (kind == "none") != (context == 1):
        alone = "one context rank exchanges nothing: its kind is none"
        return alone if context == 1 else f"{context} context ranks exchange keys and values somehow"
    if kind == "ulysses+ring":
        inside = 1 < group < context and context % group == 0
        return "" if inside else "a divisor of context_parallel between 1 and all of it exchanges heads"
    return "" if group == usual_group(kind, context) else f"{kind} has groups of {usual_group(kind, context)}"


def plain(block: Block) -> bool:
    """Whether a layer is full causal attention alone, with keys and values of one width."""
    mixer = block.attention
    if block.beside or not isinstance(mixer, Attention):
        return False
    return mixer.causal and mixer.kv == "own" and mixer.window is None and mixer.kv_rank is None


def unfit(model: Transformer, exchange: Exchange, tensor: int) -> str:
    """Why the layers of `model`, cut over `tensor` ranks, cannot run an exchange; empty where they can.

    An all-to-all hands whole heads of queries and of keys to each rank of its group.
    """
    kind, group = exchange
    for block in model.kinds:
        reason = _unfit(block, kind, group, tensor)
        if reason:
            return reason
    return ""


def _unfit(block: Block, kind: ContextKind, group: int, tensor: int) -> str:
    mixer = block.attention
    if kind == "none" or not isinstance(mixer, Attention):
        return ""
    if mixer.window and "ring" in kind:
        return NO_WINDOW
    if mixer.kv_rank is not None and "ring" not in kind:
        return LATENT
    for name, heads in (("heads", mixer.heads), ("kv_heads", mixer.kv_heads)):
        if heads % (tensor * group):
            return f"{group} ulysses ranks x tensor_parallel {tensor} do not divide {name} {heads}"
    return ""
