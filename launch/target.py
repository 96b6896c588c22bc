"""The clients we write for, each with its backend, its limits and its files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..models.strategy import BackendName, Strategy
from ..models.transformer import Transformer
from ..plans.plan import Plan
from . import accelerate, command, deepspeed, fsdp
from .refused import Objection


@dataclass(frozen=True)
class Target:
    """One client. `proof` says what tests/clients does with such files, with the releases of `packages`."""

    name: str
    backend: BackendName
    objections: Callable[[Strategy, Transformer], Iterator[Objection]]
    write: Callable[[Plan], dict[str, str]]
    launch: Callable[[Plan], dict[str, str]]
    proof: str
    packages: tuple[str, ...]


TARGETS = {
    target.name: target
    for target in (
        Target(
            "deepspeed",
            "deepspeed",
            deepspeed.objections,
            deepspeed.write,
            command.deepspeed,
            "loaded and trained in our tests",
            ("deepspeed", "torch", "transformers"),
        ),
        Target(
            "fsdp",
            "fsdp",
            fsdp.objections,
            fsdp.write,
            command.fsdp,
            "imported and trained in our tests",
            ("torch", "transformers"),
        ),
        Target(
            "accelerate",
            "fsdp",
            accelerate.objections,
            accelerate.write,
            command.accelerate,
            "loaded, not trained, in our tests",
            ("accelerate", "torch", "transformers"),
        ),
    )
}
