"""Cards of the catalogue by name, without regard to case."""

from __future__ import annotations

from functools import cache
from typing import Any

from ..inputs import InputError, nearest, shorten
from .facts import facts
from .gpu import Gpu


def gpu(name: str, origin: str = "gpu", field: str = "gpu") -> Gpu:
    """The card called `name` or known by that alias. Raises `InputError` on `field`, with near names."""
    return _gpus()[known(name, _gpus(), field, origin)]


def is_gpu(name: object) -> bool:
    """Whether `name` is a card of the catalogue or an alias of one."""
    return isinstance(name, str) and name.strip().lower() in _gpus()


@cache
def gpu_names() -> tuple[str, ...]:
    """All cards of the catalogue, without aliases, sorted."""
    return tuple(sorted(entry["name"] for entry in facts("gpus")["gpus"]))


def known(name: object, catalogue: dict[str, Any], field: str, origin: str) -> str:
    """The key of `name` in `catalogue` (keys are lower case), or one `InputError`."""
    key = name.strip().lower() if isinstance(name, str) else ""
    if key not in catalogue:
        spelled = nearest(shorten(name), (entry.name for entry in catalogue.values()))
        raise InputError(field, name, origin, "is not in the catalogue", legal=spelled, code="unknown-name")
    return key


@cache
def _gpus() -> dict[str, Gpu]:
    cards = [Gpu.model_validate(entry) for entry in facts("gpus")["gpus"]]
    return {word.lower(): card for card in cards for word in (*card.aliases, card.name)}
