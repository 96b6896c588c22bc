"""Did you mean: the known names nearest to one that is not known."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

MOST_BEGUN = 8
"""Most names told that begin with a word, as cards of one kind do."""


class Nearest(list[str]):
    """Names nearest to another, best first; `more` tells that others are left out."""

    more = False


def nearest(name: str, known: Iterable[str], most: int = 3) -> Nearest:
    """Up to `most` of the `known` names nearest to `name`, best first.

    Those of which it is the first word come before others, all up to `MOST_BEGUN`; where there is none, the
    first few known.

    >>> nearest("dgx-h10", ["dgx-h100", "dgx-a100-80gb", "p5.48xlarge"], 1)
    ['dgx-h100']
    >>> nearest("overlap", ["backend", "overlap_gradient_reduce"], 1)
    ['overlap_gradient_reduce']
    >>> nearest("h100", ["A100-SXM-80GB", "B100", "H100-NVL-94GB", "H100-PCIe-80GB", "H100-SXM-80GB"], 2)
    ['H100-NVL-94GB', 'H100-PCIe-80GB', 'H100-SXM-80GB']
    """
    names = sorted(set(known))
    lowered = {candidate.lower(): candidate for candidate in names}
    word = name[:100].lower()
    begun = [each for each in lowered if each.startswith((f"{word}_", f"{word}-", f"{word}."))][:MOST_BEGUN]
    close = [*begun, *get_close_matches(word, list(lowered), n=most, cutoff=0.5)]
    found = Nearest([lowered[each] for each in dict.fromkeys(close)][: max(most, len(begun))] or names[:most])
    found.more = len(found) < len(names)
    return found
