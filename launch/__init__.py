"""Launch files: what other tools need to start a plan, one folder of this package a client."""

from .emit import emit, refusal, targets, writable_by
from .refused import Objection, Refused

__all__ = ["Objection", "Refused", "emit", "refusal", "targets", "writable_by"]
