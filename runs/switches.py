"""What the software of a row has switched on: exchange of tokens, overlap, CUDA graphs, 8-bit operands.

Rules: what the notes say goes before a recipe's own. Experts: a dispatcher by its name (alltoall, DeepEP,
HybridEP), "expert traffic (not) overlapped", "CUDA graphs of the router" or of the whole iteration, "no CUDA
graphs". Layers without experts: any CUDA graphs hold the whole layer. "FP8 attention" is a core with 8-bit
operands, "FP8 gate inputs" a gate whose inputs are kept in 8 bits for the backward. Columns `cuda_graphs`,
`attention_bits` and `gate_bits`, where a file has them, go before the notes.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from typing import Literal, get_args

from ..inputs.record import dataclass
from .record import Record

Graphs = Literal["", "router", "attention", "step"]
Bits = Literal[8, 16]

_EXCHANGES = (("hybridep", r"hybrid-?ep"), ("deepep", r"deepep"), ("alltoall", r"\balltoall\b"))
_OVERLAP = re.compile(r"(?:expert traffic|dispatcher) (not overlapped|without overlap|overlapped)")
_GRAPHS = re.compile(r"(no )?cuda graphs?(?: of (?:the )?(router|attention|whole|step|full))?")
_SCOPES: dict[str, Graphs] = {"router": "router", "attention": "attention"}


@dataclass(frozen=True)
class Switches:
    """Settings of one stack of a family; the plain one has none."""

    exchange: str = ""
    overlapped: bool = False
    graphs: Graphs = ""
    attention_bits: Bits = 16
    gate_bits: Bits = 16

    @property
    def name(self) -> str:
        """The name of the stack behind its family's, "" for the family itself.

        >>> Switches("hybridep", True, "step").name, Switches(attention_bits=8).name
        ('hybridep-overlap-step', 'attention8')
        """
        words = (
            self.exchange,
            "overlap" if self.overlapped else "",
            self.graphs,
            "attention8" if self.attention_bits == 8 else "",
            "gate8" if self.gate_bits == 8 else "",
        )
        return "-".join(word for word in words if word)

    def told(self, record: Record) -> Switches:
        """These, where the row does not say otherwise."""
        experts = (record.integer("experts") or 0) > 1
        exchange = _exchange(record) if experts else None
        overlapped = _overlapped(record) if experts else None
        graphs = _graphs(record, experts)
        return Switches(
            exchange or self.exchange,
            self.overlapped if overlapped is None else overlapped,
            self.graphs if graphs is None else graphs,
            _bits(record, "attention_bits", "fp8 attention") or self.attention_bits,
            _bits(record, "gate_bits", "fp8 gate inputs") or self.gate_bits,
        )

    def stacks(self, family: str, known: Collection[str]) -> tuple[str, ...]:
        """Stacks of `family` in `known`, nearest first: less 8-bit operands, then graphs, then overlap."""
        fewer = [self, replace(self, gate_bits=16)]
        fewer += [replace(one, attention_bits=16) for one in fewer]
        fewer += [replace(one, graphs="") for one in fewer]
        fewer += [replace(one, overlapped=False) for one in fewer]
        names = (f"{family}-{one.name}" if one.name else family for one in fewer)
        return tuple(name for name in dict.fromkeys(names) if name in known)


def _bits(record: Record, column: str, words: str) -> Bits | None:
    """8 where column or notes say so, else None."""
    return 8 if record.integer(column) == 8 or words in record.notes else None


def _graphs(record: Record, experts: bool) -> Graphs | None:
    """What CUDA graphs hold, None where nothing, or of experts no scope, is said."""
    column = record.word("cuda_graphs")
    said = _GRAPHS.search(record.notes)
    if known := next((word for word in get_args(Graphs) if word and word == column), None):
        return known  # type: ignore[no-any-return]
    if said is None or said[1]:
        return None if said is None else ""
    if not experts:
        return "step"
    return _SCOPES.get(said[2], "step") if said[2] else None


def _exchange(record: Record) -> str | None:
    return next((name for name, word in _EXCHANGES if re.search(word, record.notes)), None)


def _overlapped(record: Record) -> bool | None:
    said = _OVERLAP.search(record.notes)
    return None if said is None else said[1] == "overlapped"
