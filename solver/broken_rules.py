"""Why choices clash that no backend runs together: the sentences of `check` on what they ask for."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice, product

from ..inputs import InputError
from ..models.backend import Backend, backend
from ..models.strategy import BACKENDS
from ..plans import Breach, Choose, Request, read_strategy
from .legal import breaches

MOST = 64
"""Combinations of chosen values looked at."""


def broken_rules(request: Request, limits: Collection[str]) -> tuple[str, ...]:
    """Reasons why each combination of the values chosen for `limits` breaks a rule under every backend.

    Empty where some combination breaks none of a field in `limits`: then no rule alone is to blame.
    """
    names = {limit.rpartition(".")[2] for limit in limits}
    knobs = [name for name in Choose.model_fields if name in names - {"rules", "backend"}]
    values = [getattr(request.choose, name) or () for name in knobs]
    found: dict[str, None] = {}
    for chosen in islice(product(*values), MOST):
        for known in _able(request):
            broken = list(_broken(request, known, dict(zip(knobs, chosen, strict=True)), names))
            if not broken:
                return ()
            found |= dict.fromkeys(broken)
    return tuple(found)


def _able(request: Request) -> Iterator[Backend]:
    """Backends allowed that run the model and the job at all."""
    for name in request.choose.backend or BACKENDS:
        known = backend(name)
        if known.knows(request.model) and not known.unable(request.training):
            yield known


def _broken(
    request: Request, known: Backend, chosen: dict[str, object], names: Collection[str]
) -> Iterator[str]:
    """Sentences on the strategy of these choices, all else as the backend has it."""
    free = request.model_copy(update={"choose": Choose()})
    data = {"backend": known.name, **chosen}
    try:
        strategy = read_strategy(data, request.model, "choose", request.training, request.cluster.gpus)
    except InputError as error:
        if any(name in f"{error.field} {error.reason}" for name in names):
            yield error.reason
        return
    yield from (_told(breach, known) for breach in breaches(free, strategy) if breach.rule in names)


def _told(breach: Breach, known: Backend) -> str:
    """The reason of a breach; a rule of a backend names it."""
    of_backend = breach.origin == f"backend {known.name}" and known.name not in breach.reason
    return f"{known.name}: {breach.reason}" if of_backend else breach.reason
