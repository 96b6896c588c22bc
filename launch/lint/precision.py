"""Number formats against cards and widths."""

from __future__ import annotations

from collections.abc import Iterator

from ..bundle import Bundle, Client
from .cards import BF16, FP8, MXFP8, cards
from .finding import Finding, at

PLACES: dict[str, tuple[tuple[Client, str], ...]] = {
    "bf16": (
        ("deepspeed", "bf16.enabled"),
        ("transformers", "bf16"),
        ("transformers", "arguments.bf16"),
        ("megatron", "arguments.bf16"),
        ("accelerate", "mixed_precision"),
    ),
    "fp8": (("accelerate", "mixed_precision"), ("megatron", "arguments.fp8_format")),
    "mxfp8": (("megatron", "arguments.fp8_recipe"),),
}
"""Where a client names a format."""

LEAST = {"bf16": BF16, "fp8": FP8, "mxfp8": MXFP8}
RULES = {"bf16": "bf16-on-old-card", "fp8": "fp8-below-ada", "mxfp8": "mxfp8-below-blackwell"}
MENDS = {
    "bf16": "take fp16, which has a loss scale of its own",
    "fp8": "take bf16",
    "mxfp8": "fp8_recipe: tensorwise or blockwise on Hopper, bf16 before",
}


def findings(bundle: Bundle) -> Iterator[Finding]:
    """Formats that the cards named beside them do not have."""
    named = dict(cards(bundle.documents))
    if not named:
        return
    card, capability = max(named.items(), key=lambda item: item[1])
    for word, places in PLACES.items():
        for client, path in places:
            for document in bundle.documents:
                if bundle.clients[document.name] != client or capability >= LEAST[word]:
                    continue
                if _asks(document.get(path), word):
                    message = f"{word} needs compute capability {LEAST[word] / 10}; {card} has less"
                    yield at(document, path, RULES[word], message, MENDS[word])


def _asks(value: object, word: str) -> bool:
    """Whether a value asks for the format `word`."""
    if isinstance(value, list):
        return (not value and word == "bf16") or (bool(value) and (value[0] == word or word == "fp8"))
    return value is True and word == "bf16" or value == word or (word == "bf16" and value == "true")
