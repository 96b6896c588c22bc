"""The way of training of a row: what is trained, the optimizer, its copies, packing; by columns and notes.

Rules: the columns `trainable` and `lora_targets` where a file has them; else "QLoRA" or "LoRA" in optimizer,
framework or notes, with the rank behind "rank" or "r =" (16 where none is said, which imputes the row).
The optimizer is the first that its column, or the notes where that says "other", names; "paged" makes the
8-bit one paged. Frameworks that keep no fp32 copy of the weights say so in ``data/frameworks.json``; moments
said to be bf16 lie beside an fp32 copy elsewhere. "Optimizer in backward" holds for its line of a cumulative
table and those after it. Offloaded activations are not priced.
"""

from __future__ import annotations

import re
from typing import Any

from ..inputs.record import dataclass
from ..models.training import Optimizer
from .record import Record
from .software import Software

USUAL_RANK = 16

_ADAPTERS = re.compile(r"\b(qlora|lora)\b")
_RANK = re.compile(r"\b(?:rank|r)\s*[=:]?\s*(\d{1,5})\b")
_NAMED: tuple[tuple[str, Optimizer], ...] = (
    ("adafactor", "adafactor"),
    ("muon", "muon"),
    ("lion", "lion"),
    ("sgd without momentum", "sgd-no-momentum"),
    ("sgd", "sgd"),
)
_FROM_IN_BACKWARD_ON = ("+optimizer in backward", "+activation offloading", "+8-bit adamw")
"""Lines of the cumulative table that step in the backward pass."""


@dataclass(frozen=True)
class RowWay:
    """Fields of `Training`, the columns a rule filled, and what was taken in place of something else."""

    fields: dict[str, Any]
    imputed: tuple[str, ...] = ()
    stand_ins: tuple[str, ...] = ()


def way_of_row(record: Record, software: Software) -> RowWay:
    """The way of training that a row means."""
    trained, imputed = _trainable(record)
    optimizer = _optimizer(record, software.master_weights)
    fields = {
        "optimizer": optimizer,
        "master_weights": software.master_weights,
        "optimizer_in_backward": _in_backward(record),
        **trained,
    }
    offloaded = "activations offloaded" in record.notes
    return RowWay(fields, imputed, ("offloaded activations -> on the card",) if offloaded else ())


def _trainable(record: Record) -> tuple[dict[str, Any], tuple[str, ...]]:
    """`trainable` and `lora_targets`, where something is said of them."""
    found: dict[str, Any] = {}
    if targets := record.text("lora_targets"):
        found["lora_targets"] = targets
    if said := record.text("trainable"):
        share = re.fullmatch(r"0?\.\d+|1(?:\.0*)?", said)
        return {**found, "trainable": float(said) if share else said}, ()
    text = " ".join((record.text("optimizer"), record.text("framework"), record.notes)).lower()
    kind = _ADAPTERS.search(text)
    if kind is None:
        return found, ()
    rank = _RANK.search(text)
    written = f"{kind[1]}({rank[1] if rank else USUAL_RANK})"
    return {**found, "trainable": written}, () if rank else ("trainable",)


def _optimizer(record: Record, master: bool) -> Optimizer:
    text = record.text("optimizer").lower()
    text = record.notes if text == "other" else text
    if "8-bit" in text:
        return "paged-adamw-8bit" if "paged" in text else "adamw-8bit"
    if "bf16 states" in text:
        return "adamw-bf16" if master else "adamw"
    return next((name for word, name in _NAMED if word in text), "adamw")


def _in_backward(record: Record) -> bool:
    later = "cumulative" in record.notes and any(line in record.notes for line in _FROM_IN_BACKWARD_ON)
    return later or "optimizer in backward" in record.notes
