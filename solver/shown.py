"""Communication that shows, limited in a leaf: a share of the step at most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .stage_limits import SHARES
from .table import END, LONGEST, SHOWN_CHUNK, SHOWN_TAIL

if TYPE_CHECKING:
    from .leaf import Leaf


def show_little(leaf: Leaf, share: int) -> None:
    """Communication of the slowest stage and of the longest tail takes `share` of the step at most.

    Of equally slow stages, and of equally long tails, the first counts, as in the ledger.
    """
    slowest = _slowest(leaf)
    shown = leaf.options.passes * _of_largest(leaf, slowest, 5, SHOWN_CHUNK)
    shown += _of_largest(leaf, leaf.tail, 6, SHOWN_TAIL)
    leaf.model.add(SHARES * shown <= share * leaf.objective)


def _slowest(leaf: Leaf) -> Any:
    """The longest chunk. The pace is as long as what sets it: of a longer step a share would allow more."""
    chunks, stages = leaf.options.chunks, leaf.stages
    if chunks == 1:
        return leaf.bottleneck
    top = max(int(t[s][:, 5].max()) for t in leaf.options.tables for s in stages)
    found = leaf.model.new_int_var(0, top, "slowest")
    ends = [
        chunks * leaf.bottleneck <= (chunks - 1) * (leaf.common + 1) + leaf.column(stage, END)
        for stage in (stages[0], stages[-1])
    ]
    _any(leaf, "pace", [leaf.bottleneck <= found, *ends])
    _any(leaf, "common", [leaf.common <= leaf.column(stage, LONGEST) for stage in stages])
    return found


def _any(leaf: Leaf, name: str, claims: Sequence[Any]) -> None:
    """At least one of some inequalities holds."""
    holds = [leaf.model.new_bool_var(f"{name}{i}") for i in range(len(claims))]
    leaf.model.add_bool_or(holds)
    for claim, one in zip(claims, holds, strict=True):
        leaf.model.add(claim).only_enforce_if(one)


def _of_largest(leaf: Leaf, most: Any, index: int, wanted: int) -> Any:
    """Column `wanted` of the first stage with the largest column `index`, which `most` equals."""
    model, stages = leaf.model, leaf.stages
    values = [leaf.column(stage, index) for stage in stages]
    largest = [model.new_bool_var(f"largest{index}_{stage}") for stage in stages]
    model.add_exactly_one(largest)
    top = max(int(t[s][:, wanted].max()) for t in leaf.options.tables for s in stages)
    found = model.new_int_var(0, max(top, 0), f"shown{index}")
    for stage, is_largest in zip(stages, largest, strict=True):
        model.add(found == leaf.column(stage, wanted)).only_enforce_if(is_largest)
        model.add(most == values[stage]).only_enforce_if(is_largest)
        for other in stages:
            if other != stage:
                model.add(values[stage] >= values[other] + (other < stage)).only_enforce_if(is_largest)
    return found
