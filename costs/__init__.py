"""The ledger: bytes on a card, bytes on a link, seconds in a step, for arrays of strategies."""

from .ledger import Ledger, StageEntry
from .mixed import price_mixed
from .price import price

__all__ = ["Ledger", "StageEntry", "price", "price_mixed"]
