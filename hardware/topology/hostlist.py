"""Slurm's short form of many host names: ``gpu[01-04,7],login1``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...inputs import InputError

MOST_HOSTS = 65536

_PARTS = re.compile(r"(?:[^,\[]|\[[^\]]*\]?)+")
_PART = re.compile(r"([^\[\]]*)\[([\d,\-]+)\](.*)", re.S)


def hosts(text: str, origin: str, field: str = "cluster.file") -> list[str]:
    """All names in `text`, in order. Raises `InputError` on `field` for a bad bracket or over `MOST_HOSTS`.

    >>> hosts("gpu[08-10],login", "topology.conf")
    ['gpu08', 'gpu09', 'gpu10', 'login']
    """
    found: list[str] = []
    for part in _split(text):
        for name in _spelled(part, origin, field):
            found.append(name)
            if len(found) > MOST_HOSTS:
                raise InputError(field, text, origin, f"names more than {MOST_HOSTS} hosts", code="too-large")
    return found


def _split(text: str) -> list[str]:
    """Parts at the commas outside brackets."""
    return [part.strip() for part in _PARTS.findall(text) if part.strip()]


def _spelled(part: str, origin: str, field: str) -> Iterator[str]:
    met = _PART.fullmatch(part)
    if not met:
        if "[" in part or "]" in part:
            raise InputError(field, part, origin, "has a bracket that is not a host range", code="bad-file")
        yield part
        return
    head, ranges, tail = met.groups()
    for number in _numbers(ranges, part, origin, field):
        for rest in _spelled(tail, origin, field) if tail else [""]:
            yield head + number + rest


def _numbers(ranges: str, part: str, origin: str, field: str) -> Iterator[str]:
    for piece in ranges.split(","):
        met = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", piece)
        if not met:
            raise InputError(field, part, origin, f"{piece!r} is not a host range", code="bad-file")
        first, last, width = int(met[1]), int(met[2] or met[1]), len(met[1])
        if last < first:
            raise InputError(field, part, origin, f"{piece!r} runs backwards", code="bad-file")
        yield from (f"{number:0{width}d}" for number in range(first, last + 1))
