"""shardwise: decide how to train a transformer on the GPUs you have.

Reads the model, the cluster and the job; lets CP-SAT choose how to shard; proves that no other
choice is faster under its cost model; says why when nothing fits.

>>> from shardwise import Cluster, Request, Training, plan
>>> answer = plan(Request(model="qwen2.5-0.5b", cluster=Cluster.preset("dgx-h100"),
...     training=Training(global_batch_size=64, sequence_length=2048)))
>>> answer.status
'optimal'
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in `typing`, whose import alone takes longer than all else here

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, overload

    from .costs import Ledger as Ledger
    from .hardware import Cluster as Cluster
    from .inputs import InputError as InputError
    from .models import Strategy as Strategy
    from .models import Training as Training
    from .models import Transformer as Transformer
    from .plans import NoPlan as NoPlan
    from .plans import OutOfTime as OutOfTime
    from .plans import Plan as Plan
    from .plans import Request as Request
    from .solver import Planner as Planner

__all__ = [
    "Cluster",
    "InputError",
    "Ledger",
    "NoPlan",
    "OutOfTime",
    "Plan",
    "Planner",
    "Request",
    "Strategy",
    "Training",
    "Transformer",
    "plan",
    "price",
]

__version__ = "0.1.0"

_ROOMS = {
    "Cluster": "hardware",
    "InputError": "inputs",
    "Ledger": "costs",
    "NoPlan": "plans",
    "OutOfTime": "plans",
    "Plan": "plans",
    "Planner": "solver",
    "Request": "plans",
    "Strategy": "models",
    "Training": "models",
    "Transformer": "models",
}


def __getattr__(name: str) -> Any:
    """Nouns are imported when first asked for, so that importing the package costs nothing."""
    if name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_ROOMS[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)


def plan(request: Request, time_limit: float | None = None) -> Plan | NoPlan | OutOfTime:
    """The fastest plan of `request` with its proof, or why there is none, or out of time.

    `time_limit` counts deterministic seconds. Raises `InputError` for a rule outside the grammar.
    """
    from .launch import writable_by
    from .solver import plan as search

    return search(request, time_limit=time_limit, writers=writable_by)


if TYPE_CHECKING:

    @overload
    def price(request: Request, strategy: Strategy) -> Ledger: ...
    @overload
    def price(request: Request, strategy: Sequence[Strategy]) -> list[Ledger]: ...


def price(request: Request, strategy: Strategy | Sequence[Strategy]) -> Ledger | list[Ledger]:
    """The ledger of one strategy, or of each of many, for the request's model, job and cluster."""
    from collections.abc import Sequence

    from .plans.report import price as price_all

    if isinstance(strategy, Sequence):
        return price_all(request, strategy)
    return price_all(request, [strategy])[0]
