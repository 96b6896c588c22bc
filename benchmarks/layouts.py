"""Layouts of one job among published runs: lines that agree in all but the layout.

Batches within 2 % count as one, as data_parallel must divide it; lines of one layout are kept together;
groups of at least four layouts count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from shardwise.runs.priced import Run
from shardwise.runs.record import words

SAME = words(
    """
    source framework year gpu gpus gpus_per_node inter_link layers hidden heads kv_heads ffn_hidden ffn_type
    vocab experts experts_topk seq_len precision optimizer offload flash_attention
    """
)
"""Columns in which the rows of a group agree."""
LAYOUT = words("micro_batch_seqs tp sp pp vpp cp ep dp zero_stage hsdp_replicas recompute")
LEAST = 4
SAME_BATCH = 1.02


@dataclass(frozen=True)
class Layout:
    """One layout of a group: seconds a sequence, measured line by line, and predicted."""

    ids: tuple[str, ...]
    lines: tuple[float, ...]
    predicted: float

    @property
    def measured(self) -> float:
        """The mean of its lines."""
        return fmean(self.lines)


def groups_of(runs: Sequence[Run]) -> list[list[Layout]]:
    """Groups of at least `LEAST` layouts of one job with a time, in order of first appearance."""
    jobs: dict[tuple[str, ...], list[Run]] = {}
    for r in runs:
        jobs.setdefault(tuple(r.job.record.text(c) for c in SAME), []).append(r)
    found = []
    for job in jobs.values():
        for batch in _by_batch(job):
            layouts = _layouts(batch)
            if len(layouts) >= LEAST:
                found.append(layouts)
    return found


def _by_batch(runs: Sequence[Run]) -> list[list[Run]]:
    """Runs split where the global batch rises by more than `SAME_BATCH` over the first of its part."""
    parts: list[list[Run]] = []
    for r in sorted(runs, key=_batch):
        if not parts or _batch(r) > SAME_BATCH * _batch(parts[-1][0]):
            parts.append([])
        parts[-1].append(r)
    return parts


def _batch(r: Run) -> int:
    return r.candidate.training.global_batch_size


def _layouts(runs: Sequence[Run]) -> list[Layout]:
    same: dict[tuple[str, ...], list[Run]] = {}
    for r in runs:
        same.setdefault(tuple(r.job.record.text(c) for c in LAYOUT), []).append(r)
    return [
        Layout(
            tuple(r.job.record.name for r in lines),
            tuple((r.measured_seconds or 0.0) / _batch(r) for r in lines),
            fmean(r.seconds / _batch(r) for r in lines),
        )
        for lines in same.values()
    ]
