"""An out-of-memory message as people paste it: what torch, the allocator or the kernel said, in numbers."""

from __future__ import annotations

import re
from typing import Literal

from ..inputs import Frozen, InputError

LONGEST = 1_000_000
"""Characters of a pasted log that are read, from its end."""

_UNITS = {
    "bytes": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "KB": 2**10, "MB": 2**20,
    "GB": 2**30,
}  # fmt: skip
_SIZE = r"([\d.]+) ?(bytes|KiB|MiB|GiB|TiB|KB|MB|GB|B)\b"

_CARD = re.compile(r"(?:CUDA|HIP|XPU|NPU|CUDA error:)?\s*out of memory", re.IGNORECASE)
_HOST = re.compile(
    r"DefaultCPUAllocator: (?:can't allocate memory|not enough memory)|exitcode\s*:\s*-9|signal 9|"
    r"SIGKILL|oom-?kill|Out of memory: Killed process|Cannot allocate memory",
    re.IGNORECASE,
)
_FIELDS = {
    "tried_bytes": (rf"[Tt]ried to allocate {_SIZE}",),
    "capacity_bytes": (
        rf"total capac?ity of {_SIZE}",
        rf"total capacty of {_SIZE}",
        rf"{_SIZE} total capacity",
    ),
    "free_bytes": (rf"of which {_SIZE} is free", rf"; {_SIZE} free"),
    "process_bytes": (rf"this process has {_SIZE} memory in use",),
    "allocated_bytes": (
        rf"allocated memory {_SIZE} is allocated by PyTorch",
        rf"{_SIZE} already allocated",
        rf"{_SIZE} allocated by PyTorch",
    ),
    "unallocated_bytes": (rf"{_SIZE} is reserved by PyTorch but unallocated",),
    "reserved_bytes": (rf"{_SIZE} reserved in total by PyTorch",),
}
"""Wordings of torch 1.4 to 2.11; 2.0 and 2.1 write "capacty"."""


class OutOfMemory(Frozen):
    """What a message tells; a size it does not tell is None. `where` is the card or the host."""

    where: Literal["card", "host"]
    tried_bytes: int | None = None
    capacity_bytes: int | None = None
    free_bytes: int | None = None
    process_bytes: int | None = None
    allocated_bytes: int | None = None
    reserved_bytes: int | None = None
    unallocated_bytes: int | None = None


def read_message(text: str, origin: str) -> OutOfMemory:
    """The last out-of-memory message in `text` (a whole log may be pasted).

    Raises `InputError` where there is none.

    >>> said = "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 79.15 GiB total capacity; ...)"
    >>> read_message(said, "log").tried_bytes
    2147483648
    """
    tail = text[-LONGEST:]
    cards = list(_CARD.finditer(tail))
    hosts = list(_HOST.finditer(tail))
    if not cards and not hosts:
        reason = "holds no out-of-memory message of torch, of the CPU allocator or of the kernel"
        legal = ["torch.OutOfMemoryError: CUDA out of memory. Tried to allocate ..."]
        raise InputError("message", text.strip()[:60] or "nothing", origin, reason, legal=legal)
    last = max([*cards, *hosts], key=lambda match: match.start())
    part = tail[last.start() : last.start() + 2000]
    where: Literal["card", "host"] = "card" if last in cards else "host"
    return OutOfMemory(where=where, **{name: _size(part, forms) for name, forms in _FIELDS.items()})


def _size(text: str, forms: tuple[str, ...]) -> int | None:
    for form in forms:
        found = re.search(form, text)
        if found:
            return int(float(found[1]) * _UNITS[found[2]])
    return None


class Relief(Frozen):
    """A change of the strategy that fits, priced again."""

    change: str
    set: str
    memory_bytes: int
    step_seconds: float


class Diagnosis(Frozen):
    """Which term of the ledger a message points at, and what relieves it.

    `basis` says how the term was found: the size that could not be had is that of one of its buffers, or it
    is the largest at the moment the numbers fit. `memory_bytes` is what the ledger expects on the worst card.
    """

    schema_version: int = 1
    message: OutOfMemory
    term: str
    term_bytes: int
    moment: str
    basis: str
    memory_bytes: int
    usable_bytes: int
    terms_bytes: dict[str, int]
    reliefs: tuple[Relief, ...]
    notes: tuple[str, ...]
