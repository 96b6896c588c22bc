"""The word for `--pipeline-model-parallel-layout`: which layers stand in which chunk of which stage.

Megatron-LM reads chunks from left to right, split by `|`: first the first chunk of every stage, then
the second of every stage, and so on. `E` is the embedding, `t` a layer, `L` head and loss; `x*n`
repeats a letter, `(...)*n` a part (megatron/core/transformer/pipeline_parallel_layer_layout.py).
"""

from __future__ import annotations

import re
from itertools import groupby

from ...models.strategy import Strategy

_PART = re.compile(r"\(([^()]+)\)\*(\d+)|([^()]+)")
_LETTER = re.compile(r"([EtL])(?:\*(\d+))?")

MOST_DIGITS = 4
"""Digits of a count of repeats: a part is spelt out in memory that often."""


def uneven(strategy: Strategy) -> bool:
    """Whether the stages differ in layers, so that the layout must be spelt out."""
    return len({stage.layers for stage in strategy.stages}) > 1


def chunks(strategy: Strategy) -> list[int]:
    """Layers of each chunk in the order of Megatron-LM."""
    each = [stage.layers // strategy.virtual_pipeline for stage in strategy.stages]
    return each * strategy.virtual_pipeline


def layout(sizes: list[int]) -> str:
    """Chunks of `sizes` layers, embedding before the first and loss after the last.

    >>> layout([7, 8, 8, 8, 7])
    'Et*7|(t*8|)*3t*7L'
    >>> layout([1, 2])
    'Et|t*2L'
    """
    words = ["t" if size == 1 else f"t*{size}" for size in sizes]
    words[0] = f"E{words[0]}"
    words[-1] += "L"
    text = ""
    for word, run in groupby(words[:-1]):
        times = len(list(run))
        text += f"({word}|)*{times}" if times > 2 else f"{word}|" * times
    return text + words[-1]


def layers_of(text: str) -> list[int]:
    """Layers of each chunk of a layout; ValueError where it is none of ours.

    >>> layers_of("Et*7|(t*8|)*3t*7L")
    [7, 8, 8, 8, 7]
    """
    pieces = list(_PART.finditer(text))
    if "".join(match[0] for match in pieces) != text:
        raise ValueError(f"{text!r} is no pipeline layout")
    if max((len(match[2] or "") for match in pieces), default=0) > MOST_DIGITS:
        raise ValueError(f"{text[:80]!r} is no pipeline layout: it repeats a part too often")
    flat = "".join(match[1] * int(match[2]) if match[1] else match[3] for match in pieces)
    found = [_LETTER.findall(chunk) for chunk in flat.split("|")]
    plain = "|".join("".join(f"{letter}*{n}" if n else letter for letter, n in chunk) for chunk in found)
    letters = [letter for chunk in found for letter, _ in chunk]
    outer = letters.count("E") == letters.count("L") == 1 and letters[0] == "E" and letters[-1] == "L"
    if plain != flat or not outer:
        raise ValueError(f"{text!r} is no pipeline layout from embedding E to loss L")
    return [sum(int(n or 1) for letter, n in chunk if letter == "t") for chunk in found]
