"""A ledger term by its name: formula, numbers of a worked example, source."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from math import prod
from typing import Any, NamedTuple

from ..hardware import Cluster
from ..inputs import Frozen, InputError, nearest
from ..models.backend import backend
from ..models.strategy import Stage, Strategy
from ..models.training import Training
from ..models.transformer import Transformer
from .book import Book
from .columns import Strategies
from .frame import Frame, evaluate
from .layout import Layout
from .moments import MOMENTS
from .stage_counts import Counts
from .terms import Term
from .traffic import traffic_terms

NODE, CARDS = "dgx-h100", 8
"""The machine of the worked examples: 64 sequences of 4,096 tokens on it, one sequence a pass."""


class Example(NamedTuple):
    """A worked example: the model, what it shows beside one sequence a pass, its choices, and the job's."""

    model: str
    words: str
    choices: dict[str, Any]
    job: dict[str, Any] = {}


_SHARDED = {"zero_stage": 1, "micro_batch_size": 1}
_TENSOR = {**_SHARDED, "backend": "megatron", "tensor_parallel": 8, "sequence_parallel": True}
_OFFLOADED = {"backend": "deepspeed", "zero_stage": 3, "offload_optimizer": "cpu", "offload_params": "cpu"}
_WHOLE = {"backend": "fsdp", "zero_stage": 3}
_PLAIN = {"backend": "fsdp", "zero_stage": 0}
_REFERENCE = {"reference_model": "self", "reference_output": "logits"}
_ULYSSES = {
    **_SHARDED, "backend": "megatron", "context_parallel": 8, "context_parallel_kind": "ulysses",
    "ulysses_group_size": 8,
}  # fmt: skip
_CUT_EXPERTS = {**_SHARDED, "backend": "megatron", "expert_parallel": 4, "expert_tensor_parallel": 2}
_SECOND = {"backend": "deepspeed", "zero_stage": 3, "secondary_shard_group_size": 4}
OTHERS = (
    Example("llama-3.1-8b", "TP 8 of Megatron", _TENSOR),
    Example("llama-3.1-8b", "TP 8 of Megatron with overlap", {**_TENSOR, "overlap_tensor_parallel": True}),
    Example("llama-3.1-8b", "PP 8 of Megatron", {**_SHARDED, "backend": "megatron", "pipeline_parallel": 8}),
    Example("llama-3.1-8b", "CP 8 of Megatron", {**_SHARDED, "backend": "megatron", "context_parallel": 8}),
    Example("llama-3.1-8b", "CP 8 of Megatron by Ulysses", _ULYSSES),
    Example("mixtral-8x7b", "EP 8 of Megatron", {**_SHARDED, "backend": "megatron", "expert_parallel": 8}),
    Example("mixtral-8x7b", "EP 4 of Megatron, each expert over 2 cards", _CUT_EXPERTS),
    Example("llama-3.1-8b", "ZeRO-3 of DeepSpeed, states in host memory", _OFFLOADED),
    Example("llama-3.1-8b", "ZeRO-3 of DeepSpeed, a second copy over each 4 cards", _SECOND),
    Example("llama-3.1-8b", "ZeRO-2 of DeepSpeed", {"backend": "deepspeed", "zero_stage": 2}),
    Example("llama-3.1-8b", "ZeRO-3 of FSDP", _WHOLE),
    Example("llama-3.1-8b", "QLoRA of rank 16 under FSDP", _WHOLE, {"trainable": "qlora(16)"}),
    Example("llama-3.1-8b", "LoRA of rank 16, weights in host memory", _OFFLOADED, {"trainable": "lora(16)"}),
    Example("llama-3.1-8b", "a copy of itself as reference under FSDP", _WHOLE, _REFERENCE),
    Example("llama-3.1-8b", "plain data parallel of PyTorch", _PLAIN),
    Example("llama-3.1-8b", "paged optimizer under FSDP", _WHOLE, {"optimizer": "paged-adamw-8bit"}),
)
"""Examples after the usual one, for terms that it does not have."""


def usual(stage: int) -> Example:
    """Data parallel with a ZeRO stage of DeepSpeed."""
    return Example("llama-3.1-8b", f"ZeRO-{stage}", {"backend": "deepspeed", "zero_stage": stage})


_KIB, _NS = 1024.0, 1e-9
"""Bytes of a unit of memory terms, seconds of one of time terms."""

_NAME = re.compile(r"(?:zero([0-3])\.)?([a-z_]+)")


class Amount(Frozen):
    """Value of a term at one moment of memory, or in one group of time."""

    at: str
    value: float
    unit: str


class Group(NamedTuple):
    """Terms that are added up together, what turns them into values, and bytes or seconds a unit of them."""

    terms: list[Term]
    frame: Frame
    scale: float


class TermText(Frozen):
    """A term in words: its formulas and sources as the ledger has them, and what it is in the example."""

    schema_version: int = 1
    term: str
    formula: str
    source: str
    grade: str
    unit: str
    example: str
    amounts: tuple[Amount, ...]
    also: tuple[dict[str, Any], ...] = ()
    """Other meanings of the same word, each as a field or a term is told."""


def term_text(key: str) -> TermText:
    """The text of a term: its name as answers have it, with ``zero2.`` before it for another ZeRO stage.

    Raises `InputError` with the nearest names.

    >>> term_text("zero2.weights").formula
    'w N / d_w'
    """
    found = _NAME.fullmatch(key)
    zero, name = (found[1], found[2]) if found else (None, key)
    examples = (usual(3), *OTHERS) if zero is None else (usual(int(zero)),)
    first: TermText | None = None
    for example in examples:
        for text in _told(key, name, example):
            if text.amounts:
                return text
            first = first or text
    if first is None:
        legal = nearest(name, term_names())
        raise InputError("term", key, "argument", "is no term of the ledger", legal=legal)
    return first


def _told(key: str, name: str, example: Example) -> Iterator[TermText]:
    """The text of a term with the numbers of an example, where the example's book has the term."""
    groups = _groups(example.words)
    named = {at: [t for t in group.terms if t.name == name] for at, group in groups.items()}
    notes = [term.note for terms in named.values() for term in terms]
    if not notes:
        return
    amounts = [
        Amount(at=at, value=value, unit=named[at][0].note.unit)
        for at, group in groups.items()
        if (value := _value(named[at], group))
    ]
    yield TermText(
        term=key,
        formula="; ".join(dict.fromkeys(note.formula for note in notes)),
        source="; ".join(dict.fromkeys(note.source for note in notes)),
        grade=notes[0].grade,
        unit=notes[0].unit,
        example=f"{example.model} on {CARDS} cards of {NODE}, {example.words}, micro-batch 1 of 4,096 tokens",
        amounts=tuple(amounts),
    )


@cache
def term_names() -> tuple[str, ...]:
    """Every term of the ledger that an example has."""
    groups = (group for example in (usual(3), *OTHERS) for group in _groups(example.words).values())
    return tuple(sorted({term.name for group in groups for term in group.terms}))


@cache
def _groups(words: str) -> dict[str, Group]:
    """Terms of the example of these words by moment of memory, by group of time and of traffic."""
    example = next(one for one in (*map(usual, range(4)), *OTHERS) if one.words == words)
    model, cluster = Transformer.preset(example.model), Cluster.preset(NODE)
    training = Training(global_batch_size=64, sequence_length=4096, **example.job)
    strategy = _strategy(example, model.layers)
    columns = Strategies.of([strategy])
    book = Book(Layout(model, training, cluster, columns))
    frame = Frame.of(Counts.of([strategy], model.kind_of_layer), book.layout)
    found = {moment: Group(book.memory[moment], frame, _KIB) for moment in MOMENTS}
    sent = [term for terms, _ in traffic_terms(book.timed).values() for term in terms] + book.uplink
    return found | {
        "a micro-batch": Group(book.chunk, frame, _NS),
        "a step": Group(book.tail, frame, _NS),
        "host": Group(book.host, frame, _KIB),
        "hidden a micro-batch": Group(book.raw_chunk, frame, _NS),
        "hidden a step": Group(book.raw_tail, frame, _NS),
        "sent a micro-batch": Group([term for term in sent if term.per == "chunk"], frame, 1.0),
        "sent a step": Group([term for term in sent if term.per != "chunk"], frame, 1.0),
    }


def _strategy(example: Example, layers: int) -> Strategy:
    """The strategy of an example: data parallel over what its choices leave, every layer recomputed."""
    choices, known = example.choices, backend(example.choices["backend"])
    axes = ("tensor_parallel", "pipeline_parallel", "context_parallel")
    ranks = CARDS // prod(choices.get(axis, 1) for axis in axes)
    stages = choices.get("pipeline_parallel", 1)
    held = layers // stages
    stage = Stage(
        layers=held,
        recompute_full_layers=held,
        offloaded_layers=held if choices.get("offload_optimizer", "none") != "none" else 0,
    )
    shards = ranks * choices.get("context_parallel", 1) if choices["zero_stage"] else 1
    return Strategy(
        software_stack=known.default_stack, data_parallel=ranks, shard_group_size=shards,
        reshard_after_forward=choices["zero_stage"] == 3, gradient_accumulation_steps=64 // ranks,
        loss_kernel=known.default_loss_kernel, stages=(stage,) * stages, **{"micro_batch_size": 1, **choices},
    )  # fmt: skip


def _value(terms: list[Term], group: Group) -> float:
    """The sum of `terms` on the first stage, in bytes or seconds."""
    return round(group.scale * sum(int(evaluate(term, group.frame)[0, 0]) for term in terms), 9)
