"""A search that runs out of time says so: its bound holds, and its plan, if any, is a real one."""

from __future__ import annotations

import pytest

from shardwise.hardware import Cluster
from shardwise.models import Training
from shardwise.plans import Request
from shardwise.solver.judge import judge
from shardwise.solver.search import Search

SECONDS = (1e-6, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 1.0)


@pytest.mark.parametrize(("model", "nodes"), [("llama-3.1-70b", 8), ("mixtral-8x7b", 4), ("gpt3-175b", 16)])
def test_bounds_of_stopped_searches_hold(model: str, nodes: int) -> None:
    """Whatever the limit: bound <= optimum <= plan found; proved only when both meet; some are stopped."""
    training = Training(global_batch_size=256, sequence_length=4096)
    asked = Request(model=model, cluster=Cluster.preset("dgx-h100", nodes=nodes), training=training)
    full = Search(asked).run()
    assert full.best is not None and full.proved
    stopped = 0
    for limit in SECONDS:
        found = Search(asked, limit).run()
        assert found.bound_ns is not None and found.bound_ns <= full.best.step_ns, limit
        if found.best is not None:
            assert found.best.step_ns >= full.best.step_ns
            judge(asked, found.best.strategy, found.best.step_ns)
        if found.proved:
            assert found.best is not None and found.best.step_ns == full.best.step_ns == found.bound_ns
        stopped += not found.proved
    assert 1 <= stopped < len(SECONDS)
