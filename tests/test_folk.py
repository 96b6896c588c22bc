"""The rule of thumb: legal, even, priced as told, within the card, and never better than the plan."""

from __future__ import annotations

import pytest

import shardwise
from shardwise.hardware import Cluster
from shardwise.models import Training
from shardwise.plans import Plan, Request
from shardwise.plans.report import limit_bytes, price, seconds
from shardwise.solver.alternatives import rule_of_thumb
from shardwise.solver.legal import breaches

pytestmark = pytest.mark.slow


def asked(model: str, preset: str, nodes: int, batch: int, length: int) -> Request:
    """A request in one line."""
    training = Training(global_batch_size=batch, sequence_length=length)
    return Request(model=model, cluster=Cluster.preset(preset, nodes=nodes), training=training)


@pytest.mark.parametrize(
    "question",
    [
        asked("llama-3.1-70b", "dgx-h100", 8, 512, 8192),
        asked("gpt3-175b", "dgx-a100-80gb", 128, 1536, 2048),
        asked("gpt3-175b", "dgx-a100-80gb", 16, 512, 2048),
        asked("qwen3-30b-a3b", "dgx-h100", 4, 512, 4096),
        asked("mixtral-8x7b", "dgx-h100", 4, 256, 4096),
    ],
    ids=["70b", "175b", "175b tight", "30b of experts", "8x7b"],
)
def test_the_rule_of_thumb_is_an_even_legal_plan(question: Request) -> None:
    """Whole megatron layouts of even stages; the ledger says of them what the answer says."""
    found = rule_of_thumb(question)
    assert found is not None
    ledger = price(question, [found.strategy])[0]
    sizes = [stage.layers for stage in found.strategy.stages]

    assert not breaches(question, found.strategy)
    assert ledger.step_ns == found.step_ns
    assert ledger.peak_kib * 1024 <= limit_bytes(question, ledger)
    assert max(sizes) - min(sizes) <= 1 or len(question.model.kinds) > 1
    assert found.strategy.offload_optimizer == "none"


def test_no_fewer_stages_fit() -> None:
    """On fewer stages nothing even fits: each number below is tried anew."""
    request = asked("gpt3-175b", "dgx-a100-80gb", 16, 512, 2048)
    found = rule_of_thumb(request)
    assert found is not None and found.strategy.pipeline_parallel > 1
    spare = request.changed({"choose.rules": [f"pipeline_parallel < {found.strategy.pipeline_parallel}"]})
    assert rule_of_thumb(spare) is None


def test_the_plan_is_never_slower() -> None:
    """What the rule of thumb loses is told, and it loses."""
    request = asked("llama-3.1-70b", "dgx-h100", 8, 512, 8192)
    plan = shardwise.plan(request)
    assert isinstance(plan, Plan)
    folk = next(other for other in plan.alternatives if other.name == "folk")
    thumb = rule_of_thumb(request)
    assert thumb is not None and folk.step_seconds == seconds(thumb.step_ns)
    assert folk.step_seconds >= plan.time.step_seconds


def test_a_rack_is_no_server() -> None:
    """In a link domain of 72 cards the rule cuts tensors over those of a server at most."""
    found = rule_of_thumb(asked("gpt3-175b", "gb200-nvl72", 36, 576, 2048))

    assert found is not None
    assert found.strategy.tensor_parallel == 8
