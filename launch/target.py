"""The clients we write for, each with its backend, its limits and its files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from ..inputs.record import dataclass
from ..models.strategy import BACKENDS, BackendName, Strategy
from ..models.transformer import Transformer
from ..plans.plan import Plan
from . import accelerate, deepspeed, fsdp, megatron, slurm, torchtitan, transformers
from .refused import Objection
from .writer import launcher, writer

Narrowing = Mapping[str, object]
"""Values of `choose`, by name."""


def _any_training(plan: Plan) -> Iterator[Objection]:
    """None: sequences of any length are taken."""
    del plan
    return iter(())


@dataclass(frozen=True)
class Target:
    """One client.

    `backends` are those whose plans are written, the usual one first. `proof` says what our tests do with
    such files, with the releases of `packages`. Under each of `narrowings` a search finds plans that the
    client can mostly write; they exclude each other.
    `training` are objections to what a plan trains; `optimizers` tells which optimizers it names.
    """

    name: str
    backends: tuple[BackendName, ...]
    objections: Callable[[Strategy, Transformer], Iterator[Objection]]
    write: Callable[[Plan], dict[str, str]]
    launch: Callable[[Plan], dict[str, str]]
    proof: str
    packages: tuple[str, ...]
    narrowings: tuple[Narrowing, ...]
    training: Callable[[Plan], Iterator[Objection]] = _any_training


def _nothing(plan: Plan) -> dict[str, str]:
    """No files beside those written."""
    del plan
    return {}


_UNCUT: Narrowing = {
    "backend": "fsdp",
    "tensor_parallel": 1,
    "gradient_dtype": "bf16",
    "offload_optimizer": "none",
    "offload_params": "none",
}

_WHOLE: tuple[Narrowing, ...] = ({**_UNCUT, "recompute": "none"}, {**_UNCUT, "recompute": "full"})
"""FSDP plans that Accelerate takes: layers alike."""

_TOGETHER: Narrowing = {"offload_optimizer": "none", "offload_params": "none"}

TARGETS = {
    target.name: target
    for target in (
        Target(
            "deepspeed",
            ("deepspeed",),
            deepspeed.objections,
            writer("deepspeed"),
            launcher("deepspeed"),
            "loaded and trained in our tests",
            ("deepspeed", "torch", "transformers"),
            ({"backend": "deepspeed"},),
        ),
        Target(
            "fsdp",
            ("fsdp",),
            fsdp.objections,
            writer("fsdp"),
            launcher("fsdp"),
            "imported and trained in our tests",
            ("torch", "transformers"),
            ({"backend": "fsdp"},),
        ),
        Target(
            "accelerate",
            ("fsdp",),
            accelerate.objections,
            writer("accelerate"),
            launcher("accelerate"),
            "loaded, not trained, in our tests",
            ("accelerate", "torch", "transformers"),
            _WHOLE,
        ),
        Target(
            "megatron",
            ("megatron",),
            megatron.objections,
            writer("megatron"),
            launcher("megatron"),
            "read by its own three checks of arguments, not run, in our tests",
            ("Megatron-LM",),
            ({"backend": "megatron"},),
            megatron.training_objections,
        ),
        Target(
            "transformers",
            ("deepspeed", "fsdp"),
            transformers.objections,
            writer("transformers"),
            launcher("transformers"),
            "loaded in our tests",
            ("transformers", "accelerate", "deepspeed", "torch"),
            ({"backend": "deepspeed"}, *_WHOLE),
            transformers.training_objections,
        ),
        Target(
            "torchtitan",
            ("fsdp",),
            torchtitan.objections,
            writer("torchtitan"),
            launcher("torchtitan"),
            "read by its own parser, not run, in our tests",
            ("torchtitan",),
            tuple(
                {"backend": "fsdp", "gradient_dtype": "fp32", "recompute": word, **_TOGETHER}
                for word in ("none", "selective", "full")
            ),
            torchtitan.training_objections,
        ),
        Target(
            "slurm",
            BACKENDS,
            slurm.objections,
            slurm.write_all,
            _nothing,
            "run on two machines of a real Slurm with made-up cards",
            ("Slurm",),
            ({},),
            slurm.training_objections,
        ),
    )
}
