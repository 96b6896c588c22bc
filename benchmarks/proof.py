"""The search held against an exhaustive one: ``python -m benchmarks.proof [--count N] [--routes N] [--json]``

Random small requests (every objective, experts, infeasible ones, rules, limits; `tests/oracle`) are
solved by the search and by trying everything; feasibility, step and counts of rows must be equal, the
certificate must add up. For some rows with stages four exact routes must agree on the same integers: brute
force over the option tables, a dynamic program over bottleneck and tail, CP-SAT on layers and recompute as
integers (LIN), CP-SAT on option tables with the frontier cut (TAB). Needs the tests beside it: it runs from
the tree.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import process_time
from typing import Any

from shardwise.inputs import InputError
from shardwise.plans import Request
from shardwise.solver.coefficients import Coefficients
from shardwise.solver.cuts import obeying
from shardwise.solver.fewest import fewest
from shardwise.solver.search import Search
from shardwise.solver.space import rows
from shardwise.solver.tables import Tables

from .face import tell
from .routes import Routes, routes

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

COUNT = 2000
ROUTES = 60
EXCHANGING = 20
"""One request in so many asks for several ways to exchange a sequence, and one for FSDP or DeepSpeed."""

PRINTED = 100


def compared(asked: Request) -> tuple[list[str], Any, Any]:
    """(differences, outcome of the search, answer of the exhaustive search) of one request.

    Where fewest cards are asked for the exhaustive search goes through every number of them.
    """
    from oracle.brute import brute, faults  # type: ignore[import-not-found, unused-ignore]

    if asked.objective.minimize == "gpus":
        return _fewest(asked)
    outcome, answer = Search(asked).run(), brute(asked)
    found, tally = outcome.best, outcome.tally
    step, wrong = found.step_ns if found else None, []
    if step != answer.step_ns:
        wrong.append(f"step {step}, exhaustive {answer.step_ns}")
    if not outcome.proved or outcome.bound_ns != step:
        wrong.append(f"proved {outcome.proved} with bound {outcome.bound_ns}")
    if tally.rows - tally.rule != len(answer.rows):
        wrong.append(f"{tally.rows - tally.rule} rows kept by rules, exhaustive {len(answer.rows)}")
    if sum(tally.excluded().values()) + (found is not None) != tally.rows:
        wrong.append(f"excluded {tally.excluded()} of {tally.rows} rows")
    return wrong + (faults(asked, found.strategy, found.step_ns) if found else []), outcome, answer


def _fewest(asked: Request) -> tuple[list[str], Any, Any]:
    """As `compared`: the number of cards and the step on them."""
    from oracle.brute import Answer, brute  # type: ignore[import-not-found, unused-ignore]

    sized, outcome = fewest(asked, None, Tables())
    found, answer, want = outcome.best, Answer(()), None
    for cards in range(1, asked.cluster.gpus + 1):
        try:
            answer = brute(asked.changed({"cluster.gpus": cards}))
        except InputError:
            continue
        if answer.step_ns is not None:
            want = cards, answer.step_ns
            break
    got = (sized.cluster.gpus, found.step_ns) if found else None
    wrong = [] if got == want and outcome.proved else [f"(cards, step) {got}, exhaustive {want}"]
    if sum(outcome.tally.excluded().values()) + (found is not None) != outcome.tally.rows:
        wrong.append(f"excluded {outcome.tally.excluded()} of {outcome.tally.rows} rows")
    return wrong, outcome, answer


def agreeing(most: int) -> Iterator[tuple[int, Routes]]:
    """(seed, steps by route) of rows with at least two stages of one kind, a row a request."""
    from oracle.requests import request  # type: ignore[import-not-found, unused-ignore]

    done, seed = 0, 0
    while done < most:
        asked, seed = request(seed), seed + 1
        if len(asked.model.kinds) > 1:
            continue
        every = rows(asked)
        every = every.take(obeying(asked, every))
        staged = [i for i in range(len(every)) if every.pipeline_parallel[i] > 1]
        if not staged:
            continue
        some = routes(Coefficients(asked, every), staged[seed % len(staged)])
        if some is not None:
            done += 1
            yield seed - 1, some


def asked_of(count: int) -> Iterator[tuple[str, Request]]:
    """`count` requests by name: every objective and theme in turn.

    Of each twenty one is for several exchanges, one for sequences split under FSDP or DeepSpeed.
    """
    from oracle.requests import exchanging, sharing, varied  # type: ignore[import-not-found, unused-ignore]

    own = {EXCHANGING - 1: exchanging, EXCHANGING // 2 - 1: sharing}
    for seed in range(count):
        made = own.get(seed % EXCHANGING, varied)
        yield f"{made.__name__} {seed}", made(seed)


def measure(count: int, most: int) -> dict[str, Any]:
    """Counts, differences by seed, the coverage line, and rows on which the routes disagree."""
    from oracle.coverage import Coverage  # type: ignore[import-not-found, unused-ignore]

    coverage, wrong, leaves, started = Coverage(), {}, 0, process_time()
    asked_for: Counter[str] = Counter()
    for done, (name, asked) in enumerate(asked_of(count), start=1):
        asked_for.update(_kinds(asked))
        differences, outcome, answer = compared(asked)
        if differences:
            wrong[name] = differences
        strategy = outcome.best.strategy if outcome.best else None
        coverage.add(asked, strategy, answer.tried)
        leaves = max(leaves, outcome.tally.leaves)
        if done % PRINTED == 0:
            print(f"{done} requests, {len(wrong)} differ", file=sys.stderr)
    agreed = list(agreeing(most))
    apart = {seed: vars(one) for seed, one in agreed if len(set(vars(one).values())) > 1}
    return {
        "requests": count,
        "differ": len(wrong),
        "asked_for": dict(sorted(asked_for.items())),
        "differences": wrong,
        "coverage": coverage.line(),
        "rare": coverage.rare,
        "most_leaves": leaves,
        "rows_by_four_routes": len(agreed),
        "feasible_rows": sum(one.brute is not None for _, one in agreed),
        "routes_apart": apart,
        "cpu_seconds": process_time() - started,
    }


def _kinds(asked: Request) -> list[str]:
    """What a request asks for, as it is counted."""
    limits = asked.limits
    words: list[str] = [asked.objective.minimize]
    words += ["rules"] if asked.choose.rules else []
    words += ["predictors"] if asked.training.mtp_layers else []
    words += ["experts"] if any(kind.feed_forward.experts for kind in asked.model.kinds) else []
    words += [name for name, value in limits if name != "memory_margin" and value is not None]
    return words


def text(found: dict[str, Any]) -> str:
    """The result in lines."""
    lines = [
        f"{found['requests']} requests: {found['differ']} differ from the exhaustive search",
        *(f"  {name}: {'; '.join(words)}" for name, words in found["differences"].items()),
        f"asked for: {', '.join(f'{name} {count}' for name, count in found['asked_for'].items())}",
        found["coverage"],
        f"{found['rows_by_four_routes']} rows ({found['feasible_rows']} feasible) by four routes: "
        f"{len(found['routes_apart'])} apart",
        *(f"  seed {seed}: {steps}" for seed, steps in found["routes_apart"].items()),
        f"at most {found['most_leaves']} leaves a request; {found['cpu_seconds']:.0f} s of CPU",
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; 1 where anything differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--count", type=int, default=COUNT, help="requests")
    parser.add_argument("--routes", type=int, default=ROUTES, help="rows solved by four routes")
    asked = parser.parse_args(arguments)
    found = measure(asked.count, asked.routes)
    tell(json.dumps(found, indent=1, sort_keys=True) if asked.json else text(found))
    return 1 if found["differ"] or found["routes_apart"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
