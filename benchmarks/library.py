"""One question to the library: ``python -m benchmarks.library MODEL CLUSTER NUMBER BATCH LENGTH``

CLUSTER is a machine type, of which there are NUMBER; two joined by ``+`` are pools of NUMBER machines each;
``TYPE/LEAVES`` has NUMBER free cards of such machines over so many leaves.

What is imported is imported first; then CPU time of `Planner.plan` is taken with no tables (cold), of the
same question with another memory margin, whose tables are warm, of `Planner.check` of a plan on all cards
(check), and of what stands beside the plan: alternatives, offers, the ladder (beside). Prints one JSON
object.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable, Sequence
from random import Random
from time import process_time
from typing import Any

from shardwise import Cluster, Plan, Planner, Request, Training
from shardwise.hardware import Pool
from shardwise.launch import writable_by
from shardwise.solver import answering, fragments, pool_asides, pools
from shardwise.solver.engine import cp_model
from shardwise.solver.mixed import MixedSearch
from shardwise.solver.search import Search

from .face import tell

WARM_MARGIN = 0.1
NESTED = ("beside", "search")
"""What stands beside a plan is searched for by parts that are told."""


class Clock:
    """CPU seconds of some functions, and what is left of the whole."""

    def __init__(self) -> None:
        self.parts: dict[str, float] = {}

    def timed(self, name: str, what: Callable[..., Any]) -> Callable[..., Any]:
        """`what`, adding its time to `name`."""

        def run(*values: Any, **more: Any) -> Any:
            started = process_time()
            try:
                return what(*values, **more)
            finally:
                self.parts[name] = self.parts.get(name, 0.0) + process_time() - started

        return run


def cluster_of(name: str, number: int) -> Cluster:
    """The cluster that CLUSTER and NUMBER name."""
    first, *others = name.split("+")
    machine, _, leaves = first.partition("/")
    if leaves:
        free = scattered(int(leaves), number, Cluster.preset(machine).node.gpus)
        nodes = sum(map(len, free))
        return Cluster(name="free", node=Cluster.preset(machine).node, nodes=nodes, free=free)
    pools = tuple(Pool(node=Cluster.preset(other).node, nodes=number) for other in others)
    return Cluster.preset(machine, nodes=number).model_copy(update={"others": pools})


def scattered(leaves: int, cards: int, most: int) -> tuple[tuple[int, ...], ...]:
    """Free cards of each machine by leaf: 1 to `most` a machine on leaves drawn at random (one seed)."""
    draw = Random(leaves)
    found: list[list[int]] = [[draw.randint(1, most)] for _ in range(leaves)]
    while (left := cards - sum(map(sum, found))) > 0:
        found[draw.randrange(leaves)].append(min(left, draw.randint(1, most)))
    return tuple(map(tuple, found))


def question(words: Sequence[str], margin: float | None = None) -> Request:
    """The request of the command line's words."""
    model, cluster, number, batch, length = words
    return Request(
        model=model,
        cluster=cluster_of(cluster, int(number)),
        training=Training(global_batch_size=int(batch), sequence_length=int(length)),
        limits={} if margin is None else {"memory_margin": margin},
    )


def measure(words: Sequence[str]) -> dict[str, Any]:
    """CPU seconds of each call, what they go to, and the peak memory of the process."""
    cold, warm, clock = question(words), question(words, WARM_MARGIN), Clock()
    cp_model()
    _ = writable_by.__module__, fragments, pool_asides, pools  # what else such questions load
    for name in ("alternatives", "offers", "ladder", "plan_of"):
        setattr(answering, name, clock.timed(name, getattr(answering, name)))
    for kind in (Search, MixedSearch):
        kind.run = clock.timed("search", kind.run)  # type: ignore[method-assign]
    asked = Planner(cold.cluster)
    taken: dict[str, float] = {}
    parts: dict[str, dict[str, float]] = {}
    answer: Any = None

    def took(heat: str, what: Callable[[], Any]) -> Any:
        clock.parts.clear()
        started = process_time()
        found = what()
        taken[heat] = process_time() - started
        parts[heat] = {name: spent for name, spent in clock.parts.items() if (heat, name) != NESTED}
        return found

    answer = took("cold", lambda: asked.plan(cold))
    took("warm", lambda: asked.plan(warm))
    if isinstance(answer, Plan) and answer.strategy.world == cold.cluster.gpus:
        asked.check(cold, answer.strategy)
        took("check", lambda: asked.check(cold, answer.strategy))
    if isinstance(answer, Plan):
        took("beside", answer.whole)
    return {
        "status": answer.status,
        "taken": taken,
        "parts": parts,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "rows": answer.proof.rows_considered if hasattr(answer, "proof") else None,
        "leaves": answer.proof.leaves_solved if hasattr(answer, "proof") else None,
    }


if __name__ == "__main__":
    tell(json.dumps(measure(sys.argv[1:])))
