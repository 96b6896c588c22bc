"""The word for `--pipeline-model-parallel-layout`: which layers stand in which chunk of which stage.

Megatron-LM reads chunks from left to right, split by `|`: first the first chunk of every stage, then
the second of every stage, and so on. `E` is the embedding, `t` a layer, `m` a module that predicts a
further token, `L` head and loss; `x*n` repeats a letter, `(...)*n` a part. Chunks may be empty but for the
embedding or the loss, and commas are for the eye
(megatron/core/transformer/pipeline_parallel_layer_layout.py).
"""

from __future__ import annotations

import re
from itertools import groupby

from ...models.chunks import in_order
from ...models.strategy import Strategy

_PART = re.compile(r"\(([^()]+)\)\*(\d+)|([^()]+)")
_LETTER = re.compile(r"([EtmL])(?:\*(\d+))?")

MOST_DIGITS = 4
"""Digits of a count of repeats: a part is spelt out in memory that often."""


def uneven(strategy: Strategy, modules: int = 0) -> bool:
    """Whether the layout must be spelt out: chunks differ in layers, or the last has `modules` among them."""
    return len(set(in_order(strategy))) > 1 or (modules > 0 and len(strategy.stages) > 1)


def layout(sizes: list[int], modules: int = 0) -> str:
    """Chunks of `sizes` layers, embedding before the first and loss after the last.

    Of the last chunk `modules` layers predict further tokens.

    >>> layout([7, 8, 8, 8, 7])
    'Et*7|(t*8|)*3t*7L'
    >>> layout([1, 2]), layout([4, 4, 2], 1), layout([4, 1], 1)
    ('Et|t*2L', 'Et*4|t*4|tmL', 'Et*4|mL')

    Modules stand together at the end of the chain, whichever chunks hold it:

    >>> layout([3, *[2] * 29, 1, 0], 1)
    'Et*3|(t*2|)*29m|L'
    """
    words, left = [], modules
    for size in reversed(sizes):
        words.append(_run("t", size - min(left, size)) + _run("m", min(left, size)))
        left -= min(left, size)
    words = [f"E{words[-1]}", *words[-2::-1]]
    words[-1] += "L"
    text = ""
    for word, run in groupby(words[:-1]):
        times = len(list(run))
        text += f"({word}|)*{times}" if times > 2 else f"{word}|" * times
    return text + words[-1]


def _run(letter: str, times: int) -> str:
    return "" if times == 0 else letter if times == 1 else f"{letter}*{times}"


def layers_of(text: str) -> list[int]:
    """Layers of each chunk of a layout, modules among them; ValueError where it is none of ours.

    >>> layers_of("Et*7|(t*8|)*3t*7L"), layers_of("Et*4|(t*4|)*14tmL")[-1], layers_of("Ett|t||L")
    ([7, 8, 8, 8, 7], 2, [2, 1, 0, 0])
    """
    return [sum(times for letter, times in chunk if letter in "tm") for chunk in _chunks(text)]


def modules_of(text: str) -> int:
    """Modules of a layout that predict further tokens.

    >>> modules_of("Et|(tt|)*30mL")
    1
    """
    return sum(times for chunk in _chunks(text) for letter, times in chunk if letter == "m")


def _chunks(text: str) -> list[list[tuple[str, int]]]:
    """Letters of each chunk and how often each stands there."""
    text = text.replace(",", "")
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
    layers = "".join(letters).strip("EL")
    if "m" in layers.rstrip("m"):
        raise ValueError(f"{text!r} is no pipeline layout with its modules (m) behind all layers")
    return [[(letter, int(n or 1)) for letter, n in chunk] for chunk in found]
