"""Memory of software that nobody fitted: each rule is of the code that its entry names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from benchmarks.peaks import Peak, Peaks
from shardwise.costs import Ledger, price
from shardwise.costs.needed import Needed
from shardwise.costs.saved_sets import saved_bytes
from shardwise.hardware import Cluster
from shardwise.models import Stage, Strategy, Training, Transformer
from shardwise.models.backend import backend
from shardwise.models.recipe import losses
from shardwise.models.stack import stack, stacks
from shardwise.runs.priced import Run, price_jobs, read_rows
from shardwise.runs.record import Record, read_records
from shardwise.runs.software import software_of
from shardwise.runs.stages import held_layers
from shardwise.runs.ways import way_of_row

KIB = 1024
DATA = Path(__file__).parents[1] / "benchmarks" / "data" / "more_runs.csv"
LLAMA = Transformer.preset("llama-3.1-8b")


def ledger(way: dict[str, Any] | None = None, **knobs: Any) -> Ledger:
    """Llama-3.1 8B on eight cards of 80 GB, one sequence of 4,096 a micro-batch, ZeRO-3."""
    values: dict[str, Any] = {
        "backend": "fsdp",
        "software_stack": "fsdp-compile-2024",
        "loss_kernel": "eager",
        "data_parallel": 8,
        "zero_stage": 3,
        "shard_group_size": 8,
        "reshard_after_forward": True,
        "gradient_dtype": "fp32",
        "stages": (Stage(layers=32, recompute_full_layers=32),),
    }
    strategy = Strategy(**{**values, **knobs})
    batch = strategy.data_parallel * strategy.gradient_accumulation_steps
    training = Training(global_batch_size=batch, sequence_length=4096, **(way or {}))
    return price(LLAMA, training, Cluster.of_gpus("dgx-h100", 8), [strategy])[0]


def term(found: Ledger, moment: str, name: str) -> int:
    """Bytes of a term."""
    return found.stages[0].moments_kib[moment].get(name, 0) * KIB


def row(**cells: str) -> Record:
    """A row of a year in which all of the software existed."""
    return Record({"year": "2025", **cells})


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    """Rows with a peak."""
    records = [record for record in read_records(DATA) if record.text("peak_mem_gib")]
    return price_jobs(read_rows(records)[0])


def errors(runs: Sequence[Run], source: str) -> list[float]:
    """Percent by which each row of a source is off."""
    mine = [run for run in runs if run.job.record.text("source") == source]
    return [100.0 * (run.gib / (run.job.measured_gib or 1.0) - 1.0) for run in mine]


def test_gathered_logits_are_whole_on_each_tensor_rank() -> None:
    """Two tensor ranks halve the entries of a loss on cut logits, not of one on gathered logits."""
    cut: dict[str, Any] = {"data_parallel": 4, "shard_group_size": 4, "tensor_parallel": 2}
    whole = [ledger(loss_kernel="bf16-whole", **knobs) for knobs in ({}, cut)]
    halved = [ledger(loss_kernel="vocab-parallel-fp32", **knobs) for knobs in ({}, cut)]
    entries = 4096 * LLAMA.vocab_size

    assert [term(found, "forward", "logits") for found in whole] == pytest.approx([8 * entries] * 2, abs=KIB)
    assert [term(found, "forward", "logits") for found in halved] == pytest.approx(
        [8 * entries, 4 * entries], abs=KIB
    )


def test_stages_cut_by_cost_give_the_last_one_fewer_layers() -> None:
    """Stage after stage until its share of the parameters is exceeded; Llama-3.1 8B's head is 2.4 layers.

    Over eight stages the head would stand alone: a layer goes to it.
    """
    assert held_layers(LLAMA, 8, 1, "by-cost") == ((5,), (4,), (4,), (5,), (4,), (4,), (5,), (1,))
    assert held_layers(LLAMA, 2, 1, "by-cost") == ((18,), (14,))
    assert held_layers(LLAMA, 4, 1, "by-cost") == ((9,), (9,), (8,), (6,))
    assert held_layers(LLAMA, 4, 1, "even") == ((8,), (8,), (8,), (8,))


@pytest.mark.parametrize("stages", [1, 2, 3, 8, 16, 32])
def test_no_stage_is_empty_however_it_is_cut(stages: int) -> None:
    """Where the shares would leave one without a layer, or chunks alternate, the even cut stands."""
    held = [sum(chunks) for chunks in held_layers(LLAMA, stages, 1, "by-cost")]

    assert len(held) == stages and sum(held) == LLAMA.layers and min(held) >= 1
    assert held_layers(LLAMA, 4, 2, "by-cost") == held_layers(LLAMA, 4, 2, "even")


def test_a_view_keeps_the_product_it_is_of() -> None:
    """Values as a view of one product with queries and keys keep these too: 2 h and 2 kappa more."""
    block = LLAMA.kinds[0]
    packed, apart = (saved_bytes(block, 4096, name)[1] for name in ("composite-packed", "eager"))

    assert packed - apart == 2 * (4096 + 1024)


def test_4_bit_matrices_of_2023_keep_their_inputs() -> None:
    """QLoRA on queries and values: under LitGPT all inputs are kept, under other stacks those of adapters."""
    way: dict[str, Any] = {"trainable": "qlora(8)", "lora_targets": ("q_proj", "v_proj")}
    kept = {"stages": (Stage(layers=32),), "gradient_dtype": "bf16"}
    packed, block = ledger(way, software_stack="litgpt-2023", **kept), LLAMA.kinds[0]
    training = Training(global_batch_size=8, sequence_length=4096, **way)
    needed = Needed.of(training, LLAMA, block)
    some = sum(saved_bytes(block, 4096, "composite-packed", 4096, needed)) * 4096 * 32
    every = sum(saved_bytes(block, 4096, "composite-packed")) * 4096 * 32

    assert not needed.inner and not needed.feed_forward
    assert some < every <= term(packed, "forward", "activations")
    assert term(packed, "forward", "activations") == pytest.approx(every, rel=0.001)


def test_what_a_row_says_of_qlora_is_read_as_of_lora() -> None:
    """The matrices behind "on", with or without the Q."""
    for word in ("LoRA", "QLoRA"):
        record = row(framework="LitGPT", notes=f"{word} rank 8 on query and value (finetune/lora.py)")
        assert way_of_row(record, software_of(record)).fields["lora_targets"] == ["q_proj", "v_proj"]


def test_zero_3_keeps_a_pool_that_live_tensors_do_not_show() -> None:
    """A billion gathered parameters are live; as many again stay with the allocator: reserved alone."""
    found = ledger(
        backend="deepspeed", software_stack="deepspeed-2024", loss_kernel="hf-eager", gradient_dtype="bf16"
    )
    live = 2_000_000_000

    assert term(found, "forward", "stream_pools") == pytest.approx(live, abs=KIB)
    assert term(found, "forward", "gathered_units") > live
    assert (found.view_kib("reserved") - found.view_kib("allocated")) * KIB >= live


def test_gathers_of_offloaded_shards_have_their_pool_too() -> None:
    """FSDP gathers on a stream of its own wherever the shards come from."""
    here, away = ledger(), ledger(offload_params="cpu", offload_optimizer="cpu")

    assert term(here, "step", "stream_pools") == term(away, "step", "stream_pools") > 0


def test_plain_data_parallel_holds_gradients_twice() -> None:
    """Buckets of 4 N beside fp32 gradients and 2 N of copies in the passes; 16-bit weights need no copy."""
    shards: dict[str, Any] = {"zero_stage": 0, "shard_group_size": 1, "reshard_after_forward": False}
    mixed, pure = ledger(**shards), ledger({"master_weights": False}, **shards, gradient_dtype="bf16")
    parameters = term(mixed, "step", "weights") / 4

    assert term(mixed, "step", "buckets") == pytest.approx(4 * parameters, rel=1e-6)
    assert term(mixed, "forward", "autocast_copies") == pytest.approx(2 * parameters, rel=1e-6)
    assert term(mixed, "step", "autocast_copies") == term(pure, "forward", "autocast_copies") == 0
    assert term(mixed, "forward", "gathered_units") == 0
    assert term(pure, "step", "buckets") == term(pure, "step", "gradients") > 0


def test_hugging_face_code_is_the_same_under_either_backend() -> None:
    """What its layers keep is a matter of the model code; FSDP with tensor parallel runs it uncompiled."""
    cut = backend("fsdp").stack_for(2)

    assert stack(cut).activation_set == stack(backend("deepspeed").default_stack).activation_set
    found = [software_of(row(framework="Transformers FSDP", year=year)).stack for year in ("2023", "2025")]
    assert found[0] == cut and stack(found[1]).activation_set == stack(cut).activation_set


def test_hosts_since_2024_launch_hugging_face_code_faster() -> None:
    """fsdp_qlora's train.py runs torch 2.2 whatever the year of its table; products are as fast as before."""
    names = {
        cells: software_of(row(framework=cells[0], year=cells[1])).stack
        for cells in (
            ("HF Trainer", "2024"),
            ("HF Accelerate", "2023"),
            ("PyTorch FSDP + bitsandbytes", "2024"),
        )
    }
    new, old, pinned = names.values()
    assert stack(pinned).host_launch_seconds == stack(old).host_launch_seconds
    assert stack(new).host_launch_seconds < stack(old).host_launch_seconds
    assert stack(new).gemm_factor == stack(old).gemm_factor


def test_hugging_face_code_says_what_is_fused() -> None:
    """Attention as products keeps scores, fused kernels keep less; GPT-2 of 2021 writes its GELU out."""

    def kept(**cells: str) -> str:
        return stack(software_of(row(framework="HF Transformers", **cells)).stack).activation_set

    assert kept(year="2024", flash_attention="0") == "hf-written-out"
    assert kept(year="2025", notes="fused kernels of the plugin") == "fused-expanded"
    assert kept(year="2021", vocab="50257") == "hf-gpt2" != kept(year="2021", vocab="32000")


def test_a_4_bit_base_prepared_by_peft_has_hidden_states_in_fp32() -> None:
    """prepare_model_for_kbit_training casts embedding and norms; FSDP casts back, LLaMA-Factory none."""

    def kept(framework: str, notes: str) -> str:
        return stack(software_of(row(framework=framework, year="2024", notes=notes)).stack).full_set

    assert kept("HF Transformers (TRL, PEFT)", "QLoRA rank 16") == "input-fp32"
    assert kept("HF Transformers (TRL, PEFT)", "LoRA rank 16") == "input"
    assert kept("HF Trainer, PyTorch FSDP", "QLoRA rank 16") == "input"
    assert kept("HF Transformers (LLaMA-Factory)", "QLoRA rank 16") == "input"


def test_kernels_written_in_cuda_put_gradients_in_place_of_logits() -> None:
    """llm.c's classifier reads 16-bit logits twice and writes once; its host has no interpreter."""
    found = software_of(row(framework="llm.c (CUDA)", year="2024"))
    kernel, mine = losses()[found.loss_kernel], stack(found.stack)

    assert (kernel.bytes_per_entry, kernel.moved_bytes_per_entry) == (2, 2 + 2 + 2)
    assert mine.host_launch_seconds < stack("fsdp-compile-2024").host_launch_seconds / 4


def test_notes_name_the_generation_of_attention() -> None:
    """FlashAttention 3 is newer than torch's own kernels."""
    kernels = [
        stack(software_of(row(framework="nanochat", year="2026", notes=notes)).stack).attention_kernel
        for notes in ("torch.compile; FlashAttention 3", "torch.compile")
    ]
    assert kernels == ["flash3", "flash2"]


def test_unknown_software_is_priced_as_if_nothing_were_fused() -> None:
    """It needs at least what the known stack of its backend does, and is a middle one, not the best."""
    factors = [each.gemm_factor for each in stacks().values()]
    for cells, usual in (({}, "fsdp-compile-2024"), ({"pp": "2"}, "three-dimensional-2024")):
        found = software_of(row(framework="homegrown", **cells))
        sizes = [
            sum(saved_bytes(LLAMA.kinds[0], 4096, stack(name).activation_set)[:2])
            for name in (found.stack, usual)
        ]
        assert sizes[0] > sizes[1]
        assert min(factors) < stack(found.stack).gemm_factor <= max(factors)
        assert stack(found.stack).gemm_factor >= stack(usual).gemm_factor


def test_internevo_has_two_optimizers() -> None:
    """ZeRO-1 steps one flat tensor, FSDP a tensor a unit: 30 bytes a parameter against 24."""
    plain: dict[str, Any] = {
        "zero_stage": 1,
        "reshard_after_forward": False,
        "backend": "megatron",
        "loss_kernel": "megatron",
    }
    flat = ledger(software_stack="internevo-zero-2024", **plain)
    units = ledger(software_stack="internevo-fsdp-2024")
    parts = ("weights", "gradients", "optimizer", "step_copy", "step_temporary")
    sharded = {name: term(units, "step", name) for name in parts}

    assert software_of(row(framework="InternEvo", zero_stage="1")).stack == "internevo-zero-2024"
    assert software_of(row(framework="InternEvo", zero_stage="ZeRO-3")).stack == "internevo-fsdp-2024"
    assert term(flat, "step", "step_copy") == pytest.approx(
        14 / 12 * term(flat, "step", "optimizer"), rel=1e-5
    )
    assert sum(sharded.values()) == pytest.approx(24 / 2 * sharded["weights"], rel=1e-5)


def test_a_guessed_micro_batch_is_no_evidence() -> None:
    """Rows whose micro-batch or recompute a rule filled say nothing of how far the ledger is off."""
    records = [
        record for record in read_records(DATA) if record.text("source") in ("colossalai_readme", "ms_swift")
    ]
    peaks = [Peak.of(run) for run in price_jobs(read_rows(records)[0]) if run.job.measured_gib]
    told = [peak for peak in peaks if not peak.guessed]
    found = Peaks(tuple(peaks)).pool(0.1)

    assert 0 < len(told) < len(peaks)
    assert len(found.logs) == len(told)


@pytest.mark.parametrize(
    ("source", "mean", "lean"),
    [
        ("kempnerforge", 6, 10),
        ("nanotron", 12, 25),
        ("internevo", 13, 22),
        ("answerai_fsdp_qlora", 8, 20),
    ],
)
def test_peaks_of_software_whose_code_was_read(
    runs: list[Run], source: str, mean: float, lean: float
) -> None:
    """Mean error, and the most by which one row needs more than foretold."""
    found = errors(runs, source)

    assert fmean(map(abs, found)) <= mean
    assert min(found) >= -lean


def test_litgpt_on_one_card_is_foretold_to_five_percent(runs: list[Run]) -> None:
    """Fifteen rows of adapters on 16-bit or 4-bit weights, one under autocast, two in flat units of FSDP1."""
    found = errors(runs, "litgpt")

    assert all(abs(error) <= 5 for error in found[:15])
    assert all(abs(error) <= 10 for error in found[15:])
