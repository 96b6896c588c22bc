"""Rows dropped as their states alone are too large: none of them could hold a plan."""

from __future__ import annotations

import numpy as np
import pytest

from shardwise import Cluster, Request, Training
from shardwise.solver.bounds import can_fit
from shardwise.solver.coefficients import Coefficients
from shardwise.solver.room import with_room
from shardwise.solver.space import space

CASES = [
    ("llama-3.1-8b", "dgx-a100-40gb", 1),
    ("gpt3-175b", "dgx-h100", 8),
    ("mixtral-8x7b", "dgx-a100-40gb", 1),
]


@pytest.mark.parametrize(("model", "cluster", "nodes"), CASES)
def test_no_row_that_is_dropped_fits(model: str, cluster: str, nodes: int) -> None:
    """Of all rows those that are left keep their columns, and the others are proved too large anyway."""
    asked = Request(
        model=model,
        cluster=Cluster.preset(cluster, nodes=nodes),
        training=Training(global_batch_size=64, sequence_length=2048),
        limits={"memory_margin": 0.0},
    )
    whole = space(asked)
    left = with_room(asked, whole)
    every, kept = (found.rows(np.arange(len(found.kind))) for found in (whole, left))
    keys = {kept.key(row) for row in range(len(kept))}
    dropped = np.array([every.key(row) not in keys for row in range(len(every))])

    assert left.dropped == dropped.sum() == len(every) - len(kept) > 0
    assert not can_fit(Coefficients(asked, every.take(dropped))).any()


def test_a_space_without_room_is_empty() -> None:
    """A model whose weights exceed all cards leaves no shape."""
    asked = Request(
        model="llama-3.1-405b",
        cluster=Cluster.preset("dgx-a100-40gb"),
        training=Training(global_batch_size=8, sequence_length=2048),
        choose={"offload_optimizer": "none", "offload_params": "none"},
    )
    left = with_room(asked, space(asked))
    assert len(left.kind) == 0 and left.dropped > 0
