"""What is told of a plan on free cards: which it uses, and what their being scattered costs."""

from __future__ import annotations

from ..plans import Notice, Plan, Request
from ..plans.report import price, seconds
from .search import Search
from .shape import Shape, ideal_cluster


def fragment_notices(request: Request, shape: Shape, plan: Plan, whole_ns: dict[int, int]) -> list[Notice]:
    """Which free cards the plan uses, and what its blocks and leaves cost against whole machines.

    `whole_ns` are steps there by number of cards; the plan's own number is searched for where it is missing.
    """
    return [allocation(shape), *_costs(request, shape, plan, whole_ns)]


def allocation(shape: Shape) -> Notice:
    """Which free cards the plan uses, leaf by leaf."""
    cards, laid = shape.number * shape.size, shape.laid
    whole = [f"{leaf}: {count}" for leaf, count in enumerate(laid.whole) if count]
    split = [f"{leaf}: {count}" for leaf, count in enumerate(laid.split) if count]
    parts = [f"whole stages by leaf {', '.join(whole)}"] if whole else []
    if split:
        parts.append(f"blocks of {laid.split_stages} split stages by leaf {', '.join(split)}")
    return Notice(
        code="allocation",
        message=f"uses {cards} of {shape.cluster.gpus} free cards, {shape.number} blocks of {shape.size} on "
        f"a machine, {shape.stage_blocks} blocks a stage; {'; '.join(parts)}",
        hint="every block is one machine's cards to the launcher: take them in the order of the leaves",
    )


def _costs(request: Request, shape: Shape, plan: Plan, whole_ns: dict[int, int]) -> list[Notice]:
    """What as many cards would do on whole machines under one leaf, and which part each cause has in it."""
    cards, step_seconds = shape.number * shape.size, plan.time.step_seconds
    flat = ideal_cluster(request.cluster.node, cards)
    if flat is None:
        return []
    if cards not in whole_ns:
        found = Search(request.model_copy(update={"cluster": flat})).run().best
        whole_ns = whole_ns | ({cards: found.step_ns} if found else {})
    if cards not in whole_ns:
        return []
    best = seconds(whole_ns[cards])
    near = price(request.model_copy(update={"cluster": shape.near}), [plan.strategy])[0].step_ns
    causes = [
        (f"blocks of {shape.size} of a machine's {request.cluster.node.gpus} cards", seconds(near) - best),
        ("paths between leaves", step_seconds - seconds(near)),
    ]
    shares = ", ".join(f"{cause} {100.0 * lost / best:.1f} %" for cause, lost in causes)
    message = (
        f"on {flat.nodes} whole machines under one leaf the step would take {best:.4g} s: "
        f"these fragments cost {100.0 * (step_seconds / best - 1.0):.1f} % ({shares})"
        + _more(whole_ns, cards, step_seconds)
    )
    return [Notice(code="fragments", message=message, hint="wait for whole machines if the job is long")]


def _more(whole_ns: dict[int, int], cards: int, step_seconds: float) -> str:
    """What another number of cards would do on whole machines, where that is fastest."""
    least, other = min((step, count) for count, step in whole_ns.items())
    if other == cards:
        return ""
    gain = 100.0 * (1.0 - seconds(least) / step_seconds)
    return f"; {other} cards on whole machines would take {seconds(least):.4g} s, {gain:.1f} % less"
