"""One question to the library: ``python -m benchmarks.library MODEL CLUSTER NODES BATCH LENGTH``

What is imported is imported first; then CPU time of `Planner.plan` is taken with no tables (cold), of the
same question with another memory margin, whose tables are warm, of `Planner.check` of the plan (check), and
of what stands beside the plan: alternatives, offers, the ladder (beside). Prints one JSON object.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable, Sequence
from time import process_time
from typing import Any

from shardwise import Cluster, Plan, Planner, Request, Training
from shardwise.launch import writable_by
from shardwise.solver import planner
from shardwise.solver.engine import cp_model
from shardwise.solver.search import Search

WARM_MARGIN = 0.1


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


def question(words: Sequence[str], margin: float | None = None) -> Request:
    """The request of the command line's words."""
    model, cluster, nodes, batch, length = words
    return Request(
        model=model,
        cluster=Cluster.preset(cluster, nodes=int(nodes)),
        training=Training(global_batch_size=int(batch), sequence_length=int(length)),
        limits={} if margin is None else {"memory_margin": margin},
    )


def measure(words: Sequence[str]) -> dict[str, Any]:
    """CPU seconds of each call, what they go to, and the peak memory of the process."""
    cold, warm, clock = question(words), question(words, WARM_MARGIN), Clock()
    cp_model()
    writable_by.__module__  # noqa: B018
    for name in ("alternatives", "offers", "ladder", "plan_of"):
        setattr(planner, name, clock.timed(name, getattr(planner, name)))
    searched = Search.run
    first: list[float] = []

    def run(search: Search) -> Any:
        started = process_time()
        found = searched(search)
        first.append(process_time() - started)
        return found

    Search.run = run  # type: ignore[method-assign, assignment]
    asked = Planner(cold.cluster)
    taken: dict[str, float] = {}
    parts: dict[str, dict[str, float]] = {}
    answer: Any = None

    def took(heat: str, what: Callable[[], Any]) -> Any:
        clock.parts.clear()
        first.clear()
        started = process_time()
        found = what()
        taken[heat] = process_time() - started
        parts[heat] = {**clock.parts, **({"search": first[0]} if first and heat in ("cold", "warm") else {})}
        return found

    answer = took("cold", lambda: asked.plan(cold))
    took("warm", lambda: asked.plan(warm))
    if isinstance(answer, Plan):
        asked.check(cold, answer.strategy)
        took("check", lambda: asked.check(cold, answer.strategy))
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
    print(json.dumps(measure(sys.argv[1:])))
