"""The ledger: bytes on a card, bytes on a link, seconds in a step, for arrays of strategies."""

from .ledger import Ledger, StageEntry
from .price import price

__all__ = ["Ledger", "StageEntry", "price"]
