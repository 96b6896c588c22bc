"""The card a cell means, however it is spelled.

Rules: a name or alias of the catalogue is that card. Else the words of the cell are the family (A100, RTX
3090, 6000 Ada), the memory (40GB) and the form (SXM, PCIe, NVL), in any order; makers, "8x" before and
watts after say nothing. A form or a memory that is said must be the card's; where the catalogue has no card
of that memory the nearest of the family stands in. What is left open is the card on which the page's authors
measure (``catalogue/machines.json``), else SXM, then a card that a machine of the catalogue holds, then the
larger; that makes the column imputed.
"""

from __future__ import annotations

import re
from functools import cache

from ..hardware import Gpu, gpu, gpu_names, node, node_names
from ..hardware.named import is_gpu
from ..inputs import InputError
from ..inputs.record import dataclass
from .facts import facts
from .refusal import Refused

_SILENT = re.compile(
    r"\b(nvidia|amd|intel|habana|google|tesla|geforce|quadro|instinct|tensor core|gpus?|cards?|hgx|dgx|nvl?72"
    r"|nvl36|superchip|accelerators?|hbm\d?e?|ddr\d|gddr\d\w?|server edition|\d+ ?w(atts?)?)\b"
)
_COUNT = re.compile(r"^\s*\d{1,5}\s*[x×*]\s*(?=[a-z])")
_MEMORY = re.compile(
    r"(?<![a-z0-9])(\d{1,3})\s*g(?:i?b)?\b|(?<=\d )(16|24|32|40|48|64|80|94|96|141|180|192)\s*$"
)
_FORMS = (
    ("sxm", re.compile(r"\bs[xm][mx]\d?\b")),
    ("pcie", re.compile(r"\bpci(?:-?e|express)?\b")),
    ("nvl", re.compile(r"\bnvl\b")),
)
_NEAR = 0.12
"""Share by which a stated memory may lie off the nominal one (80 GB for 79.1 GiB, 141 for 144)."""


@dataclass(frozen=True)
class Spelled:
    """What a cell says of a card."""

    family: str
    memory_gb: int | None
    form: str | None


@dataclass(frozen=True)
class Card:
    """The card of a cell; whether a rule chose among several, and what stands in for what."""

    gpu: Gpu
    imputed: bool = False
    stand_ins: tuple[str, ...] = ()


def card_of(text: str, page: str = "") -> Card:
    """The card that `text` means on a `page`; `Refused` where it is none of the catalogue's family."""
    if not text:
        raise Refused("no-gpu", "gpu is blank and has no rule")
    if is_gpu(text):
        return Card(gpu(text))
    said = spelled(text)
    family = [card for card in _cards() if _same(spelled(card.name).family, said.family)]
    formed = [card for card in family if said.form in (None, _form(card))]
    if not formed:
        raise Refused("unknown-gpu", _unknown(text))
    if own := _of_page(said, page):
        return Card(own, True)
    size = said.memory_gb
    sized = [c for c in formed if size is None or abs(c.memory_bytes / 1e9 / size - 1) <= _NEAR]
    if not sized:
        nearest = min(formed, key=lambda c: (abs(c.memory_bytes / 1e9 - (size or 0)), _form(c) != "sxm"))
        return Card(nearest, True, (f"gpu {text} -> {nearest.name}",))
    usual = max(sized, key=lambda c: (_form(c) == "sxm", c.name in _sold(), c.memory_bytes, c.name))
    return Card(usual, len(sized) > 1)


def _of_page(said: Spelled, page: str) -> Gpu | None:
    """The card of the page's authors, where the cell says the family alone."""
    for entry in facts("machines")["cards_of_pages"]:
        if said == Spelled(entry["family"], None, None) and entry["page"] in page.lower():
            return gpu(entry["gpu"])
    return None


def spelled(text: str) -> Spelled:
    """Family, memory and form that `text` writes.

    >>> spelled("NVIDIA A100-SXM4-80GB")
    Spelled(family='a100', memory_gb=80, form='sxm')
    >>> spelled("8x GeForce RTX 4090 24G").family, spelled("A6000 Ada 48GB").family
    ('rtx4090', 'a6000ada')
    """
    words = re.sub(r"[_\-/(),;+]+", " ", _COUNT.sub("", text.lower()))
    words = _SILENT.sub(" ", words)
    memory = _MEMORY.search(words)
    words = _MEMORY.sub(" ", words)
    form = next((name for name, pattern in _FORMS if pattern.search(words)), None)
    for _, pattern in _FORMS:
        words = pattern.sub(" ", words)
    return Spelled(re.sub(r"[^a-z0-9]", "", words), int(memory[1] or memory[2]) if memory else None, form)


def _same(known: str, said: str) -> bool:
    """Whether two families are one: RTX may be left out, and the letter A of Ampere's workstation cards."""
    bare = {known, known.removeprefix("rtx")}
    bare |= {f"a{known[3:]}"} if known.startswith("rtx") else set()
    return bool(said) and (said in bare or said.removeprefix("rtx") in bare)


def _form(card: Gpu) -> str | None:
    """The form of a card: as its name says, else SXM where it has its maker's switched or meshed links."""
    named = spelled(card.name).form
    linked = card.interconnect in ("nvlink", "xgmi") and card.bridge_gpus is None
    return named or ("sxm" if linked else "pcie")


@cache
def _sold() -> frozenset[str]:
    """Cards that a machine of the catalogue holds."""
    return frozenset(node(name).gpu.name for name in node_names())


@cache
def _cards() -> tuple[Gpu, ...]:
    return tuple(gpu(name) for name in gpu_names())


def _unknown(text: str) -> str:
    try:
        gpu(text)
    except InputError as error:
        return error.message
    return f"gpu = {text} is not in the catalogue"
