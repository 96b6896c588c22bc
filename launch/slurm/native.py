"""The client whose files a job starts: one a backend."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

from ...models.strategy import BackendName, Strategy
from ...models.transformer import Transformer
from ...plans.plan import Plan
from .. import deepspeed, fsdp, megatron
from ..refused import Objection
from ..writer import launcher, writer

NATIVE: dict[BackendName, ModuleType] = {"deepspeed": deepspeed, "fsdp": fsdp, "megatron": megatron}


def native(plan: Plan) -> dict[str, str]:
    """The files of the plan's backend with a script that torchrun starts on each machine."""
    name = plan.strategy.backend
    launch = launcher("deepspeed_torchrun" if name == "deepspeed" else name)
    return {**writer(name)(plan), **launch(plan)}


def objections(strategy: Strategy, model: Transformer) -> Iterator[Objection]:
    """Those of the backend's own client."""
    found: Iterator[Objection] = NATIVE[strategy.backend].objections(strategy, model)
    return found


def training_objections(plan: Plan) -> Iterator[Objection]:
    """Those of the backend's own client."""
    own = getattr(NATIVE[plan.strategy.backend], "training_objections", None)
    return iter(()) if own is None else own(plan)
