"""A ledger term by its name: formula, numbers of a worked example, source."""

from __future__ import annotations

import re

import numpy as np

from ..hardware import Cluster
from ..inputs import Frozen, InputError, nearest
from ..models.backend import backend
from ..models.strategy import Stage, Strategy
from ..models.training import Training
from ..models.transformer import Transformer
from .book import MOMENTS, Book
from .columns import Counts, Strategies
from .layout import Layout
from .terms import Frame, Term, evaluate

MODEL, NODE, CARDS = "llama-3.1-8b", "dgx-h100", 8
"""The worked example: 64 sequences of 4,096 tokens, one sequence a pass."""

_NAME = re.compile(r"(?:zero([0-3])\.)?([a-z_]+)")


class Amount(Frozen):
    """Value of a term at one moment of memory, or in one group of time."""

    at: str
    value: float
    unit: str


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


def term_text(key: str) -> TermText:
    """The text of a term: its name as answers have it, with ``zero2.`` before it for another ZeRO stage.

    Raises `InputError` with the nearest names.

    >>> term_text("zero2.weights").formula
    'w N / d_w'
    """
    found = _NAME.fullmatch(key)
    zero, name = (found[1], found[2]) if found else (None, key)
    stage = 3 if zero is None else int(zero)
    groups = _groups(stage)
    named = {at: [t for t in terms if t.name == name] for at, (terms, _) in groups.items()}
    notes = [term.note for terms in named.values() for term in terms]
    if not notes:
        known = sorted({term.name for terms, _ in groups.values() for term in terms})
        raise InputError("term", key, "argument", "is no term of the ledger", legal=nearest(name, known))
    amounts = [
        Amount(at=at, value=value, unit=notes[0].unit)
        for at, (_, frame) in groups.items()
        if (value := _value(named[at], frame, notes[0].unit))
    ]
    return TermText(
        term=key,
        formula="; ".join(dict.fromkeys(note.formula for note in notes)),
        source="; ".join(dict.fromkeys(note.source for note in notes)),
        grade=notes[0].grade,
        unit=notes[0].unit,
        example=f"{MODEL} on {CARDS} cards of {NODE}, ZeRO-{stage}, micro-batch 1 of 4,096 tokens",
        amounts=tuple(amounts),
    )


def term_names() -> tuple[str, ...]:
    """Every term of the ledger."""
    return tuple(sorted({term.name for terms, _ in _groups(3).values() for term in terms}))


def _groups(stage: int) -> dict[str, tuple[list[Term], Frame]]:
    """Terms by moment and time group, with the frame that turns them into values."""
    model, cluster = Transformer.preset(MODEL), Cluster.preset(NODE)
    training = Training(global_batch_size=64, sequence_length=4096)
    layers, known = model.layers, backend("deepspeed")
    strategy = Strategy(
        backend=known.name, software_stack=known.default_stack, data_parallel=CARDS, zero_stage=stage,
        shard_group_size=CARDS if stage else 1, reshard_after_forward=stage == 3, micro_batch_size=1,
        gradient_accumulation_steps=8, loss_kernel=known.default_loss_kernel,
        stages=(Stage(layers=layers, recompute_full_layers=layers),),
    )  # fmt: skip
    columns = Strategies.of([strategy])
    book = Book(Layout(model, training, cluster, columns))
    frame = Frame.of(Counts.of([strategy], model.kind_of_layer), np.array([1]), book.layout.in_flight[:, :1])
    found = {moment: (book.memory[moment], frame) for moment in MOMENTS}
    return found | {
        "a micro-batch": (book.chunk, frame),
        "a step": (book.tail, frame),
        "host": (book.host, frame),
    }


def _value(terms: list[Term], frame: Frame, unit: str) -> float:
    """The sum of `terms` on the one stage, in bytes or seconds."""
    total = sum(int(evaluate(term, frame)[0, 0]) for term in terms)
    return float(total * 1024) if unit == "bytes" else round(total / 1e9, 9)
