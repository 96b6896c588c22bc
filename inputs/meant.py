"""What somebody most likely meant by a value of the wrong type, in values that can be given."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import ceil, floor, isfinite
from typing import TYPE_CHECKING, Any, get_args

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

_SHARE = re.compile(r"\s*(\d{1,6}(?:\.\d{1,6})?)\s*%\s*")
_SCALED = re.compile(r"\s*(\d{1,9}(?:\.\d{1,6})?)\s*([kKmMbBgGtT])[a-z]*\s*")
_BEGUN = re.compile(r"\s*\$?\s*(-?\d[\d,_]{0,15}(?:\.\d{1,9})?(?:[eE]\d{1,2})?)\s*[A-Za-z]*\s*")
_POWERS = {"k": 1, "m": 2, "b": 3, "g": 3, "t": 4}
_TRUE, _FALSE = ("yes", "on", "1", "1.0", "true", "t", "y"), ("no", "off", "0", "0.0", "false", "f", "n")


def numbers(value: object, whole: bool) -> list[str]:
    """Numbers that `value` may stand for, best first; none where it looks like no number.

    >>> numbers("8%", False), numbers("4k", True), numbers("1,024", True), numbers(2.5, True)
    (['0.08'], ['4096', '4000'], ['1024'], ['2', '3'])
    """
    if isinstance(value, float):
        return list(dict.fromkeys([str(floor(value)), str(ceil(value))])) if whole and isfinite(value) else []
    text = value if isinstance(value, str) else ""
    share, scaled, begun = (pattern.fullmatch(text) for pattern in (_SHARE, _SCALED, _BEGUN))
    if share:
        return [] if whole else [f"{float(share[1]) / 100:g}"]
    if scaled:
        power, bases = _POWERS[scaled[2].lower()], (1024, 1000) if whole else (1000,)
        found = [float(scaled[1]) * base**power for base in bases]
        return [str(int(each)) for each in found if each < 2**40]
    if not begun:
        return []
    number = float(begun[1].replace(",", "").replace("_", ""))
    if not isfinite(number):
        return []
    return numbers(number, whole) if whole else [f"{number:g}"]


def truths(value: object) -> list[str]:
    """The two words of truth, the likelier one first.

    >>> truths("yes"), truths(0)
    (['true', 'false'], ['false', 'true'])
    """
    word = str(value).strip().lower()
    return ["false", "true"] if word in _FALSE else ["true", "false"]


def example(field: FieldInfo | None) -> list[str]:
    """A value that the field takes: what it is by default, else its least."""
    if field is None:
        return []
    default = field.get_default()
    if isinstance(default, bool):
        return truths(default)
    if isinstance(default, int | float):
        return [f"{default:g}" if isinstance(default, float) else str(default)]
    least = next((each.ge for each in field.metadata if hasattr(each, "ge")), 1)
    return [str(least)]


def words(field: FieldInfo | None) -> list[str]:
    """The words of which a list may hold some, where they are a fixed few; else those it holds by default."""
    found: list[str] = []
    level: Sequence[Any] = [field.annotation] if field else []
    while level:
        found += [each for each in level if isinstance(each, str)]
        level = [inner for each in level for inner in get_args(each)]
    default = field.get_default() if field else None
    listed = default if isinstance(default, tuple) else ()
    return found or [each for each in listed if isinstance(each, str)]
