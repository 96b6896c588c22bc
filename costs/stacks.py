"""Constants and ways of each row's software stack."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..hardware.site import Site
from ..models.stack import Stack, holder, stacks
from .columns import WORDS, Bools, Floats, Ints, numbered
from .law import law
from .layout import Layout
from .once import once


@cache
def of_stacks(field: str) -> NDArray[Any]:
    """The `field` of every software stack, by its code in `Strategies`."""
    return np.array([getattr(stacks()[name], field) for name in WORDS["software_stack"]])


@once
def _present(layout: Layout) -> tuple[tuple[str, ...], Ints]:
    """The software stacks that some row has, and which of them each row's is."""
    codes, _, place = numbered(layout.strategies.software_stack)
    return tuple([WORDS["software_stack"][code] for code in codes.tolist()]), place


def by_stack(layout: Layout, value: Callable[[str], float]) -> Floats:
    """A number of each row's software stack by the name of it; those that no row has are not asked."""
    names, place = _present(layout)
    found: Floats = np.array([value(name) for name in names], dtype=np.float64)[place]
    return found


def _constant(site: Site | None, name: str, field: str) -> float:
    """A constant of a stack, as a site measured it or as the catalogue has it.

    What a stack inherits was measured for the entry it is from, or for the stack itself.
    """
    value = float(getattr(stacks()[name], field))
    if site is None:
        return value
    inherited = site.value(f"stacks/{holder(name, field)}/{field}", value)
    return site.value(f"stacks/{name}/{field}", inherited)


def forget() -> None:
    """Reads the catalogue of stacks anew: a trial of other constants has changed it."""
    of_stacks.cache_clear()


@once
def stack_constant(layout: Layout, field: str) -> Floats:
    """A constant of each row's software stack, as the site measured it or as the catalogue has it."""
    return by_stack(layout, lambda name: _constant(layout.cluster.site, name, field))


@once
def exposed(layout: Layout, ranks: Literal["data", "tensor"]) -> tuple[Floats, Floats]:
    """Shares that show of what ranks send: (run beside compute, with nothing beside it).

    Of data ranks once a step. The stack's own where its runs had it so, else that of the stack it names.
    """
    field, site, known = f"{ranks}_exposed", layout.cluster.site, stacks()
    own = stack_constant(layout, field)
    other = by_stack(
        layout, lambda name: _constant(site, getattr(known[name], f"{ranks}_otherwise") or name, field)
    )
    beside = stack_has(layout, f"{ranks}_overlapped", True)
    return np.where(beside, own, other), np.where(beside, other, own)


@once
def stack_has(layout: Layout, field: str, word: str | int) -> Bools:
    """Whether the stack of each row has `word` as its `field`."""
    return by_stack(layout, lambda name: getattr(stacks()[name], field) == word) > 0


def busiest(stack: Stack) -> float:
    """Tokens of the busiest rank of experts over the mean: 1 where the router is forced to balance."""
    return 1.0 if stack.balanced else law("expert_imbalance")


@once
def imbalance(layout: Layout) -> Floats:
    """`busiest` of each row's stack, (n,)."""
    return by_stack(layout, lambda name: busiest(stacks()[name]))
