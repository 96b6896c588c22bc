"""What of a model is trained: all of it, a share of it, or low-rank adapters on a base that stays."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

from pydantic import Field

from ..inputs import Frozen, InputError

Kind = Literal["all", "share", "lora", "qlora"]

MOST_RANK = 65536

_ADAPTERS = re.compile(r"\s*(q?lora)\s*\(\s*([^()]{0,20}?)\s*\)\s*", re.IGNORECASE)
_FIELD = "training.trainable"
_EXAMPLES = ("all", "lora(16)", "qlora(16)", "0.3")


class Way(Frozen):
    """The way a model is trained.

    `share` is the part of every matrix that is trained (kind "share"); `rank` that of the adapters
    ("lora": the base stays in 16 bits; "qlora": its layers in 4).
    """

    kind: Kind
    rank: int = Field(default=0, ge=0, le=MOST_RANK)
    share: float = Field(default=1.0, gt=0, le=1)

    @property
    def adapts(self) -> bool:
        """Whether adapters are trained instead of the model's own parameters."""
        return self.kind in ("lora", "qlora")

    @property
    def written(self) -> str | float:
        """The way as a request writes it."""
        if self.adapts:
            return f"{self.kind}({self.rank})"
        return self.share if self.kind == "share" else "all"


def way_of(value: object) -> Way:
    """The way that a request's `trainable` means: all, lora(RANK), qlora(RANK), or a share up to 1.

    Raises `InputError` with legal values.

    >>> way_of("lora(16)").rank, way_of(0.3).share, way_of(1.0).kind
    (16, 0.3, 'all')
    """
    if isinstance(value, str) and value.strip().lower() == "all":
        return Way(kind="all")
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _share(value)
    found = _ADAPTERS.fullmatch(value) if isinstance(value, str) and len(value) <= 60 else None
    if found is None:
        reason = "must be all, lora(RANK), qlora(RANK) or a share of the parameters"
        raise InputError(_FIELD, value, "training", reason, legal=_near(value))
    return _adapters(found[1].lower(), found[2], value)


known_way = lru_cache(maxsize=64, typed=True)(way_of)
"""`way_of` a value that is a field of a job, taken apart once."""


def _share(value: float) -> Way:
    if not 0 < value <= 1:
        reason = "must be a share above 0 and at most 1"
        raise InputError(_FIELD, value, "training", reason, legal=["all", "0.5"])
    return Way(kind="all") if value == 1 else Way(kind="share", share=float(value))


def _adapters(word: str, rank: str, value: object) -> Way:
    if not re.fullmatch(r"[0-9]{1,9}", rank):
        reason = "the rank of the adapters must be a whole number"
        raise InputError(_FIELD, value, "training", reason, legal=[f"{word}(16)"])
    if not 1 <= int(rank) <= MOST_RANK:
        reason = f"the rank of the adapters must lie between 1 and {MOST_RANK}"
        near = 1 if int(rank) < 1 else MOST_RANK
        raise InputError(_FIELD, value, "training", reason, legal=[f"{word}({near})"])
    return Way(kind="lora" if word == "lora" else "qlora", rank=int(rank))


def _near(value: object) -> list[str]:
    """What it looks like, then the examples, those that begin like `value` first."""
    from ..inputs.meant import numbers

    text = str(value).strip().lower()
    meant = [each for each in numbers(value, False) if 0 < float(each) <= 1]
    return meant + sorted(_EXAMPLES, key=lambda example: not (text and example.startswith(text[:3])))
