"""What blank columns of a row may mean: micro-batch, interleaving and recompute of each reading.

Blank `micro_batch_seqs` is 1, 2 or 4, but in pipelines of torchtitan the batch of a rank cut into as many as
there are stages, its default; under Colossal-AI without a pipeline also the whole batch of a rank, since its
benchmark accumulates nothing (examples/language/llama/benchmark.py). Blank `vpp` with stages is one chunk in
software that interleaves only where told to (`ONE_CHUNK`), else any whole number of chunks that divides the
layers of a stage: more than 1 where the notes say "interleaved", what the schedule takes where framework or
notes name one. Blank `recompute` is none in runs of NVIDIA's recipes, else none, selective or full. Blank
`vpp` and `recompute` are a published recipe's where there is one (`recipes`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

from ..inputs import shorten
from ..models.schedule import Schedule, schedules
from .recipes import TUNED, Recipe
from .record import Record
from .refusal import Refused
from .stages import stage_layers

MICRO_BATCHES = (1, 2, 4)
RECOMPUTES = ("none", "selective", "full")
MOST_CHUNKS = 12
USUAL = ("none", "1f1b", "interleaved")
"""Schedules that follow from the number of chunks."""
ONE_CHUNK = ("deepspeed", "swift", "colossal", "internevo", "internlm", "nanotron", "picotron", "neox")
"""Words of frameworks whose pipelines hold one chunk a stage by default, or cannot hold more (DeepSpeed)."""


def choices_of(
    record: Record, recipe: Recipe | None, layers: int, stages: int, data: int
) -> Iterator[tuple[int, int, str]]:
    """(micro-batch, chunks, recompute) of each reading of a row with `stages` and `data` ranks."""
    micro, chunks = record.integer("micro_batch_seqs"), record.integer("vpp")
    framework = record.text("framework").lower()
    if not micro and stages > 1 and "torchtitan" in framework:
        micro = (record.integer("global_batch_seqs") or 0) // (data * stages)
    whole = (record.integer("global_batch_seqs") or 0) // data
    several = (*MICRO_BATCHES, *([whole] if "colossal" in framework and stages == 1 and whole else []))
    recompute = record.word("recompute")
    if recompute and recompute not in RECOMPUTES:
        raise Refused("unreadable", f"recompute = {shorten(recompute)} is not known")
    tuned = any(word in framework for word in TUNED)
    usual = [recipe.recompute] if recipe else ["none"] if tuned else RECOMPUTES
    if recipe and not chunks and int(recipe.cells["pp"] or 1) == stages:
        chunks = int(recipe.cells["vpp"] or 1)
    yield from product(
        [micro] if micro else sorted(set(several)),
        [chunks] if chunks else _interleavings(record, layers, stages),
        [recompute] if recompute else usual,
    )


def _interleavings(record: Record, layers: int, stages: int) -> list[int]:
    if stages == 1:
        return [1]
    named = schedule_named(record)
    if named is not None and named.chunks != "many":
        return [1 if named.chunks == "one" else 2]
    told = named is not None or "interleaved" in record.notes
    if not told and any(word in record.text("framework").lower() for word in ONE_CHUNK):
        return [1]
    held = max(sum(chunks) for chunks in stage_layers(layers, stages, 1))
    found = [v for v in range(1, min(held, MOST_CHUNKS) + 1) if held % v == 0]
    several = [v for v in found if v > 1]
    return several if told and several else found


def schedule_named(record: Record) -> Schedule | None:
    """The schedule other than 1F1B that the framework or the first words of the notes name, None for none.

    Notes begin with the schedule where a source compares several ("ZB-2p schedule, m=24").
    """
    said = f"{record.text('framework').lower()} {record.notes.split(',')[0].split(';')[0]}"
    spoken = set(re.findall(r"[a-z0-9-]+", said))
    for known in schedules().values():
        if known.name not in USUAL and spoken & {known.name, *known.called}:
            return known
    return None
