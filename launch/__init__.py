"""Launch files: what other tools need to start a plan, one folder of this package a client.

| file | holds |
|---|---|
| `deepspeed/`, `fsdp/`, `accelerate/`, `megatron/` | schema, writer and limits of one client's files |
| `fsdp/parts/` | the source from which `fsdp_plan.py` is made |
| `emit`, `target`, `refused`, `objections` | from a plan to files, or the reason why not |
| `folder`, `readme`, `notes`, `command`, `shape` | what stands beside: README, plan, launch script |
| `families`, `releases`, `label` | layer classes, tested releases, names safe in comments |
"""

from .emit import backend_of, emit, narrowings, refusal, targets, writable_by
from .refused import Objection, Refused

__all__ = ["Objection", "Refused", "backend_of", "emit", "narrowings", "refusal", "targets", "writable_by"]
