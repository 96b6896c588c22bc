"""The fewest cards on which a plan keeps every limit, with the proof that fewer do not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from ..costs.cards import clock_factor
from ..inputs import InputError
from ..models.work import flops_per_token
from ..plans import Request
from .cuts import affordable
from .outcome import Outcome, Tally
from .points import padded
from .search import Search
from .software import default_precision
from .tables import Tables


def fewest(request: Request, time_limit: float | None, tables: Tables) -> tuple[Request, Outcome]:
    """The request on the fewest of its cards that have a plan, padded, and the outcome there.

    Every smaller number that could do the step's FLOPs within the deadline is searched to the end, as a plan
    may exist on fewer cards and on more but not between: parts of a node, then whole nodes, up to the
    cluster of the request. The tally is that of all
    of them. Where none has a plan it is the outcome of the largest that may be paid for; where time runs
    out before, that of the number it ran out at.
    """
    tally, last = Tally(), (request, Outcome(None, None, True, Tally()))
    for sized in sizes(request):
        left = None if time_limit is None else max(0.0, time_limit - tally.deterministic_time)
        outcome = Search(sized, left, tables=tables).run()
        tally = _added(tally, outcome.tally)
        last = sized, Outcome(outcome.best, outcome.bound_ns, outcome.proved, tally)
        if outcome.best is not None or not outcome.proved:
            break
    return last


def sizes(request: Request) -> Iterator[Request]:
    """The request on each number of cards, ascending; those that cost too much only where all do."""
    most, each = request.cluster.gpus, request.cluster.node.gpus
    counts = [*range(1, min(each, most + 1)), *range(each, most + 1, each)]
    least = least_cards(request)
    counts = [count for count in counts if count >= least] or counts[-1:]
    sized = [one for one in (_sized(request, count) for count in counts) if one is not None]
    cheap = [one for one in sized if affordable(one)]
    yield from cheap or sized[-1:]


def least_cards(request: Request) -> int:
    """Cards below which the FLOPs of a step take longer than its deadline, were all at their peak.

    Nothing that a plan adds (recompute, communication, kernels below their peak) makes it shorter.
    """
    deadline, gpu, training = (
        request.limits.max_step_seconds,
        request.cluster.node.gpu,
        request.training.timed,
    )
    if deadline is None:
        return 1
    words = request.choose.precision or (default_precision(request),)
    rates = [
        (gpu.peak_flops_per_s(word) or 0.0) / min(clock_factor(request.cluster, word), 1.0) for word in words
    ]
    flops = flops_per_token(training, request.model) * training.tokens
    return max(1, int(flops / (max(rates) * deadline))) if max(rates) else 1


def _sized(request: Request, cards: int) -> Request | None:
    """The request on so many cards; None where its machines cannot be cut so."""
    try:
        return padded(request.changed({"cluster.gpus": cards}, origin=request.origin("cluster.gpus")))
    except InputError:
        return None


def _added(first: Tally, second: Tally) -> Tally:
    """Two tallies as one."""
    found = Tally()
    for one in fields(Tally):
        if one.name != "by_rule":
            setattr(found, one.name, getattr(first, one.name) + getattr(second, one.name))
    names = first.by_rule.keys() | second.by_rule.keys()
    found.by_rule = {name: first.by_rule.get(name, 0) + second.by_rule.get(name, 0) for name in sorted(names)}
    return found
