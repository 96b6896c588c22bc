"""Host memory as a fact of the machine and as a limit of the request: one meaning, told alike."""

from __future__ import annotations

import pytest

from shardwise import NoPlan, Plan, Request, plan
from shardwise.costs.law import law
from shardwise.plans import read_request
from shardwise.plans.fields import field_text
from shardwise.plans.report import price
from shardwise.solver.least_host import least_host
from shardwise.solver.members import HOST, members, without

GIB = 2**30
JOB = {"training.global_batch_size": 16, "training.sequence_length": 1024}


def offloading(*settings: str) -> Request:
    """An 8B on two small cards of no known machine: its states fit with host memory only."""
    cards = ("cluster.gpu=TITAN-RTX", "cluster.gpus_per_node=2", "backend=deepspeed", "link=pcie")
    return read_request("qwen2.5-7b", JOB, [*cards, *settings])


def most(request: Request) -> int:
    """What offloaded states may take of a host, as the answer says it."""
    found = plan(request)
    assert isinstance(found, Plan)
    return found.memory.host_usable_bytes


def test_a_limit_lowers_what_a_machine_gives_and_never_raises_it() -> None:
    """A machine of 400 GiB gives 90 % of them, whatever larger limit is said; a smaller one holds exactly."""
    machine = "host_memory_gib=400"
    given = int(400 * GIB * law("host_usable_share"))

    assert most(offloading(machine)) == given // 1024 * 1024
    assert most(offloading(machine, "host_memory_bytes=400GiB")) == given // 1024 * 1024
    assert most(offloading(machine, "host_memory_bytes=300GiB")) == 300 * GIB


def test_a_limit_stands_in_for_a_machine_nobody_described() -> None:
    """Without a known machine the limit alone says what may be offloaded; no note says that nothing is."""
    found = plan(offloading("host_memory_bytes=300GiB"))

    assert isinstance(found, Plan)
    assert found.memory.host_usable_bytes == 300 * GIB and found.memory.host_bytes_per_node > 0
    assert not any("host memory not known" in warning.message for warning in found.warnings)


def test_the_share_of_a_machine_is_said_where_it_is_asked_for() -> None:
    """`explain` names the share of the ledger, for the limit and for the machine."""
    share = f"{100 * law('host_usable_share'):.0f} %"

    assert share in field_text("limits.host_memory_bytes").meaning
    assert share in field_text("cluster.host_memory_gib").meaning


@pytest.mark.parametrize("setting", ["host_memory_gib=100", "host_memory_bytes=90GiB"])
def test_a_refusal_tells_the_least_that_is_needed(setting: str) -> None:
    """ "At least": with that much host memory there is a plan, with a hundredth less there is none."""
    request = offloading(setting)
    refused = plan(request)
    assert isinstance(refused, NoPlan)
    memories = [m for m in members(request) if m.limit in (HOST, "limits.host_memory_bytes")]
    boundless = next(without(request, memories))
    found = least_host(boundless)
    assert found is not None
    strategy, need = found

    assert price(boundless, [strategy])[0].host_node_kib * 1024 == need
    assert isinstance(plan(boundless.changed({"limits.host_memory_bytes": need})), Plan)
    assert isinstance(plan(boundless.changed({"limits.host_memory_bytes": int(0.99 * need)})), NoPlan)
    assert any(f"at least {need / GIB:,.1f} GiB a node" in reason for reason in refused.reasons)
    assert any("90.0 GiB" in reason for reason in refused.reasons)


def test_near_degrees_are_cures_of_their_own() -> None:
    """Four key-value heads: 8 is refused, 4, 2 and 1 are legal; each is a cure with layout and step."""
    asked = read_request(
        "qwen3-30b-a3b",
        {"cluster.preset": "dgx-h100", "training.global_batch_size": 64, "training.sequence_length": 4096},
        ["backend=megatron", "tensor_parallel=8"],
    )
    refused = plan(asked)
    assert isinstance(refused, NoPlan)
    cures = {cure.set: cure for cure in refused.cures if cure.set.startswith("choose.tensor_parallel=")}
    fastest = [cure for cure in cures.values() if "fastest" in cure.change]

    assert any("legal: 4, 2, 1" in reason for reason in refused.reasons)
    assert set(cures) == {f"choose.tensor_parallel={degree}" for degree in (1, 2, 4)}
    assert len(fastest) == 1
    assert fastest[0].resulting_step_seconds == min(cure.resulting_step_seconds for cure in cures.values())
    for said, cure in cures.items():
        assert cure.strategy is not None and cure.strategy.tensor_parallel == int(said[-1])
