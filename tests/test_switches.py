"""Switches of a published row's software: what notes and columns say, which stack, and what it changes."""

from __future__ import annotations

from typing import Any

import pytest

from shardwise.costs import Ledger, price
from shardwise.costs.law import law
from shardwise.costs.saved_sets import saved_bytes
from shardwise.hardware import Cluster
from shardwise.models import Stage, Strategy, Training, Transformer
from shardwise.models.stack import stack, stacks
from shardwise.runs.record import COLUMNS, Record
from shardwise.runs.rows import read_row
from shardwise.runs.settings import completed
from shardwise.runs.software import software_of
from shardwise.runs.switches import Switches

LLAMA = Transformer.preset("llama-3.1-8b")
LLAMA2_70B = {
    "id": "row", "year": "2025", "gpu": "GB200", "gpus": "8", "gpus_per_node": "4", "layers": "80",
    "hidden": "8192", "heads": "64", "kv_heads": "8", "ffn_hidden": "28672", "ffn_type": "swiglu",
    "vocab": "32000", "tied_embeddings": "0", "seq_len": "8192", "global_batch_seqs": "8",
    "micro_batch_seqs": "1",
    "tp": "1", "pp": "1", "cp": "1", "zero_stage": "0", "recompute": "none", "precision": "fp8",
    "notes": "LoRA rank 16 on qkv and o_proj (attention)",
}  # fmt: skip


def row(**cells: str) -> Record:
    """A row of which only some cells are said."""
    return Record(dict.fromkeys(COLUMNS, "") | cells)


def ledger(name: str, hidden: int | None = None, **way: Any) -> Ledger:
    """Llama-3.1 8B on eight H100, one sequence a micro-batch, under a stack of Megatron."""
    strategy = Strategy(
        backend="megatron", software_stack=name, loss_kernel="megatron", data_parallel=8, zero_stage=1,
        shard_group_size=8, gradient_dtype="bf16", stages=(Stage(layers=32),),
        precision="fp8" if "fp8" in name else "nvfp4" if "nvfp4" in name else "bf16",
    )  # fmt: skip
    training = Training(global_batch_size=8, sequence_length=hidden or 4096, **way)
    return price(LLAMA, training, Cluster.of_gpus("dgx-h100", 8), [strategy])[0]


@pytest.mark.parametrize(
    ("notes", "experts", "name"),
    [
        ("CUDA graphs; FP8 attention", "", "step-attention8"),
        ("CUDA graph a layer", "", "step"),
        ("no CUDA graph; FP8 gate inputs", "", "gate8"),
        ("attention in 16 bit; TP traffic not overlapped", "", ""),
        ("HybridEP with 32 SMs, expert traffic overlapped; CUDA graphs of router and preprocess", "128",
         "hybridep-overlap-router"),
        ("HybridEP, CUDA graph of the whole iteration", "128", "hybridep-overlap-step"),
        ("alltoall dispatcher without overlap, no CUDA graphs", "128", "alltoall"),
        ("DeepEP, CUDA graphs", "128", "deepep-overlap-attention"),
        ("recompute not told", "128", "hybridep-overlap-attention"),
    ],
)  # fmt: skip
def test_notes_win_over_a_recipe(notes: str, experts: str, name: str) -> None:
    """What is said of exchange, overlap, graphs and operands; what is not said stays the recipe's."""
    recipe = Switches("hybridep", True, "attention") if experts else Switches()
    assert recipe.told(row(experts=experts, notes=notes)).name == name


def test_columns_go_before_notes() -> None:
    """8 bits of the attention or the gate, and what graphs hold."""
    said = row(attention_bits="8", gate_bits="8", cuda_graphs="step", notes="no CUDA graphs")
    assert Switches().told(said).name == "step-attention8-gate8"


def test_the_nearest_stack_is_taken_where_none_has_all() -> None:
    """Operands of 8 bits go first, then graphs, then overlap."""
    known = ("family", "family-deepep", "family-deepep-overlap")
    wanted = Switches("deepep", True, "step", 8)
    assert wanted.stacks("family", known) == ("family-deepep-overlap", "family-deepep")
    assert wanted.stacks("other", known) == ()


def test_rows_without_experts_take_the_switched_stack_of_their_rule() -> None:
    """Where the catalogue has it; the plain one is no stand-in elsewhere."""
    graphs = software_of(row(framework="Megatron-Bridge", year="2026", notes="CUDA graphs; FP8 attention"))
    plain = software_of(row(framework="LitGPT", year="2024", notes="CUDA graphs"))
    assert graphs.stack == "megatron-bridge-2025-step-attention8" and not graphs.stand_ins
    assert plain.stack == "litgpt-2023" and not plain.stand_ins


@pytest.mark.parametrize(
    ("framework", "context", "stack_name"),
    [
        ("NeMo Framework 25.04", "8", "nemo-fp8-weights-2025-step-attention8"),
        ("NeMo Framework 25.04", "2", "nemo-fp8-weights-2025-attention8"),
        ("NeMo Framework 25.04", "1", "nemo-fp8-weights-2025-attention8-gate8"),
        ("NeMo Framework 24.09", "2", "nemo-2024"),
        ("NeMo Framework (ROCm)", "1", "nemo-2024"),
    ],
)
def test_rounds_of_mlperf_run_as_their_configurations_say(
    framework: str, context: str, stack_name: str
) -> None:
    """Graphs with eight context ranks, 8-bit gates with one, 8-bit attention in all of NeMo 25.04."""
    found = software_of(completed(row(**{**LLAMA2_70B, "framework": framework, "cp": context}))[0])
    assert found.stack == stack_name


@pytest.mark.parametrize(
    ("framework", "precision", "said", "bytes_each"),
    [
        ("NeMo Framework 24.09", "fp8", "weights in FP8 (fp8_params)", 1.0),
        ("NeMo Framework 25.09", "nvfp4", "the frozen base is loaded in NVFP4", 1.125),
        ("NeMo Framework 24.09", "fp8", "weights in 16 bits", 2.0),
    ],
)
def test_a_frozen_base_is_held_in_its_own_precision(
    framework: str, precision: str, said: str, bytes_each: float
) -> None:
    """FP8 without a transposed copy: 1 byte; NVFP4 both ways with scales: 2 x (4 + 8/16) bits; else 16."""
    cells = {"framework": framework, "precision": precision, "notes": f"LoRA rank 16 on o_proj; {said}"}
    job = read_row(row(**{**LLAMA2_70B, **cells}))
    one = job.candidates[0]
    held = price(job.transformer, one.training, job.cluster, [one.strategy])[0].stages[0].moments_kib["step"]
    assert held["frozen_weights"] * 1024 / 68.98e9 == pytest.approx(bytes_each, rel=0.01)


def test_graphs_of_a_step_leave_the_host_little_of_any_layer() -> None:
    """128 tokens: the host sets the pace of a plain step, and `graphed_step_left` of its work remains."""
    plain, graphs = (
        ledger(name, 128).step_ns for name in ("megatron-bridge-2025", "megatron-bridge-2025-step")
    )
    assert graphs < plain and law("graphed_step_left") < 0.5
    long = [ledger(name).step_ns for name in ("megatron-bridge-2025", "megatron-bridge-2025-step")]
    assert 1.0 - long[1] / long[0] < 1.0 - graphs / plain


def test_8_bit_attention_shortens_the_core_alone() -> None:
    """By `eight_bit_attention`, in both passes."""
    plain, eight = (
        ledger(name).step_ns for name in ("megatron-bridge-2025", "megatron-bridge-2025-attention8")
    )
    assert eight < plain


def test_8_bit_gate_inputs_halve_two_widths() -> None:
    """4 bytes of gate and up become 2; a feed-forward without a gate keeps 1 of 2."""
    block = LLAMA.kinds[0]
    wide, narrow = (saved_bytes(block, 4096, name) for name in ("fused", "fused-gate8"))
    assert wide[1] - narrow[1] == 2 * block.feed_forward.width and wide[0] == narrow[0]


def test_switched_stacks_differ_in_their_switch_alone() -> None:
    """A stack `F-S` has every fitted constant of F."""
    constants = ("gemm_factor", "attention_factor", "memory_factor", "host_launch_seconds", "tensor_exposed")
    for name in ("nemo-2024", "nemo-fp8-weights-2025", "megatron-bridge-2025"):
        for other in (one for one in stacks() if one.startswith(f"{name}-")):
            assert all(getattr(stack(other), word) == getattr(stack(name), word) for word in constants)
