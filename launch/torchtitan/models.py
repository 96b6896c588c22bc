"""The models torchtitan has a configuration for, known by their widths."""

from __future__ import annotations

from functools import cache
from typing import Literal

from ...inputs.data import data
from ...inputs.listed import Listed
from ...inputs.record import dataclass
from ...models.constants import Rotary, Scaling
from ...models.mixers import Attention
from ...models.transformer import Transformer


@dataclass(frozen=True, kw_only=True)
class Known(Listed):
    """`module` and `config` are words of torchtitan 0.3, `module` and `flavor` of 0.2.

    `rotary_base` and the kind of scaling in `scaled` (its factor 8 over 8192 tokens) are fixed in it.
    """

    module: str
    config: str
    flavor: str
    family: str
    layers: int
    hidden_size: int
    heads: int
    kv_heads: int
    width: int
    vocab_size: int
    tied: bool
    rotary_base: int
    scaled: Literal["llama3"] | None

    def turns_as(self, model: Transformer) -> bool:
        """Whether the rotary positions of `model`, where they are known, are those of the configuration."""
        rotary = model.constants.rotary if model.constants else None
        if rotary is None:
            return model.constants is None
        scaling = Scaling(kind=self.scaled, factor=8.0, original_length=8192) if self.scaled else None
        return rotary == Rotary(base=self.rotary_base, scaling=scaling)


@cache
def models() -> tuple[Known, ...]:
    """All of them."""
    found = data(__package__, "models.json")
    return tuple(Known.listed(**entry) for entry in found["models"])


def known(model: Transformer) -> Known | None:
    """The configuration that trains `model`, None where torchtitan has none.

    >>> known(Transformer.preset("llama-3.1-8b")).config
    'llama3_8b'
    """
    if len(model.kinds) != 1 or not isinstance(model.kinds[0].attention, Attention):
        return None
    mixer, forward = model.kinds[0].attention, model.kinds[0].feed_forward
    words = {
        "family": model.family,
        "layers": model.layers,
        "hidden_size": model.hidden_size,
        "heads": mixer.heads,
        "kv_heads": mixer.kv_heads,
        "width": forward.width,
        "vocab_size": model.vocab_size,
        "tied": model.tied_embeddings,
    }
    alike = (each for each in models() if all(getattr(each, name) == words[name] for name in words))
    return next((each for each in alike if each.turns_as(model)), None)
