"""Launch files: what other tools need to start a plan, one folder of this package a client.

| file | holds |
|---|---|
| `deepspeed/`, `transformers/`, `fsdp/`, `accelerate/`, `megatron/`, `torchtitan/`, `slurm/` | schema, writer, reader and limits of one client's files |
| `fsdp/parts/` | the source from which `fsdp_plan.py` is made |
| `documents/` | files of other tools as plain data with lines |
| `lint/` | rules on such files |
| `emission`, `target`, `writer`, `refused`, `objections` | from a plan to files, or the reason why not |
| `baseline` | the small run before the large one |
| `written`, `patch` | hashes and edits; changes towards a better plan |
| `read`, `bundle`, `trainer` | from files back to a strategy |
| `folder`, `readme`, `notes`, `command`, `environment`, `shape`, `steps` | what stands beside: README, plan, launch script |
| `families`, `releases`, `label` | layer classes, tested releases, names safe in comments |

Names are imported when first asked for, so that `lint` loads neither the writers nor pydantic.
"""  # noqa: E501

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .emission import backends_of, emit, narrowings, refusal, targets, writable_by
    from .read import read_config
    from .refused import Objection, Refused

__all__ = [
    "Objection",
    "Refused",
    "backends_of",
    "emit",
    "narrowings",
    "read_config",
    "refusal",
    "targets",
    "writable_by",
]

_ROOMS = {"Objection": "refused", "Refused": "refused", "read_config": "read"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_ROOMS.get(name, 'emission')}", __name__), name)
