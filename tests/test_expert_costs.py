"""What routed experts cost: copies that travel, balance, launches, overlap."""

from __future__ import annotations

import random
from typing import Any

import pytest

from shardwise.costs import Ledger, price
from shardwise.costs.law import law
from shardwise.hardware import Cluster
from shardwise.models import Stage, Strategy, Training, Transformer
from shardwise.models.stack import stack
from shardwise.runs.record import Record
from shardwise.runs.software import software_of

FAMILY = "bridge-moe-"
MODEL = Transformer.preset("qwen3-30b-a3b")
TRAINING = Training(global_batch_size=64, sequence_length=4096)


def fields(stack: str, cards: int, **changes: Any) -> Strategy:
    known: dict[str, Any] = {
        "backend": "megatron",
        "software_stack": stack,
        "loss_kernel": "megatron",
        "gradient_dtype": "fp32",
        "precision": "bf16",
        "zero_stage": 1,
        "data_parallel": cards,
        "expert_parallel": cards,
        "shard_group_size": cards,
        "micro_batch_size": 1,
        "gradient_accumulation_steps": TRAINING.global_batch_size // cards,
        "stages": (Stage(layers=48),),
    }
    return Strategy.model_validate(known | changes)


def priced(stack: str, nodes: int = 2, **changes: Any) -> Ledger:
    cluster = Cluster.preset("dgx-b200", nodes=nodes)
    return price(MODEL, TRAINING, cluster, [fields(stack, 8 * nodes, **changes)])[0]


def sent(ledger: Ledger) -> int:
    return sum(ledger.traffic_bytes["expert"].values())


@pytest.mark.parametrize("nodes", [1, 2, 4])
def test_copies_that_travel_are_those_of_a_drawn_routing(nodes: int) -> None:
    """NCCL sends k copies, DeepEP one a place: drawn by lot, each expert as likely as another."""
    dice = random.Random(nodes)
    experts, chosen, places = 128, 8, nodes if nodes > 1 else 8
    draws = [dice.sample(range(experts), chosen) for _ in range(4000)]
    met = sum(len({e * places // experts for e in draw}) for draw in draws) / len(draws)
    each = sent(priced(FAMILY + "alltoall", nodes=nodes))
    once = sent(priced(FAMILY + "deepep", nodes=nodes))
    assert once / each == pytest.approx(met / chosen, rel=0.03)


def test_what_travels_beside_compute_shows_less() -> None:
    plain = priced(FAMILY + "hybridep-attention")
    hidden = priced(FAMILY + "hybridep-overlap-attention")
    assert 0 < hidden.terms_ns["expert_comm"] < plain.terms_ns["expert_comm"]


def test_more_in_graphs_never_costs_more_and_the_whole_step_least() -> None:
    for nodes in (1, 2):
        steps = [
            priced(FAMILY + word, nodes=nodes).step_ns
            for word in ("hybridep", "hybridep-router", "hybridep-attention", "hybridep-step")
        ]
        assert steps == sorted(steps, reverse=True)
        assert steps[-1] < 0.7 * steps[0]


def test_kernels_of_an_exchange_spare_the_host_the_sorting() -> None:
    """Fused exchanges cost the host less, where the card waits for it: what is sorted in their kernels."""
    few = {"micro_batch_size": 1, "expert_parallel": 8}
    sorted_by_host = priced(FAMILY + "alltoall-router", nodes=1, **few).terms_ns["compute"]
    fused = [
        priced(FAMILY + f"{word}-router", nodes=1, **few).terms_ns["compute"]
        for word in ("deepep", "hybridep")
    ]
    assert fused[0] == fused[1] < sorted_by_host
    slack = law("expert_host_seconds") * (1.0 - law("fused_exchange_host")) * law("graphed_router_left")
    layers = 48 * TRAINING.global_batch_size / 8
    most = slack * (1.0 + law("host_backward_floor")) * layers * 1e9
    assert 0.5 * most < sorted_by_host - fused[0] <= most


def test_experts_on_a_rank_are_launched_one_by_one() -> None:
    """Each local expert costs the same more where the host is what the card waits for, a third in 16 bits."""

    def compute(stack: str, experts: int, precision: str) -> int:
        found = priced(FAMILY + stack, nodes=1, expert_parallel=128 // experts, precision=precision)
        return found.terms_ns["compute"]

    few, more, many = (compute("hybridep", experts, "mxfp8") for experts in (16, 32, 64))
    assert many - more == pytest.approx(2 * (more - few), rel=0.05)
    plain = compute("hybridep", 64, "bf16") - compute("hybridep", 32, "bf16")
    assert plain == pytest.approx((many - more) / 3, rel=0.1)
    graphed = compute("hybridep-step", 64, "mxfp8") - compute("hybridep-step", 32, "mxfp8")
    assert graphed < (many - more) / 4


def test_a_router_that_is_not_forced_has_a_busiest_rank() -> None:
    forced = priced(FAMILY + "alltoall")
    free = priced("megatron-bridge-2025")
    assert sent(free) == pytest.approx(1.2 * sent(forced), rel=1e-3)


def test_biased_gates_and_sinks_cost_a_stack_without_their_kernels() -> None:
    model = Transformer.preset("gpt-oss-120b")
    block = model.kinds[0]
    forward = block.feed_forward.model_copy(update={"bias": False})
    attention = block.attention.model_copy(update={"sinks": False})
    parts = {
        "plain": block.model_copy(update={"feed_forward": forward, "attention": attention}),
        "sinks": block.model_copy(update={"feed_forward": forward}),
        "both": block,
    }
    found = {name: compute(model, part) for name, part in parts.items()}
    assert found["plain"] < found["sinks"] < found["both"]


def compute(model: Transformer, block: Any) -> int:
    one = model.model_copy(
        update={"runs": (model.runs[0].model_copy(update={"block": block, "layers": 36}),)}
    )
    strategy = fields(FAMILY + "hybridep", 16, micro_batch_size=4, gradient_accumulation_steps=1)
    strategy = strategy.model_copy(update={"stages": (Stage(layers=36),)})
    cluster = Cluster.preset("dgx-b200", nodes=2)
    return price(one, TRAINING, cluster, [strategy])[0].terms_ns["compute"]


LOOPS = {"modules": "fsdp-hf-experts-2023", "none": "fsdp-hf-2023"}


def called(stack: str, tokens: int, job: dict[str, Any] | None = None, **changes: Any) -> Ledger:
    """Qwen3-30B-A3B as Hugging Face code under ZeRO-3 of FSDP on eight cards."""
    known: dict[str, Any] = {
        "backend": "fsdp", "software_stack": stack, "loss_kernel": "hf-eager", "gradient_dtype": "fp32",
        "zero_stage": 3, "reshard_after_forward": True, "data_parallel": 8, "shard_group_size": 8,
        "stages": (Stage(layers=48),),
    }  # fmt: skip
    training = Training(global_batch_size=8, sequence_length=tokens, **(job or {}))
    cluster = Cluster.preset("dgx-h100")
    return price(MODEL, training, cluster, [Strategy.model_validate(known | changes)])[0]


def test_experts_that_are_modules_take_the_host_s_time() -> None:
    """A loop calls 128 experts, twelve operations each: short sequences wait for it, long ones hide some."""
    turns = 48 * 128 * law("called_expert_launches") * stack(LOOPS["modules"]).host_launch_seconds

    short = called(LOOPS["modules"], 64).terms_ns["compute"] / 1e9
    assert turns < short < 4.0 * turns
    gaps = [
        called(LOOPS["modules"], tokens).step_ns - called(LOOPS["none"], tokens).step_ns
        for tokens in (64, 65536)
    ]
    assert gaps[0] > gaps[1] > 0


def test_four_bit_experts_take_more_launches() -> None:
    """Each of an expert's matrices is made 16-bit first; adapters of attention alone add none to experts."""
    job = {"trainable": "lora(16)", "lora_targets": "attention"}
    packed = called(LOOPS["modules"], 64, job | {"trainable": "qlora(16)"})

    assert packed.terms_ns["compute"] > 1.1 * called(LOOPS["modules"], 64, job).terms_ns["compute"]


@pytest.mark.parametrize(
    ("cells", "name"),
    [
        ({"framework": "HF Trainer + DeepSpeed", "experts": "8"}, "deepspeed-experts-2024"),
        ({"framework": "HF Trainer + DeepSpeed"}, "deepspeed-2024"),
        ({"framework": "HF Transformers, FSDP", "experts": "8"}, "fsdp-hf-experts-2024"),
        ({"framework": "HF Transformers, FSDP", "experts": "8", "year": "2023"}, "fsdp-hf-experts-2023"),
        ({"framework": "HF Transformers, FSDP", "experts": "8", "year": "2026"}, "fsdp-hf-2024"),
    ],
)
def test_rows_of_such_software(cells: dict[str, str], name: str) -> None:
    """Hugging Face code of experts until 2025: transformers 5 runs them in one kernel."""
    assert software_of(Record({"year": "2025", **cells})).stack == name
