"""The writers of clients' files: a client's schema is loaded when one of its files is written."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from ..plans.plan import Plan

WRITERS = {
    "deepspeed": "deepspeed.both",
    "fsdp": "fsdp.write",
    "accelerate": "accelerate.write",
    "megatron": "megatron.write",
    "transformers": "transformers.write",
    "torchtitan": "torchtitan.write",
}
"""The module with the `write` of each client."""


def writer(client: str) -> Callable[[Plan], dict[str, str]]:
    """File name to text of a plan, as `client` reads them."""

    def write(plan: Plan) -> dict[str, str]:
        written: dict[str, str] = import_module(f".{WRITERS[client]}", __package__).write(plan)
        return written

    return write
