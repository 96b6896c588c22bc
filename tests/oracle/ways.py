"""Ways of training in small requests."""

from __future__ import annotations

from random import Random
from typing import Any

from shardwise.plans import Request

from .machines import binding
from .themes import anything, arithmetic, sharded, zero

JOBS: tuple[dict[str, Any], ...] = (
    {"trainable": "lora(8)"},
    {"trainable": "lora(64)", "lora_targets": ["q_proj", "down_proj"]},
    {"trainable": "qlora(8)"},
    {"trainable": "qlora(16)", "lora_targets": ["attention"]},
    {"trainable": 0.4},
    {"frozen": ["embedding", "head"]},
    {"master_weights": False},
    {"sync_each_batch": False},
    {"reference_model": "self"},
    {"reference_model": "self", "trainable": "lora(8)"},
    {"reference_model": "self", "reference_sharded": False, "reference_output": "logits"},
    {"mean_document_length": 128},
    {"mean_sequence_length": 256},
    {"optimizer_in_backward": True},
)


def trained(seed: int) -> Request:
    """The request of a seed: a theme and a way of training, on cards so small that memory binds.

    >>> trained(3) == trained(3)
    True
    """
    rng = Random(seed)
    fields = rng.choice((anything, zero, sharded, arithmetic))(rng)
    job = {**fields["training"].model_dump(), **JOBS[seed % len(JOBS)]}
    return binding(rng, Request(**{**fields, "training": job}))
