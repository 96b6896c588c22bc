"""The three batch sizes of DeepSpeed, which two of them and the ranks decide."""

from __future__ import annotations

from collections.abc import Iterator

from ..bundle import Bundle
from ..documents import Document
from .finding import Finding, at

NAMES = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")


def triad(bundle: Bundle, document: Document) -> Iterator[Finding]:
    """Batch sizes that contradict each other, or leave a rank without a sequence."""
    values = [document.get(name) for name in NAMES]
    if all(value is None for value in values[:2]):
        message = "no batch size is given: DeepSpeed refuses to start"
        yield at(document, NAMES[1], "batch-triad", message, f"{NAMES[1]}: 1")
        return
    numbers = [value if _whole(value) else None for value in values]
    if any(number is not None and number < 1 for number in numbers):
        at_fault = next(n for n, v in zip(NAMES, numbers, strict=True) if v is not None and v < 1)
        yield at(
            document, at_fault, "batch-triad", f"{at_fault} leaves a rank without a sequence", "1 or more"
        )
        return
    yield from _ranks(bundle, document, *numbers)


def _ranks(
    bundle: Bundle, document: Document, total: int | None, micro: int | None, steps: int | None
) -> Iterator[Finding]:
    if total is None:
        return
    world = bundle.world()
    sequence = document.get("sequence_parallel_size")
    shared = sequence if _whole(sequence) and sequence > 0 else 1
    ranks = None if world is None else max(1, world // (_model_ranks(bundle) * shared))
    each = (micro or 1) * (steps or 1)
    wanted = each * (ranks or 1)
    whole = total == wanted if micro and ranks and (steps or document.get(NAMES[2]) is None) else None
    if micro and not steps and document.get(NAMES[2]) is None:
        whole = total % wanted == 0
    if whole is None:
        whole = total % wanted == 0
    if whole:
        return
    if ranks is None:
        message = f"{NAMES[0]} {total} is no multiple of {micro or 1} a rank times {steps or 1} accumulated"
        yield at(document, NAMES[0], "batch-triad", message, f"{NAMES[0]}: a multiple of {each}")
        return
    message = f"{NAMES[0]} {total} is not {micro or 1} a rank x {steps or 1} accumulated x {ranks} ranks"
    yield at(document, NAMES[0], "batch-triad", message, _mend(total, each, wanted, ranks))


def _mend(total: int, each: int, wanted: int, ranks: int) -> str:
    others, left = divmod(total, each)
    start = f", or start {others} ranks" if not left and others != ranks else ""
    return f"{NAMES[0]}: {wanted}{start}"


def _model_ranks(bundle: Bundle) -> int:
    """Ranks that share one batch under the degrees a script gives."""
    sizes = [bundle.number(name) or 1 for name in ("tensor_model_parallel_size", "pipe_parallel_size")]
    return sizes[0] * sizes[1]


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
