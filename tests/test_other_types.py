"""Arguments of other types: every public function refuses them with the one error, never with a traceback."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from shardwise import Cluster, InputError, Planner, Request, Training, Transformer, plan, price
from shardwise.launch import emit
from shardwise.plans import read_plan, read_question, read_request, read_strategy
from shardwise.solver import check, compare, curve, why

JOB = Request.model_validate(
    {
        "model": "qwen2.5-0.5b",
        "cluster": Cluster.preset("dgx-h100"),
        "training": Training(global_batch_size=8, sequence_length=1024),
    }
)
FLAGS = {"cluster.preset": "dgx-h100"}
CALLS: dict[str, Callable[[Any], object]] = {
    "Cluster.read": Cluster.read,
    "Cluster.preset": Cluster.preset,
    "Cluster.preset nodes": lambda x: Cluster.preset("dgx-h100", nodes=x),
    "Transformer.read": Transformer.read,
    "Transformer.preset": Transformer.preset,
    "Planner": Planner,
    "Planner.plan": lambda x: Planner(JOB.cluster).plan(x),
    "Planner.check": lambda x: Planner(JOB.cluster).check(JOB, x),
    "Planner.curve": lambda x: Planner(JOB.cluster).curve(JOB, x),
    "Planner.min_resources": lambda x: Planner(JOB.cluster).min_resources(x),
    "Planner.whatif": lambda x: Planner(JOB.cluster).whatif(x),
    "plan": plan,
    "price": lambda x: price(JOB, x),
    "check": lambda x: check(JOB, x),
    "curve": lambda x: curve(JOB, x),
    "curve counts": lambda x: curve(JOB, [x]),
    "compare": lambda x: compare(JOB, x),
    "why": lambda x: why(x, {}),
    "emit": lambda x: emit(x, "fsdp"),
    "read_plan": read_plan,
    "read_question": lambda x: read_question(x, FLAGS),
    "read_request": lambda x: read_request(x, FLAGS),
    "read_request flags": lambda x: read_request("qwen2.5-0.5b", x),
    "read_request sets": lambda x: read_request("qwen2.5-0.5b", FLAGS, x),
    "read_strategy": lambda x: read_strategy(x, JOB.model, "test"),
    "changed": JOB.changed,
}
OTHERS = [3.5, True, b"x", object(), "\0", float("nan"), -1, [None], {1: 2}]


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("other", OTHERS, ids=lambda other: type(other).__name__ + str(other)[:4])
def test_another_type_is_one_message(name: str, other: Any) -> None:
    """One line that names the argument."""
    with pytest.raises(InputError) as caught:
        CALLS[name](other)

    assert caught.value.field and "\n" not in str(caught.value)
