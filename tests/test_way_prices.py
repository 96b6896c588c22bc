"""Ways of training priced: states by portion, what the backward needs, work, traffic, the host."""

from __future__ import annotations

from typing import Any

import pytest

from shardwise import Plan, Request, plan
from shardwise.costs import Ledger, price
from shardwise.hardware import Cluster, catalogue
from shardwise.models import Stage, Strategy, Training, Transformer, count
from shardwise.models.backend import backend
from shardwise.models.recipe import recipe
from shardwise.solver.drives import bytes_on_drives, drives_hold
from shardwise.solver.planner import check

LLAMA = Transformer.preset("llama-3.1-8b")
MIXTRAL = Transformer.preset("mixtral-8x7b")
GIB = 2**20
"""KiB in a GiB."""


ENDS = 2 * 128_256 * 4096 + 4096
"""Parameters of embedding, head and final norm of Llama-3.1 8B."""


def ledger(
    *,
    model: Transformer = LLAMA,
    cluster: Cluster | None = None,
    job: dict[str, Any] | None = None,
    **choices: Any,
) -> Ledger:
    """The ledger of one strategy on a machine of eight H100: ZeRO-3 of FSDP where nothing else is said."""
    machine = cluster or Cluster.preset("dgx-h100")
    fields: dict[str, Any] = {
        "backend": "fsdp",
        "software_stack": "fsdp-compile-2024",
        "loss_kernel": "eager",
        "data_parallel": machine.gpus,
        "zero_stage": 3,
        "shard_group_size": machine.gpus,
        "gradient_dtype": "fp32",
        **choices,
    }
    full = fields.pop("recompute", "none") == "full"
    if not fields["zero_stage"]:
        fields["shard_group_size"] = 1
    fields["reshard_after_forward"] = fields["zero_stage"] == 3
    layers = model.layers
    away = layers if fields.get("offload_optimizer", "none") != "none" else 0
    stage = Stage(layers=layers, recompute_full_layers=layers if full else 0, offloaded_layers=away)
    strategy = Strategy(**fields, stages=(stage,))
    made = strategy.data_parallel * strategy.micro_batch_size * strategy.gradient_accumulation_steps
    training = {"global_batch_size": made, "sequence_length": 2048, **(job or {})}
    return price(model, Training.model_validate(training), machine, [strategy])[0]


def deepspeed(stage: int, **more: Any) -> dict[str, Any]:
    """Choices of a DeepSpeed run."""
    return {
        "backend": "deepspeed", "software_stack": "deepspeed-2024", "loss_kernel": "chunked",
        "zero_stage": stage, "gradient_dtype": "bf16", **more,
    }  # fmt: skip


def term(found: Ledger, name: str, moment: str = "step") -> float:
    """GiB of a term at a moment."""
    return found.stages[0].moments_kib[moment].get(name, 0) / GIB


def test_frozen_weights_have_two_bytes_and_nothing_else() -> None:
    """LoRA 16 on 8B, ZeRO-0: 2 x 8.03e9 bytes stay, 41.9e6 adapters have 2 + 2 + 12 (+ 4 at the step)."""
    found = ledger(job={"trainable": "lora(16)"}, **deepspeed(0))
    assert term(found, "frozen_weights") == pytest.approx(2 * 8_030_261_248 / 2**30, rel=1e-4)
    for name, each in (("weights", 2), ("gradients", 2), ("optimizer", 12), ("step_copy", 4)):
        assert term(found, name) == pytest.approx(each * 41_943_040 / 2**30, rel=1e-3)


def test_a_4_bit_base_has_half_a_byte_and_its_scales() -> None:
    """QLoRA: 4 + 8/64 + 32/(64 256) bits a parameter of the linears (arXiv 2305.14314), 4.13 bits."""
    assert recipe("nf4").weights_bytes == (4 + 8 / 64 + 32 / (64 * 256)) / 8
    found = ledger(job={"trainable": "qlora(16)"}, **deepspeed(0))
    packed, rest = 32 * 218_103_808, 2 * 128_256 * 4096 + 65 * 4096
    assert term(found, "frozen_weights") == pytest.approx(
        (0.515869140625 * packed + 2 * rest) / 2**30, rel=1e-4
    )


def test_fsdp_cuts_a_4_bit_base_and_deepspeed_does_not() -> None:
    """The same QLoRA on eight cards: an eighth under FSDP; all of it at each ZeRO stage of DeepSpeed."""
    whole = term(ledger(job={"trainable": "qlora(16)"}, **deepspeed(0)), "frozen_weights")
    packed = 0.515869140625 * 32 * 218_103_808 / 2**30
    assert term(ledger(job={"trainable": "qlora(16)"}), "frozen_weights") == pytest.approx(
        whole / 8, rel=1e-3
    )
    third = term(ledger(job={"trainable": "qlora(16)"}, **deepspeed(3)), "frozen_weights")
    assert third == pytest.approx(packed + (whole - packed) / 8, rel=1e-3)


def verdict(found: Ledger) -> str:
    """Whether the least it needs exceeds the card."""
    return "does_not_fit" if found.refusal_kib > found.usable_kib else "fits"


@pytest.mark.parametrize(
    ("choices", "expected"),
    [(deepspeed(2, recompute="full"), "does_not_fit"), ({"recompute": "full"}, "fits")],
)
def test_qlora_of_mixtral_on_two_24_gib_cards(choices: dict[str, Any], expected: str) -> None:
    """46.7e9 parameters in 4 bits are 23 GiB: replicated they fill the card, cut over two they fit."""
    cluster = Cluster.of_gpus("ws-8x-rtx-4090", 2)
    found = ledger(
        model=MIXTRAL, cluster=cluster, job={"trainable": "qlora(8)", "sequence_length": 1024}, **choices
    )
    assert verdict(found) == expected


@pytest.mark.parametrize(("stage", "expected"), [(2, "does_not_fit"), (3, "fits")])
def test_lora_of_mixtral_needs_its_weights_cut(stage: int, expected: str) -> None:
    """93 GB of replicated 16-bit weights exceed 80 GB at any ZeRO stage below 3, whatever is trained."""
    cluster = Cluster.preset("dgx-a100-80gb")
    found = ledger(
        model=MIXTRAL, cluster=cluster, job={"trainable": "lora(8)"}, **deepspeed(stage, recompute="full")
    )
    assert verdict(found) == expected


@pytest.mark.parametrize("choices", [deepspeed(0), deepspeed(2), deepspeed(3), {}, {"zero_stage": 2}])
@pytest.mark.parametrize("recompute", ["none", "full"])
def test_less_training_never_needs_more(choices: dict[str, Any], recompute: str) -> None:
    """all >= half >= a tenth >= adapters of rank 64 >= 8 >= the same on a 4-bit base, in memory.

    4-bit weights are no smaller than cut 16-bit ones where DeepSpeed leaves them whole.
    """
    kinds = ["all", 0.5, 0.1, "lora(64)", "lora(8)"]
    kinds += ["qlora(8)"] if choices.get("zero_stage") != 3 or not choices.get("backend") else []
    peaks = [ledger(job={"trainable": kind}, recompute=recompute, **choices).peak_kib for kind in kinds]
    assert peaks == sorted(peaks, reverse=True)


def test_a_share_of_one_costs_what_all_costs() -> None:
    """To the byte and nanosecond."""
    assert ledger(job={"trainable": 1.0}) == ledger(job={"trainable": "all"})


@pytest.mark.parametrize("field", ["peak_kib", "step_ns", "checkpoint_bytes"])
def test_everything_grows_with_the_rank(field: str) -> None:
    """Ranks 1 to 256."""
    found = [getattr(ledger(job={"trainable": f"lora({rank})"}), field) for rank in (1, 8, 64, 256)]
    assert found == sorted(found) and found[0] < found[-1]


def test_a_frozen_matrix_has_no_product_for_its_own_gradient() -> None:
    """Two products of three: with few adapters LoRA computes 2/3 to 0.85 of full training."""
    full, part = (
        ledger().terms_ns["compute"],
        ledger(job={"trainable": "lora(1)", "lora_targets": ["v_proj"]}),
    )
    assert 0.66 < part.terms_ns["compute"] / full < 0.85


def test_a_4_bit_base_is_unpacked_in_both_passes() -> None:
    """QLoRA is slower than LoRA of the same rank: weights are made 16-bit in forward, backward and again."""
    plain, packed = (ledger(job={"trainable": f"{kind}(16)"}) for kind in ("lora", "qlora"))
    assert packed.terms_ns["compute"] > plain.terms_ns["compute"]
    again = [ledger(job={"trainable": f"{kind}(16)"}, recompute="full") for kind in ("lora", "qlora")]
    assert again[1].terms_ns["recompute"] > again[0].terms_ns["recompute"]


def test_only_inputs_of_trained_matrices_are_saved() -> None:
    """Adapters on queries and values drop 2 h of the feed-forward's input and 2 f before its last matrix."""
    every = term(ledger(job={"trainable": "lora(8)"}), "activations", "forward")
    some = term(
        ledger(job={"trainable": "lora(8)", "lora_targets": ["q_proj", "v_proj"]}), "activations", "forward"
    )
    thin = 2 * 8 * 5  # five matrices fewer with a rank-wide activation
    expected = 32 * 2048 * (2 * 4096 + 2 * 14336 + thin)
    assert every - some == pytest.approx(expected / 2**30, rel=1e-3)


def test_gradients_of_adapters_alone_cross_the_data_axis() -> None:
    """ZeRO-2: (2 x 2 + 2) bytes of 41.9e6 parameters; ZeRO-3 gathers frozen layers twice, ends once."""
    (second,) = ledger(job={"trainable": "lora(16)"}, **deepspeed(2)).traffic_bytes["data"].values()
    assert second == pytest.approx(6 * 41_943_040 * 7 / 8, rel=1e-3)
    (third,) = ledger(job={"trainable": "lora(16)"}, **deepspeed(3)).traffic_bytes["data"].values()
    layers = 32 * (2 * 2 * 218_112_000 + 6 * 41_943_040 / 32)
    assert third == pytest.approx((layers + 2 * ENDS) * 7 / 8, rel=1e-3)


def test_a_4_bit_base_crosses_packed() -> None:
    """FSDP gathers 0.516 bytes a parameter of layers instead of 2: a bit over a quarter of LoRA's traffic.

    Embedding and head stay in 16 bits and are gathered once.
    """
    plain, packed = (
        next(iter(ledger(job={"trainable": f"{kind}(16)"}).traffic_bytes["data"].values()))
        for kind in ("lora", "qlora")
    )
    ends = 2 * ENDS * 7 / 8
    assert 0.25 < (packed - ends) / (plain - ends) < 0.30


def test_offloaded_frozen_weights_lie_in_host_memory() -> None:
    """ZeRO-3 with parameters on the host: 24 bytes of each adapter parameter, 2 x 1.5 of each frozen one."""
    away = deepspeed(3, offload_optimizer="cpu", offload_params="cpu")
    found = ledger(job={"trainable": "lora(16)"}, **away)
    expected = 24 * 41_943_040 + 3 * 8_030_261_248
    assert found.host_node_kib * 1024 == pytest.approx(expected, rel=1e-3)


def test_a_checkpoint_of_adapters_is_theirs_alone() -> None:
    """2 + 12 bytes of 41.9e6; with a frozen head the whole model is saved, states of the trained part."""
    assert ledger(job={"trainable": "lora(16)"}, **deepspeed(2)).checkpoint_bytes == 14 * 41_943_040
    head = 128_256 * 4096 + 4096
    trained = 8_030_261_248 - head
    assert ledger(job={"frozen": ["head"]}, **deepspeed(2)).checkpoint_bytes == 14 * trained + 2 * head


def test_16_bit_training_keeps_eight_bytes() -> None:
    """torchtune's full bf16: weights, gradients and both moments of 2 bytes each, no fp32 copy."""
    found = ledger(job={"master_weights": False}, zero_stage=0, gradient_dtype="bf16")
    total = sum(term(found, name) for name in ("weights", "gradients", "optimizer"))
    assert total == pytest.approx(8 * 8_030_261_248 / 2**30, rel=1e-4)


@pytest.mark.parametrize(
    ("optimizer", "each"),
    [("adamw", 4), ("adamw-8bit", 2.03125), ("paged-adamw-8bit", 0), ("lion", 2), ("sgd", 2),
     ("sgd-no-momentum", 0), ("adafactor", 1 / 128)],
)  # fmt: skip
def test_moments_without_a_master_copy(optimizer: str, each: float) -> None:
    """Moments in the type of the weights, 8-bit ones as bitsandbytes packs them, none without momentum."""
    found = ledger(job={"master_weights": False, "optimizer": optimizer}, zero_stage=0, gradient_dtype="bf16")
    assert term(found, "optimizer") == pytest.approx(each * 8_030_261_248 / 2**30, rel=1e-3, abs=1e-6)


def test_paged_moments_may_lie_in_host_memory() -> None:
    """2.03 bytes a parameter of the rank."""
    found = ledger(job={"optimizer": "paged-adamw-8bit"})
    assert found.host_node_kib * 1024 == pytest.approx(2.03125 * 8_030_261_248, rel=1e-3)


def test_gradients_used_as_they_come_are_never_together() -> None:
    """Of 15 GiB of 16-bit gradients the largest unit's remain: the embedding's, 1 GiB."""
    job = {"master_weights": False, "optimizer_in_backward": True}
    found = ledger(job=job, zero_stage=0, gradient_dtype="bf16")
    assert term(found, "gradients", "backward") == pytest.approx(2 * 128_256 * 4096 / 2**30, rel=1e-3)
    assert term(found, "gradients") == 0


def test_accumulation_without_sync_keeps_whole_gradients() -> None:
    """FSDP: 4 bytes (2 with 16-bit reductions) of each parameter between micro-batches, one reduction."""
    steps: dict[str, Any] = {"gradient_accumulation_steps": 4}
    synced, late = ledger(**steps), ledger(job={"sync_each_batch": False}, **steps)
    assert term(late, "gradients", "forward") == pytest.approx(4 * 8_030_261_248 / 2**30, rel=1e-3)
    short = ledger(job={"sync_each_batch": False}, **steps, gradient_dtype="bf16")
    assert term(short, "gradients", "forward") == pytest.approx(2 * 8_030_261_248 / 2**30, rel=1e-3)
    moved = [next(iter(found.traffic_bytes["data"].values())) for found in (synced, late)]
    assert moved[0] - moved[1] == pytest.approx(3 * 4 * (32 * 218_112_000 + ENDS) * 7 / 8, rel=1e-3)
    assert ledger(job={"sync_each_batch": False}) == ledger()


def test_documents_shorten_attention_alone() -> None:
    """Packed: less compute, the same memory."""
    whole, packed = ledger(), ledger(job={"mean_document_length": 256})
    assert packed.terms_ns["compute"] < whole.terms_ns["compute"]
    assert packed.peak_kib == whole.peak_kib


def test_memory_follows_the_longest_and_time_the_mean() -> None:
    """Sequences of 2048 tokens at most and 512 in the mean: the peak of 2048, the step of 512."""
    mixed = ledger(job={"mean_sequence_length": 512})
    assert mixed.peak_kib == ledger().peak_kib
    assert mixed.terms_ns == ledger(job={"sequence_length": 512}).terms_ns


def test_a_reference_model_stays_and_runs_forward() -> None:
    """DPO: 2 bytes a parameter more, cut or whole, and about a third of the compute."""
    plain, cut = ledger(), ledger(job={"reference_model": "self"})
    whole = ledger(job={"reference_model": "self", "reference_sharded": False})
    assert term(cut, "reference_weights") == pytest.approx(2 * 8_030_261_248 / 8 / 2**30, rel=1e-3)
    assert term(whole, "reference_weights") == pytest.approx(2 * 8_030_261_248 / 2**30, rel=1e-3)
    assert 0.25 < cut.terms_ns["reference_forward"] / plain.terms_ns["compute"] < 0.4


def test_under_adapters_the_base_is_the_reference() -> None:
    """No second copy, the forward all the same."""
    found = ledger(job={"reference_model": "self", "trainable": "lora(16)"})
    assert term(found, "reference_weights") == 0
    assert found.terms_ns["reference_forward"] > 0


def test_a_teacher_keeps_its_logits() -> None:
    """6 bytes a token and entry beside those of the loss; 2 bytes a parameter of its own."""
    teacher = Transformer.preset("llama-3.2-1b")
    found = ledger(job={"reference_model": teacher, "reference_output": "logits"})
    assert term(found, "reference_logits", "forward") == pytest.approx(6 * 2048 * 128_256 / 2**30, rel=1e-3)
    assert term(found, "reference_weights") == pytest.approx(2 * 1_235_814_400 / 8 / 2**30, rel=1e-3)


def test_every_backend_says_why_it_cannot() -> None:
    """A field a backend refuses has a sentence in its data."""
    fields: list[dict[str, Any]] = [
        {"trainable": "lora(8)"}, {"trainable": "qlora(8)"}, {"trainable": 0.5}, {"frozen": ["head"]},
        {"master_weights": False}, {"sync_each_batch": False}, {"optimizer_in_backward": True},
    ]  # fmt: skip
    for name in ("deepspeed", "fsdp", "megatron"):
        known = backend(name)
        for more in fields:
            job = Training.model_validate({"global_batch_size": 1, "sequence_length": 1, **more})
            assert all(known.because[field].count(" ") > 3 for field in known.unable(job))
            assert not known.held_to(job) or known.because["way"].count(" ") > 3


def test_muon_steps_the_matrices_of_layers_and_adamw_the_ends() -> None:
    """One fp32 momentum beside the master copy; embedding and head keep a second (arXiv 2502.16982)."""
    found = ledger(job={"optimizer": "muon"}, **deepspeed(2))
    ends = 2 * 128_256 * 4096 + 4096
    expected = ((4 + 4) * 8_030_261_248 + 4 * ends) / 8
    assert term(found, "optimizer") == pytest.approx(expected / 2**30, rel=1e-3)


def test_the_step_on_the_host_is_the_optimizers() -> None:
    """28 bytes a parameter of the host's memory, eight cards at once; the copies of weights stand apart."""
    node = Cluster.preset("dgx-h100").node
    found = ledger(**deepspeed(3, offload_optimizer="cpu", offload_params="cpu"))
    seconds = 8_030_261_248 / node.cpu_adam_parameters_per_s

    assert found.terms_ns["optimizer"] / 1e9 == pytest.approx(seconds, rel=1e-3)
    assert 0 < found.terms_ns["offload_exposed"] < found.terms_ns["optimizer"]


def test_states_on_nvme_cost_their_reading_and_writing() -> None:
    """12 bytes a parameter read and written, 2 written of weights, at the drives of the whole machine."""
    law = catalogue.host()
    near, far = (
        ledger(**deepspeed(3, offload_optimizer=place, offload_params=place)) for place in ("cpu", "nvme")
    )
    read, written = law.nvme_read_bytes_per_s, law.nvme_write_bytes_per_s
    more = 8_030_261_248 * (12 / read + 14 / written)

    assert (far.terms_ns["optimizer"] - near.terms_ns["optimizer"]) / 1e9 == pytest.approx(more, rel=1e-3)
    assert far.terms_ns["offload_exposed"] > near.terms_ns["offload_exposed"]
    assert far.stages[0].moments_kib == near.stages[0].moments_kib
    assert far.host_node_kib <= near.host_node_kib


def test_nvme_is_offered_to_those_who_ask() -> None:
    """DeepSpeed at ZeRO-3, chosen by name; PyTorch FSDP has none."""
    training = Training(global_batch_size=16, sequence_length=2048)
    small = Request(model="llama-3.2-1b", cluster=Cluster.preset("dgx-h100"), training=training)
    asked = {"choose.backend": "deepspeed", "choose.offload_optimizer": "nvme", "choose.zero_stage": 3}
    found = plan(small.changed(asked))
    assert isinstance(found, Plan)
    assert found.strategy.offload_optimizer == "nvme"
    assert any("NVMe" in notice.message for notice in found.warnings)
    assert not isinstance(plan(small.changed({**asked, "choose.backend": "fsdp"})), Plan)
    node = small.cluster.node.model_copy(update={"nvme_bytes": 10**9})
    tight = small.model_copy(update={"cluster": small.cluster.model_copy(update={"node": node})})
    assert not isinstance(plan(tight.changed(asked)), Plan)
    assert any("NVMe" in breach.reason for breach in check(tight, found.strategy).breaches)


@pytest.mark.parametrize(("optimizer", "state_bytes"), [("adamw", 12), ("lion", 8)])
def test_drives_hold_the_states_of_the_asked_optimizer(optimizer: str, state_bytes: int) -> None:
    """Master copy and moments by the backend's byte recipe: drives of that size do, a byte less does not."""
    training = {"global_batch_size": 16, "sequence_length": 2048, "optimizer": optimizer}
    asked = Request.model_validate(
        {"model": "llama-3.2-1b", "cluster": {"preset": "dgx-h100"}, "training": training}
    )
    need = state_bytes * count(asked.model).total
    known = backend("deepspeed")
    assert bytes_on_drives(asked, known, "nvme", "none") == need
    for size, held in ((need, True), (need - 1, False)):
        node = asked.cluster.node.model_copy(update={"nvme_bytes": size})
        cluster = asked.cluster.model_copy(update={"node": node})
        assert drives_hold(asked.model_copy(update={"cluster": cluster}), known, "nvme", "none") is held
