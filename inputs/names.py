"""Did you mean: the known names nearest to one that is not known."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class Nearest(list[str]):
    """Names nearest to another, best first; `more` tells that others are left out."""

    more = False


def nearest(name: str, known: Iterable[str], most: int = 3) -> Nearest:
    """Up to `most` of the `known` names nearest to `name`, best first.

    Those of which it is the first word come before others; where there is none, the first few known.

    >>> nearest("dgx-h10", ["dgx-h100", "dgx-a100-80gb", "p5.48xlarge"], 1)
    ['dgx-h100']
    >>> nearest("overlap", ["backend", "overlap_gradient_reduce"], 1)
    ['overlap_gradient_reduce']
    """
    names = sorted(set(known))
    lowered = {candidate.lower(): candidate for candidate in names}
    word = name[:100].lower()
    begun = [each for each in lowered if each.startswith(f"{word}_")]
    close = [*begun, *get_close_matches(word, list(lowered), n=most, cutoff=0.5)]
    found = Nearest([lowered[each] for each in dict.fromkeys(close)][:most] or names[:most])
    found.more = len(found) < len(names)
    return found
