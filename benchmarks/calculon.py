"""A grid others enumerate, solved: ``python -m benchmarks.calculon [CARDS...] [--json]``

Calculon (github.com/calculon-ai/calculon, commit caa4b11) evaluates every execution of a grid over degrees,
interleaving, micro-batches, recompute, optimizer sharding, offload, collectives, overlap and networks.
`executions` counts that grid for GPT-3 175B on A100 cards with host memory and two networks, as its loops
would. The same decisions are then left to this package's search on as many DGX A100 (Megatron-LM), which
decides layers, recompute and offload stage by stage besides; its optimum is proved under its own ledger. CPU
time is that of one `Planner.plan` after imports, with no tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import process_time
from typing import Any

from shardwise import Cluster, Plan, Planner, Request, Training
from shardwise.inputs import InputError, nearest
from shardwise.models.divisors import divisors_of
from shardwise.solver.engine import cp_model

from .face import Result, run, table

MODEL, NODE = "gpt3-175b", "dgx-a100-80gb"
HIDDEN, HEADS, LAYERS, SEQUENCE = 12288, 96, 96, 2048
"""``models/gpt3-175B.json`` of Calculon."""

CASES = {64: 64, 512: 1536, 4096: 4096}
"""Cards, and sequences a step at most: Calculon takes the largest multiple of the data ranks."""

NETWORKS = 2
"""Of ``systems/a100_80g.json``, which also has a second memory to offload to."""

RATE = (400, 640)
"""Executions that Calculon evaluates in a CPU second: on a quiet core; 90 to 270 on a busy one (2026-11)."""


def degrees(cards: int) -> Iterator[tuple[int, int, int]]:
    """(tensor, pipeline, data) of the grid."""
    for tensor in divisors_of(cards):
        if HIDDEN % tensor or HEADS % tensor:
            continue
        for pipeline in divisors_of(min(cards // tensor, LAYERS)):
            if cards % (tensor * pipeline) == 0 and LAYERS % pipeline == 0:
                yield tensor, pipeline, cards // (tensor * pipeline)


def executions(cards: int, batch: int) -> int:
    """Executions of Calculon's grid on so many cards.

    >>> [executions(cards, batch) for cards, batch in CASES.items()]
    [3232128, 13165632, 7126368]
    """
    return sum(_executions(*cut, batch // cut[2] * cut[2]) for cut in degrees(cards) if cut[2] <= batch)


def _executions(tensor: int, pipeline: int, data: int, batch: int) -> int:
    """Those of one set of degrees: per recompute its collectives and places, times all that is free."""
    chunks = divisors_of(LAYERS // pipeline) if pipeline > 1 else [1]
    micro = [size for size in divisors_of(batch // data) if size * SEQUENCE % tensor == 0]
    networks: int = NETWORKS ** sum(degree > 1 for degree in (tensor, pipeline, data))
    overlaps = (3 if tensor > 1 else 1) * (2 if data > 1 else 1)
    sharding = 2 if data > 1 else 1
    kept = 4 * 2 * 2 * 2  # three collectives, one of them with gathers repeated or not; three kinds offloaded
    full = 3 * 2 * 2  # all recomputed: no activations to offload, no gathers to repeat
    return len(chunks) * len(micro) * networks * overlaps * sharding * (2 * kept + full)


def question(cards: int, batch: int) -> Request:
    """The same decisions as a request."""
    return Request(
        model=MODEL,
        cluster=Cluster.preset(NODE, nodes=cards // 8),
        training=Training(global_batch_size=batch, sequence_length=SEQUENCE),
        choose={"backend": "megatron", "context_parallel": 1},
    )


def measure(names: Sequence[str]) -> Result:
    """Both counts and the CPU seconds of each case."""
    known = {str(cards): cards for cards in CASES}
    for name in names:
        if name not in known:
            raise InputError("cards", name, "command line", "is no case", legal=nearest(name, known))
    cp_model()
    return {"cases": [_case(known[name], CASES[known[name]]) for name in names or known]}


def _case(cards: int, batch: int) -> dict[str, Any]:
    asked, grid = question(cards, batch), executions(cards, batch)
    planner = Planner(asked.cluster)
    started = process_time()
    answer = planner.plan(asked)
    taken = process_time() - started
    if not isinstance(answer, Plan):
        return {"cards": cards, "batch": batch, "executions": grid, "status": answer.status}
    return {
        "cards": cards,
        "batch": batch,
        "executions": grid,
        "hours_to_evaluate": [round(grid / rate / 3600, 2) for rate in reversed(RATE)],
        "status": answer.status,
        "rows": answer.proof.rows_considered,
        "leaves": answer.proof.leaves_solved,
        "step_seconds": answer.time.step_seconds,
        "cpu_seconds": taken,
    }


def text(found: Result) -> str:
    """A line a case."""
    head = ("cards", "batch", "Calculon's executions", "hours of them", "rows", "leaves", "status", "CPU s")
    rows = [
        [
            case["cards"],
            case["batch"],
            f"{case['executions']:,}",
            "-".join(f"{hours:.1f}" for hours in case.get("hours_to_evaluate", ())),
            f"{case.get('rows', 0):,}",
            case.get("leaves", 0),
            case["status"],
            case.get("cpu_seconds", 0.0),
        ]
        for case in found["cases"]
    ]
    return table(head, rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    return run((__doc__ or "").splitlines()[0], ["CARDS*"], measure, text, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
