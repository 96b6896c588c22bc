"""Constants and ways of each row's software stack."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..hardware.site import Site
from ..models.stack import holder, stacks
from .columns import WORDS, Bools, Floats
from .layout import Layout
from .once import once


@cache
def of_stacks(field: str) -> NDArray[Any]:
    """The `field` of every software stack, by its code in `Strategies`."""
    return np.array([getattr(stacks()[name], field) for name in WORDS["software_stack"]])


@lru_cache(maxsize=256)
def _constants(site: Site | None, field: str) -> Floats:
    """A constant of every stack, as a site measured it or as the catalogue has it."""
    values = []
    for name in WORDS["software_stack"]:
        value = float(getattr(stacks()[name], field))
        if site is not None:
            inherited = site.value(f"stacks/{holder(name, field)}/{field}", value)
            value = site.value(f"stacks/{name}/{field}", inherited)
        values.append(value)
    return np.array(values)


def forget() -> None:
    """Reads the catalogue of stacks anew: a trial of other constants has changed it."""
    of_stacks.cache_clear()
    _constants.cache_clear()


@once
def stack_constant(layout: Layout, field: str) -> Floats:
    """A constant of each row's software stack, as the site measured it or as the catalogue has it.

    What a stack inherits was measured for the entry it is from, or for the stack itself.
    """
    return stack_constants(layout, field)[layout.strategies.software_stack]


def stack_constants(layout: Layout, field: str) -> Floats:
    """`stack_constant` of every stack of `WORDS`, in its order."""
    return _constants(layout.cluster.site, field)


@once
def exposed(layout: Layout, ranks: Literal["data", "tensor"]) -> tuple[Floats, Floats]:
    """Shares that show of what ranks send: (run beside compute, with nothing beside it).

    Of data ranks once a step. The stack's own where its runs had it so, else that of the stack it names.
    """
    own = stack_constant(layout, f"{ranks}_exposed")
    names, known = WORDS["software_stack"], stacks()
    twins = [names.index(getattr(known[name], f"{ranks}_otherwise") or name) for name in names]
    codes = np.array(twins)[layout.strategies.software_stack]
    other = stack_constants(layout, f"{ranks}_exposed")[codes]
    beside = stack_has(layout, f"{ranks}_overlapped", True)
    return np.where(beside, own, other), np.where(beside, other, own)


@once
def stack_has(layout: Layout, field: str, word: str | int) -> Bools:
    """Whether the stack of each row has `word` as its `field`."""
    found: Bools = (of_stacks(field) == word)[layout.strategies.software_stack]
    return found
