"""Precision and gradient type of a row.

Rules: blank precision is bf16, fp16 on a card that has none. Where the card or the backend's byte recipes
lack the row's precision the nearest is taken, 8-bit before 16-bit. Gradients are as `grad_accum_dtype` says,
else fp16 with fp16, else as the software's rule says, else bf16 under DeepSpeed and fp32 elsewhere; a type
without a byte recipe gives way to the next one that has one. Row-wise scaled fp8 is priced as bf16: its
kernels of 2024-25 gained nothing over it (torchtitan calls it a known slow baseline; physics of scaling by
rows, Transformer Engine docs).
"""

from __future__ import annotations

from ..hardware import Gpu
from ..inputs import shorten
from ..models.backend import backend
from ..models.strategy import GRADIENT_DTYPES, PRECISIONS, BackendName, GradientDtype, Precision
from .record import Record
from .refusal import Refused

_NEAREST = {
    "nvfp4": ("nvfp4", "mxfp8", "fp8", "bf16"),
    "mxfp8": ("mxfp8", "fp8", "bf16"),
    "fp8": ("fp8", "bf16"),
    "bf16": ("bf16",),
    "fp16": ("fp16",),
    "fp32": ("fp32",),
}


def arithmetic_of(
    record: Record, name: BackendName, card: Gpu, gradients: GradientDtype | None
) -> tuple[dict[str, object], list[str]]:
    """`precision` and `gradient_dtype` of a row under backend `name`, and what was taken instead of what."""
    word = record.word("precision") or ("bf16" if card.peak_flops_per_s("bf16") else "fp16")
    rowwise = word == "fp8" and ("rowwise" in record.notes or "rowwise" in record.text("precision").lower())
    word = "bf16" if rowwise else word
    if word not in _NEAREST:
        raise Refused("precision", f"precision = {shorten(word)} is not known")
    for precision in _precisions(word):
        dtype = _gradient(record, name, precision, gradients)
        if dtype and card.peak_flops_per_s(precision):
            notes = [] if precision == word else [f"precision {word} under {name} -> {precision}"]
            notes += ["precision fp8 by rows -> bf16"] if rowwise else []
            return {"precision": precision, "gradient_dtype": dtype}, notes
    raise Refused("precision", f"neither {card.name} nor backend {name} has anything near {word}")


def _precisions(word: str) -> list[Precision]:
    """Known precisions that may stand for `word`, nearest first."""
    return [known for near in _NEAREST[word] for known in PRECISIONS if known == near]


def _gradient(
    record: Record, name: BackendName, precision: Precision, gradients: GradientDtype | None
) -> GradientDtype | None:
    known = backend(name).recipes.get(precision, {})
    kept = gradients or ("bf16" if name == "deepspeed" else "fp32")
    usual = "fp16" if precision == "fp16" else kept
    wanted = [record.word("grad_accum_dtype") or usual, usual, "fp32", "bf16", "fp16"]
    return next(
        (dtype for word in wanted for dtype in GRADIENT_DTYPES if dtype == word and dtype in known), None
    )
