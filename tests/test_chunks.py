"""Chunks of a stage: what the search shares between rows that differ in them alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from shardwise import Cluster, Request, Training
from shardwise.costs.book import Book
from shardwise.costs.layout import Layout
from shardwise.costs.terms import Term
from shardwise.solver.space import rows

SHARED = ("unspread", "tail", "host", "uplink_unspread")
"""Terms of a book that `Coefficients` evaluates once for all rows of the same choices but chunks."""


def told(book: Book) -> dict[str, Sequence[Term]]:
    """Those terms by where they stand, of every moment of memory too."""
    found: dict[str, Sequence[Term]] = {name: getattr(book, name) for name in SHARED}
    return found | {f"memory at {moment}": terms for moment, terms in book.memory.items()}


@pytest.mark.parametrize(
    ("model", "choose"),
    [
        ("llama-3.1-8b", {"pipeline_parallel": [1, 2, 4]}),
        ("llama-3.1-8b", {"pipeline_parallel": 4, "tensor_parallel": 2, "recompute": ["none", "full"]}),
        ("mixtral-8x7b", {"pipeline_parallel": [2, 4], "expert_parallel": [1, 8]}),
    ],
)
def test_no_term_that_rows_share_knows_chunks(model: str, choose: dict[str, Any]) -> None:
    """Every term of such a row is the same number for number as that of the row without its chunks."""
    asked = Request(
        model=model,
        cluster=Cluster.preset("dgx-h100", nodes=2),
        training=Training(global_batch_size=64, sequence_length=4096),
        choose={"backend": "megatron", **choose},
    )
    strategies = rows(asked)
    strategies = strategies.take(np.linspace(0, len(strategies) - 1, 400).astype(np.int64))
    assert (strategies.virtual_pipeline > 1).any()
    with_chunks, without = (
        told(Book(Layout(asked.model, asked.training, asked.cluster, each)))
        for each in (strategies, strategies.unchunked)
    )
    for place, terms in with_chunks.items():
        others = without[place]
        assert [term.name for term in terms] == [term.name for term in others]
        for term, other in zip(terms, others, strict=True):
            for piece, value in term.coefficients.items():
                assert np.array_equal(value, other.coefficients[piece]), (place, term.name, piece)
