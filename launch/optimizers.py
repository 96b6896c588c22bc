"""Which optimizers the files of each client name: one table for refusals and for `list optimizers`."""

from __future__ import annotations

from collections.abc import Iterator

from ..models.backend import backend
from ..models.strategy import BackendName
from ..models.training import Optimizer
from ..plans.plan import Plan
from .refused import Objection
from .target import TARGETS
from .torchtitan.limits import OPTIMIZERS as TORCHTITAN
from .transformers.optimizers import OPTIMIZERS as TRAINER


def optimizers_of(target: str, name: BackendName) -> tuple[Optimizer, ...]:
    """Optimizers that `target` writes into plans of backend `name`; what the backend runs, or fewer.

    >>> optimizers_of("torchtitan", "fsdp"), optimizers_of("megatron", "megatron")
    (('adamw',), ('adamw', 'sgd'))
    """
    own = {("torchtitan", "fsdp"): TORCHTITAN, ("transformers", "fsdp"): tuple(TRAINER)}
    return own.get((target, name), backend(name).optimizers)


def writers_of(optimizer: Optimizer, name: BackendName) -> tuple[str, ...]:
    """Clients whose files name `optimizer` for plans of backend `name`; Slurm runs what others write.

    >>> writers_of("lion", "deepspeed"), writers_of("muon", "megatron")
    (('deepspeed', 'transformers'), ())
    """
    clients = [target for target in TARGETS.values() if name in target.backends and target.name != "slurm"]
    return tuple(one.name for one in clients if optimizer in optimizers_of(one.name, name))


def objections(plan: Plan, target: str) -> Iterator[Objection]:
    """The optimizer of a plan, where files of `target` cannot name it."""
    optimizer, name = plan.request.training.optimizer, plan.strategy.backend
    named = optimizers_of(target, name)
    if optimizer not in named:
        others = ", ".join(f"--to {other}" for other in writers_of(optimizer, name))
        instead = f"; {others} can" if others else "; `shardwise list optimizers` says who writes which"
        reason = f"the files of {target} for {name} plans name {', '.join(named)} alone{instead}"
        yield Objection("training.optimizer", optimizer, reason)
