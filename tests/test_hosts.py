"""The test of hosts before any stage is looked at: it refuses no row that a plan is known for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shardwise import Cluster, Plan, Request, Training, plan
from shardwise.models.backend import Backend, backend
from shardwise.solver import coefficients
from shardwise.solver.coefficients import Coefficients
from shardwise.solver.hosts import host_can_hold
from shardwise.solver.space import rows


def interleaved(chunks: int, tokens: int) -> Request:
    """Two interleaved stages that offload and recompute nothing, on one machine."""
    return Request(
        model="qwen2.5-7b",
        cluster=Cluster.preset("dgx-h100"),
        training=Training(global_batch_size=64, sequence_length=tokens),
        choose={
            "backend": "megatron", "tensor_parallel": 4, "pipeline_parallel": 2, "virtual_pipeline": chunks,
            "zero_stage": 1, "micro_batch_size": 1, "recompute": "none", "offload_optimizer": "cpu",
        },
        limits={"memory_margin": 0.0},
    )  # fmt: skip


@pytest.mark.parametrize(("chunks", "tokens"), [(2, 8192), (7, 32768)])
def test_what_a_plan_of_chunks_in_flight_needs_is_enough(
    chunks: int, tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On cards and hosts just large enough for it, where a backend leaves each layer's offload free.

    A chunk in flight holds its own layers, not those of all chunks of its stage. No backend of the catalogue
    interleaves and chooses what to offload, so one is made up.
    """
    found = plan(interleaved(chunks, tokens))
    assert isinstance(found, Plan)
    need, host = found.memory.total_bytes, found.memory.host_bytes_per_node
    exact = {"cluster.node.gpu.memory_usable_bytes": need, "limits.host_memory_bytes": host}
    small = exact | {"limits.host_memory_bytes": host // 16}

    def free(name: str) -> Backend:
        return replace(backend(name), offload_freedom="free")

    monkeypatch.setattr(coefficients, "backend", free)
    for limits, held in ((exact, True), (small, False)):
        request = interleaved(chunks, tokens).changed(limits)
        known = Coefficients(request, rows(request))
        layouts = zip(known.strategies.virtual_pipeline, host_can_hold(known), strict=True)
        assert len(known.strategies) and not known.folds.any()
        assert {bool(able) for number, able in layouts if number == chunks} == {held}
