"""The writers of clients' files and of their launch scripts, loaded when a file is written.

Which clients could write a plan is asked with each plan; that takes neither their schemas nor the scripts.
"""

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


def launcher(client: str) -> Callable[[Plan], dict[str, str]]:
    """File name to text of the script that starts `client`, with what stands beside it."""

    def launch(plan: Plan) -> dict[str, str]:
        written: dict[str, str] = getattr(import_module(".command", __package__), client)(plan)
        return written

    return launch
