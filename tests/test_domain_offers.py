"""Link domains of 72 cards hold no groups of 64 side by side: what using 64 of them brings is offered."""

from __future__ import annotations

from shardwise import Cluster, Plan, Request, Training, plan

DOMAIN = "cluster.nvlink_domain=64"


def offered(cluster: Cluster) -> dict[str, float]:
    """Gain in percent by what to set, for DeepSeek-V3 in bf16."""
    training = Training(global_batch_size=2048, sequence_length=4096)
    asked = Request(model="deepseek-v3", cluster=cluster, training=training)
    answer = plan(asked.changed({"choose.backend": "megatron", "choose.expert_parallel": [8, 64]}))

    assert isinstance(answer, Plan)
    return {offer.set: offer.gain_percent for offer in answer.offers}


def test_racks_of_72_are_better_used_by_64() -> None:
    """256 cards over four racks either way: experts over 64 then stay inside one."""
    assert offered(Cluster.of_gpus("gb200-nvl72", 256))[DOMAIN] > 1.0


def test_one_machine_a_domain_has_nothing_to_offer() -> None:
    """Islands of eight are a power of two already."""
    assert DOMAIN not in offered(Cluster.preset("dgx-b200", nodes=32))
