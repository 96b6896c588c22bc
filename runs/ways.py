"""The way of training of a row: what is trained, the optimizer, its copies, packing; by columns and notes.

Rules: the columns `trainable` and `lora_targets` where a file has them; else "QLoRA" or "LoRA" in
optimizer, framework or notes, with the rank behind "rank" or "r =" (16 where none is said, which imputes
the row). The optimizer is the first that its column, or the notes where that says "other", names; "paged"
makes the 8-bit one paged. Frameworks that keep no fp32 copy of the weights say so in
``catalogue/frameworks.json``, rows by a precision like "bf16-true" or the words "no fp32 copy"; moments
said to be bf16 lie beside an fp32 copy elsewhere. "LoRA on" or "matrices are" in the notes name the
matrices, else the software's own recipes do. "no_sync", or the software's rule, keeps gradients whole between
micro-batches.
"SQuAD packed" tells documents of that data set, within which attention stays.
"Optimizer in backward" holds for its line of a cumulative table and those after it. Modules of Megatron Core
that run again stand in the notes behind "recompute modules:" or "selective:", or in the row's recipe.
"Activations offloaded" are priced of layers recomputed whole under FSDP.
"""

from __future__ import annotations

import re
from typing import Any

from ..inputs.record import dataclass
from ..models.training import Module, Optimizer
from .recipes import modules_in
from .record import Record
from .software import Software

USUAL_RANK = 16
ON_THE_HOST = "offloaded activations -> on the card"
"""The stand-in of a row that kept activations where the ledger does not price them."""

_ADAPTERS = re.compile(r"\b(qlora|lora)\b")
_RANK = re.compile(r"\b(?:rank|r)\s*[=:]?\s*(\d{1,5})\b")
_ON = re.compile(r"(?:\bq?lora (?:rank \d+ )?(?:on|target(?:s|ing)?)|\bmatrices are) ([^;(.]*)")
_MATRICES = (
    ("qkv", ("q_proj", "k_proj", "v_proj")),
    (r"query|\bq_proj|\bq\b", ("q_proj",)),
    (r"\bkeys?\b|\bk_proj|\bk\b", ("k_proj",)),
    (r"\bvalues?\b|\bv_proj|\bv\b", ("v_proj",)),
    (r"\bo_proj|linear_proj", ("o_proj",)),
    (r"\bgate_proj", ("gate_proj",)),
    (r"\bup_proj", ("up_proj",)),
    (r"\bdown_proj", ("down_proj",)),
    ("attention", ("q_proj", "k_proj", "v_proj", "o_proj")),
)
_AGAIN = re.compile(r"(?:recompute[ _-]modules?|selective)\s*[:=(]\s*([^;.)]*)")
_DOCUMENTS = {"squad packed": 200}
"""Mean tokens of a document by what notes say is packed: a paragraph, question and answer (arXiv 1606.05250).
Attention within so few tokens takes next to no time, whatever their number."""
_PURE = ("bf16true", "16true", "fp16true", "purebf16", "purefp16", "bf16pure")
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
    trained, imputed = _trainable(record, software)
    master = software.master_weights and not _pure(record)
    whole = software.backend == "fsdp" and (software.without_sync or "no_sync" in record.notes)
    modules = _modules(record, software)
    fields = {
        "optimizer": _optimizer(record, master),
        "master_weights": master,
        "optimizer_in_backward": _in_backward(record),
        **({"sync_each_batch": False} if whole else {}),
        **({"recompute_modules": modules} if modules else {}),
        **_documents(record),
        **trained,
    }
    offloaded = "activations offloaded" in record.notes
    priced = software.backend == "fsdp" and record.word("recompute") == "full"
    if offloaded and priced:
        fields["offload_activations"] = True
    stand_ins = (ON_THE_HOST,) if offloaded and not priced else ()
    return RowWay(fields, imputed, stand_ins)


def _documents(record: Record) -> dict[str, int]:
    """`mean_document_length`, where notes name a packed data set of short documents."""
    found = [length for words, length in _DOCUMENTS.items() if words in record.notes]
    return {"mean_document_length": found[0]} if found else {}


def _modules(record: Record, software: Software) -> tuple[Module, ...]:
    """The modules that selective recompute runs again, where notes name them or a recipe fills the column."""
    if software.backend != "megatron" or record.word("recompute") not in ("", "selective"):
        return ()
    said = _AGAIN.search(record.notes)
    named = modules_in(said[1]) if said else ()
    return named or (software.recipe.modules if software.recipe else ())


def _trainable(record: Record, software: Software) -> tuple[dict[str, Any], tuple[str, ...]]:
    """`trainable` and `lora_targets`, where something is said of them."""
    found: dict[str, Any] = {}
    if column := record.text("lora_targets"):
        found["lora_targets"] = column
    if said := record.text("trainable"):
        share = re.fullmatch(r"0?\.\d+|1(?:\.0*)?", said)
        return {**found, "trainable": float(said) if share else said}, ()
    text = " ".join((record.text("optimizer"), record.text("framework"), record.notes)).lower()
    kind = _ADAPTERS.search(text)
    if kind is None:
        return found, ()
    if "lora_targets" not in found and (targets := _targets(text) or list(software.lora_targets)):
        found["lora_targets"] = targets
    rank = _RANK.search(text)
    written = f"{kind[1]}({rank[1] if rank else USUAL_RANK})"
    return {**found, "trainable": written}, () if rank else ("trainable",)


def _targets(text: str) -> list[str]:
    """The matrices that the notes name beside "LoRA on", all linear ones where they name none."""
    said = _ON.search(text)
    words = said[1] if said else ""
    return list(dict.fromkeys(name for word, names in _MATRICES if re.search(word, words) for name in names))


def _pure(record: Record) -> bool:
    """Whether no fp32 copy of the weights is kept, by the words of the precision or the optimizer."""
    precision = re.sub(r"[\s\-_.]", "", record.said("precision").lower())
    optimizer = record.text("optimizer").lower()
    return precision in _PURE or "no fp32 copy" in optimizer or "no master" in optimizer


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
