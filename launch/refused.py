"""A target that cannot express a plan, and why."""

from __future__ import annotations

from typing import NamedTuple

from ..inputs import InputError


class Objection(NamedTuple):
    """One choice a target cannot write: its name, its value, the reason in a sentence."""

    field: str
    value: object
    reason: str


class Refused(InputError):
    """The plan cannot be written for `target`; `backend` is the one whose plans it writes.

    A caller may solve again with that backend alone and emit the plan found.
    """

    def __init__(self, target: str, backend: str, objection: Objection) -> None:
        self.target = target
        self.backend = backend
        origin = f"--to {target}"
        super().__init__(objection.field, objection.value, origin, objection.reason, code="cannot-write")
