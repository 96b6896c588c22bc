"""Which card of the catalogue a driver, a scheduler or a label means."""

from __future__ import annotations

import re

from ..gpu import Gpu
from ..named import gpu, gpu_names

_FORMS = ("SXM", "PCIE", "NVL")
_NOISE = (
    "NVIDIA",
    "TESLA",
    "GEFORCE",
    "GENERATION",
    "EDITION",
    "BLACKWELL",
    "GB",
    "HBM3",
    "HBM3E",
    "HBM2",
    "HBM2E",
)
_HOST_SIZED = {"GH200"}
"""Cards whose names tell the size of the host's memory (``GH200 480GB``), not their own."""
_SIZE = re.compile(r"(\d{2,3})GB")
MEMORY_ROOM = 0.1
"""Drivers, labels and names round the memory of a card; beyond this share it is another card."""


def _words(name: str) -> set[str]:
    parts = re.split(r"[^A-Z0-9]+", name.upper())
    words = {"SXM" if re.fullmatch(r"SXM\d?", part) else part for part in parts if part}
    return {match[1] + match[2] if (match := re.fullmatch(r"(RTX)(\d{4})", w)) else w for w in words}


def _sizes(words: set[str]) -> set[str]:
    return {word for word in words if _SIZE.fullmatch(word)}


def cards_named(name: str, memory_bytes: int | None = None) -> list[Gpu]:
    """Cards of the catalogue that `name` can mean: one, several where it leaves that open, or none.

    >>> [card.name for card in cards_named("NVIDIA-A100-SXM4-80GB")]
    ['A100-SXM-80GB']
    >>> [card.name for card in cards_named("a100")][:2]
    ['A100-PCIe-40GB', 'A100-PCIe-80GB']
    """
    said = _words(name)
    if said & _HOST_SIZED:
        said -= _sizes(said)
    official = bool(said & {"NVIDIA", "TESLA"})
    if not said & set(_FORMS) and (official or {"HBM3", "HBM3E"} & said) and _has_sxm(said, memory_bytes):
        said |= {"SXM"}
    found = [card for card in map(gpu, gpu_names()) if _may_be(card, said, memory_bytes)]
    most = max((len(_family(card)) for card in found), default=0)
    return [card for card in found if len(_family(card)) == most]


def _family(card: Gpu) -> set[str]:
    """The words of a card's name that tell its kind, without form and memory."""
    words = _words(card.name)
    return words - _sizes(words) - set(_FORMS) - set(_NOISE)


def _may_be(card: Gpu, said: set[str], memory_bytes: int | None) -> bool:
    own = _words(card.name)
    forms = said & set(_FORMS)
    sizes = _sizes(said)
    near = memory_bytes is None or abs(memory_bytes / card.memory_bytes - 1.0) <= MEMORY_ROOM
    same_size = not sizes or not _sizes(own) or bool(sizes & _sizes(own))
    same_form = not forms or not own & set(_FORMS) or bool(forms & own)
    return _family(card) <= said and near and same_size and same_form


def _has_sxm(said: set[str], memory_bytes: int | None) -> bool:
    """Whether such a card comes as SXM, which drivers print without the word (``NVIDIA H100 80GB HBM3``)."""
    return any(
        "SXM" in _words(name) and _may_be(gpu(name), said | {"SXM"}, memory_bytes) for name in gpu_names()
    )
