"""Did you mean: the known names nearest to one that is not known."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class Nearest(list[str]):
    """Names nearest to another, best first; `more` tells that others are left out."""

    more = False


def nearest(name: str, known: Iterable[str], most: int = 3) -> Nearest:
    """Up to `most` of the `known` names nearest to `name`, best first; falls back to the first few.

    >>> nearest("dgx-h10", ["dgx-h100", "dgx-a100-80gb", "p5.48xlarge"], 1)
    ['dgx-h100']
    """
    names = sorted(set(known))
    lowered = {candidate.lower(): candidate for candidate in names}
    close = get_close_matches(name[:100].lower(), list(lowered), n=most, cutoff=0.5)
    found = Nearest([lowered[c] for c in close] or names[:most])
    found.more = len(found) < len(names)
    return found
