"""What was seen of a cluster, whoever printed it: machines, their cards, the leaf each hangs on."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ...inputs import Frozen
from .matrix import Matrix

Format = Literal["matrix", "slurm", "kubernetes", "devices"]


class Machine(Frozen):
    """One machine as seen. What nobody said is None or empty, never a guess.

    `card` is the name the source gives its cards, `card_bytes` their memory; `kind` a machine type
    (a cloud's instance name); `free` the cards that can be had now; `domain` the cards of the NVLink
    domain it is part of.
    """

    name: str
    cards: int | None = Field(default=None, ge=1, le=1024)
    free: int | None = Field(default=None, ge=0, le=1024)
    card: str = ""
    card_bytes: int | None = Field(default=None, ge=1)
    kind: str = ""
    matrix: Matrix | None = None
    nics: int | None = Field(default=None, ge=1)
    host_memory_bytes: int | None = Field(default=None, ge=0)
    cpu_cores: int | None = Field(default=None, ge=1)
    leaf: str = ""


class Sighting(Frozen):
    """All machines of one text, in its order; `domain_nodes` share an NVLink domain where that was said."""

    format: Format
    machines: tuple[Machine, ...] = Field(min_length=1)
    domain_nodes: int | None = Field(default=None, ge=1)
    notes: tuple[str, ...] = ()
