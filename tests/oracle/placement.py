"""Which cards stand in which node: ranks are laid out one by one."""

from __future__ import annotations

from collections import Counter
from functools import cache

Node = tuple[tuple[int, int], ...]
"""(stage, cards of it) of one node, stages ascending."""


@cache
def nodes(inner: int, stages: int, data: int, stages_first: bool, node_gpus: int) -> tuple[Node, ...]:
    """What each node holds. `inner` are the ranks of one tensor and context group, always neighbours.

    Then come the data ranks of a stage and last the stages; or, with `stages_first`, the other way.

    >>> nodes(1, 2, 2, False, 2), nodes(1, 2, 2, True, 2)
    ((((0, 2),), ((1, 2),)), (((0, 1), (1, 1)), ((0, 1), (1, 1))))
    """
    held: dict[int, Counter[int]] = {}
    for stage in range(stages):
        for replica in range(data):
            outer = replica * stages + stage if stages_first else stage * data + replica
            for rank in range(outer * inner, (outer + 1) * inner):
                held.setdefault(rank // node_gpus, Counter())[stage] += 1
    return tuple(tuple(sorted(held[index].items())) for index in sorted(held))


def line_up(found: tuple[Node, ...]) -> bool:
    """Whether nodes are alike: equal shares of as many stages each, and no stage in two companies."""
    companies = {tuple(stage for stage, _ in node) for node in found}
    shares = {cards for node in found for _, cards in node}
    stages = [stage for company in companies for stage in company]
    alike = len({len(company) for company in companies}) == 1 and len(shares) == 1
    return alike and len(set(stages)) == len(stages)
