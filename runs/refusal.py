"""A published row that cannot be priced, and why."""

from __future__ import annotations


class Refused(ValueError):
    """Raised while a row is read: `code` is a stable word that reports count by, `reason` a sentence."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
