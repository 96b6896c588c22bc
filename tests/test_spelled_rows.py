"""A row is read however its cells are spelled; what is nonsense is refused with a reason, never a crash."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardwise.hardware import gpu, gpu_names
from shardwise.models import Transformer
from shardwise.runs.cards import card_of
from shardwise.runs.links import fabric_of, network_of
from shardwise.runs.priced import price_jobs, read_rows
from shardwise.runs.record import COLUMNS, Record
from shardwise.runs.refusal import Refused
from shardwise.runs.rows import Job, read_row

WHOLE = dict.fromkeys((*COLUMNS, "intra_link", "params_b", "tflops_per_gpu", "tflops_kind"), "") | {
    "id": "made-001", "source": "made", "year": "2024", "gpu": "H100-80GB-SXM", "gpus": "16",
    "gpus_per_node": "8", "framework": "Megatron-LM", "layers": "32", "hidden": "4096", "heads": "32",
    "kv_heads": "8", "ffn_hidden": "14336", "ffn_type": "swiglu", "vocab": "128256", "tied_embeddings": "0",
    "seq_len": "4096", "global_batch_seqs": "64", "micro_batch_seqs": "1", "tp": "2", "sp": "1", "pp": "2",
    "vpp": "1", "cp": "1", "ep": "1", "dp": "4", "zero_stage": "1", "recompute": "none", "offload": "none",
    "precision": "bf16", "optimizer": "adam", "flash_attention": "1", "grad_accum_dtype": "fp32",
    "step_time_s": "2.5", "peak_mem_gib": "60", "mem_kind": "reserved",
}  # fmt: skip
GARBAGE = (
    "", " ", "N/A", "-", "?", "none", "nan", "inf", "-inf", "-1", "0", "1e999", "1e30", "999999999999", "2.5",
    "two", "1,024", "~64", "8x", "Größe", "漢字", "\x00", "a" * 5000, "[1, 2]", "{}", "=1+1", "1;2", "'",
    '"', "True", "FULL_SHARD", "ZeRO-3", "bf16-mixed", "800Gb/s", "0x0Gb", "100000x400Gb", "1970", "llama",
    "§", "\t", "1_000", "16", "7", "64", "3", "²", "٣", "NVLink", "PCIe", "unfused", "9" * 400,
)  # fmt: skip
"""Cells that someone's spreadsheet may hold."""


def row(**cells: str) -> Record:
    """The whole row with other cells."""
    return Record({**WHOLE, **cells})


def read_or_refused(record: Record) -> Job | None:
    """The job of a row, None where it is refused; a refusal has a code and a sentence."""
    try:
        return read_row(record)
    except Refused as refused:
        assert refused.code and refused.reason and len(refused.reason) < 400
        return None


@pytest.mark.parametrize("column", WHOLE)
def test_any_cell_of_any_column_is_read_or_refused(column: str) -> None:
    """Each piece of garbage in each column; what is read is priced, with a positive step and peak."""
    jobs, refusals = read_rows(row(**{column: text}) for text in GARBAGE)

    assert len(jobs) + len(refusals) == len(GARBAGE)
    assert all(refusal.code and refusal.reason for refusal in refusals)
    for run in price_jobs(jobs):
        assert run.seconds > 0 and run.gib > 0
        assert run.measured_seconds is None or run.measured_seconds > 0


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(sorted(WHOLE)), st.sampled_from(GARBAGE) | st.text(max_size=12), max_size=6
    )
)
def test_several_odd_cells_at_once_are_read_or_refused(cells: dict[str, str]) -> None:
    """Any cells in any columns: a job or a reason."""
    read_or_refused(row(**cells))


@pytest.mark.parametrize("name", gpu_names())
def test_every_card_is_found_by_its_name_without_dashes_and_case(name: str) -> None:
    """The name, its aliases, with spaces, in lower case, with a maker before it."""
    for text in (name, name.lower(), name.replace("-", " "), f"NVIDIA {name}", *gpu(name).aliases):
        assert card_of(text).gpu.name == name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("A100", "A100-SXM-80GB"),
        ("A100 40GB SMX", "A100-SXM-40GB"),
        ("NVIDIA A100-SXM4-80GB", "A100-SXM-80GB"),
        ("A100-PCIE-40GB", "A100-PCIe-40GB"),
        ("A800", "A800-SXM-80GB"),
        ("8x H100 80GB HBM3", "H100-SXM-80GB"),
        ("H100 PCIe", "H100-PCIe-80GB"),
        ("Tesla V100-SXM2-16GB", "V100-SXM2-16GB"),
        ("GeForce RTX 3090", "RTX-3090"),
        ("4090", "RTX-4090"),
        ("RTX A5000 24GB", "RTX-A5000"),
        ("A6000 Ada 48GB", "RTX-6000-Ada"),
        ("GB200 NVL72", "GB200"),
        ("H200", "H200-SXM"),
    ],
)
def test_cards_are_known_by_family_memory_and_form(text: str, name: str) -> None:
    """As people write them."""
    assert card_of(text).gpu.name == name


def test_a_choice_among_cards_is_told() -> None:
    """A size or form left open imputes the column; a size that no card has names its stand-in."""
    assert card_of("A100").imputed and not card_of("A800").imputed
    assert card_of("A100 64GB").stand_ins == ("gpu A100 64GB -> A100-SXM-80GB",)


def test_a_card_left_open_is_that_of_the_authors() -> None:
    """PyTorch's own pages are measured on Meta's H100 of 500 W; a form that is said is another card."""
    page = "github pytorch/torchtitan pull request 778"
    assert card_of("H100", page).gpu.name == "H100-SXM-96GB-HBM2e" and card_of("H100", page).imputed
    assert card_of("H100-80GB-SXM", page).gpu.name == card_of("H100").gpu.name == "H100-SXM-80GB"
    assert card_of("A100", page) == card_of("A100")


@pytest.mark.parametrize("text", ["Abacus-9", "A", "80GB", "RTX 2080 Ti", "GPU", "H999"])
def test_a_card_of_no_known_family_is_refused(text: str) -> None:
    """Never the nearest spelling."""
    with pytest.raises(Refused):
        card_of(text)


@pytest.mark.parametrize(
    ("column", "spelled", "plain"),
    [
        ("precision", "BF16-mixed", "bf16"),
        ("precision", "torch.bfloat16", "bf16"),
        ("recompute", "Full", "full"),
        ("recompute", "disabled", "none"),
        ("zero_stage", "ZeRO-1 (distributed optimizer)", "1"),
        ("zero_stage", "stage 1", "1"),
        ("flash_attention", "FA2", "1"),
        ("sp", "True", "1"),
        ("ffn_type", "SwiGLU", "swiglu"),
        ("tied_embeddings", "no", "0"),
        ("offload", "No", "none"),
        ("global_batch_seqs", "64.0", "64"),
        ("seq_len", "4,096", "4096"),
        ("vocab", "128_256", "128256"),
        ("year", "June 2024", "2024"),
        ("dp", "N/A", "4"),
        ("gpus", "", "16"),
        ("step_time_s", "2500 ms", "2.5"),
        ("peak_mem_gib", "61440 MiB", "60"),
        ("grad_accum_dtype", "float32", "fp32"),
        ("mem_kind", "max_memory_reserved", "reserved"),
        ("experts", "1", "0"),
    ],
)
def test_a_spelling_reads_as_the_plain_word(column: str, spelled: str, plain: str) -> None:
    """Two spellings, one job."""
    one, other = read_row(row(**{column: spelled})), read_row(row(**{column: plain}))

    assert one.candidates == other.candidates and one.transformer == other.transformer
    assert (one.measured_gib, one.view) == (other.measured_gib, other.view)
    assert [one.measured_seconds(c.training) for c in one.candidates] == [
        other.measured_seconds(c.training) for c in other.candidates
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("8x400Gb NDR IB", (8, 50e9)),
        ("8 x 50 GB/s InfiniBand", (8, 50e9)),
        ("3200 Gbps EFA", (1, 400e9)),
        ("1.6Tb/s per node", (1, 200e9)),
        ("200 Gb/s per GPU", (8, 25e9)),
        ("10GbE", (1, 1.25e9)),
        ("HDR InfiniBand", (8, 25e9)),
        ("400G", None),
        ("NVLink", None),
        ("0Gb/s", None),
    ],
)
def test_links_in_the_words_of_their_owners(text: str, found: tuple[int, float] | None) -> None:
    """A count and a rate, a rate a card or a machine, a generation; nothing where no rate is said."""
    assert network_of(text, 8) == found


def test_a_fabric_is_that_of_its_words() -> None:
    """Else the usual one."""
    assert fabric_of("EFA v2", "roce") == "efa"
    assert fabric_of("25 GbE", "infiniband-ndr") == "tcp"
    assert fabric_of("4x100Gb OmniPath", "infiniband-hdr") == "omni-path"
    assert fabric_of("Omni-Path 100", "roce") == "omni-path"
    assert fabric_of("whatever", "infiniband-ndr") == "infiniband-ndr"


@pytest.mark.parametrize(
    ("card", "precision"), [("H100-80GB-SXM", "bf16"), ("V100-SXM2-32GB", "fp16"), ("TITAN RTX", "fp16")]
)
def test_a_blank_precision_is_one_that_the_card_has(card: str, precision: str) -> None:
    """16 bit either way: bf16, fp16 before Ampere; the row counts as imputed."""
    job = read_row(row(gpu=card, precision=""))

    assert {candidate.strategy.precision for candidate in job.candidates} == {precision}
    assert "precision" in job.imputed


@pytest.mark.parametrize(
    ("notes", "rule"),
    [
        ("torch.compile; packed", "any-compiled"),
        ("no torch.compile", "any-since-2024"),
        ("", "any-since-2024"),
    ],
)
def test_software_nobody_knows_is_compiled_where_it_says_so(notes: str, rule: str) -> None:
    """The notes of a row whose framework no rule names decide which layers it is priced with."""
    assert read_row(row(framework="homemade", tp="1", pp="1", dp="16", notes=notes)).rule == rule


@pytest.mark.parametrize(
    ("framework", "year", "stack", "gradients"),
    [
        ("NeMo Megatron (NeMo 1.11)", "2022", "megatron-2022", "fp32"),
        ("NeMo 24.09", "2024", "nemo-2024", "bf16"),
        ("NeMo Framework 25.09", "2025", "megatron-bridge-2025", "bf16"),
        ("NeMo/Megatron-Bridge", "2025", "megatron-bridge-2025", "bf16"),
    ],
)
def test_recipes_of_nvidia_keep_gradients_in_16_bits(
    framework: str, year: str, stack: str, gradients: str
) -> None:
    """Their performance recipes say grad_reduce_in_fp32 = False; NeMo of 2025 has the kernels of Bridge."""
    job = read_row(row(framework=framework, year=year, precision="bf16", grad_accum_dtype=""))
    found = {(one.strategy.software_stack, one.strategy.gradient_dtype) for one in job.candidates}

    assert found == {(stack, gradients)}


@pytest.mark.parametrize(
    ("year", "said", "beside"),
    [("2021", "", False), ("2022", "", False), ("2022", "1", True), ("2025", "", True), ("2025", "0", False)],
)
def test_gradients_are_reduced_beside_the_backward_where_row_or_stack_says_so(
    year: str, said: str, beside: bool
) -> None:
    """Megatron-LM's own DDP of 2021 and 2022 reduced after it; torch's, which a row may name, beside it."""
    job = read_row(row(year=year, overlap_grad_reduce=said, flash_attention="0"))
    assert {one.strategy.overlap_gradient_reduce for one in job.candidates} == {beside}


def test_a_published_shape_brings_the_size_of_its_heads() -> None:
    """Qwen3-32B has heads of 128, which its hidden size over its heads does not give."""
    job = read_row(row(layers="64", hidden="5120", heads="64", ffn_hidden="25600", vocab="151936"))

    assert job.transformer == Transformer.preset("qwen3-32b")


def test_cards_with_a_bridge_stand_as_the_row_says() -> None:
    """Two RTX 3090 on PCI Express alone, or joined."""
    links = {
        said: read_row(
            row(gpu="RTX 3090", gpus="2", gpus_per_node="", tp="1", pp="1", dp="2", intra_link=said)
        )
        for said in ("PCIe, no NVLink", "NVLink bridge")
    }

    assert links["PCIe, no NVLink"].cluster.island_gpus == 1
    assert links["NVLink bridge"].cluster.island_gpus == 2


@pytest.mark.parametrize(
    ("cells", "fields"),
    [
        ({"precision": "bf16-true"}, {"master_weights": False}),
        ({"optimizer": "AdamW, no fp32 copy"}, {"master_weights": False}),
        ({"notes": "LoRA on linear_qkv; rank 8"}, {"lora_targets": ("q_proj", "k_proj", "v_proj")}),
        ({"notes": "LoRA rank 8 on query and value"}, {"lora_targets": ("q_proj", "v_proj")}),
    ],
)
def test_words_of_the_way_are_heard(cells: dict[str, str], fields: dict[str, object]) -> None:
    """Weights without an fp32 copy, and matrices that have adapters."""
    said = {"framework": "LitGPT", "tp": "1", "pp": "1", "dp": "16", "zero_stage": "3", **cells}
    training = read_row(row(**said)).candidates[0].training

    assert {name: getattr(training, name) for name in fields} == fields


def test_layers_recomputed_in_part_are_counted() -> None:
    """10 of 80: a quarter of 32 layers is 8."""
    cells = {"framework": "PyTorch FSDP", "tp": "1", "pp": "1", "dp": "16", "zero_stage": "3"}
    job = read_row(row(recompute="selective", notes="8 of 32 layers recomputed", **cells))

    assert job.candidates[0].strategy.stages[0].recompute_full_layers == 8


@pytest.mark.parametrize(
    ("framework", "stage", "word", "away"),
    [
        ("HF Trainer + DeepSpeed", "3", "params", ("none", "cpu")),
        ("HF Trainer + DeepSpeed", "3", "optimizer", ("cpu", "none")),
        ("HF Trainer + DeepSpeed", "3", "both", ("cpu", "cpu")),
        ("HF Trainer + DeepSpeed", "2", "params", ("cpu", "none")),
        ("PyTorch FSDP", "3", "params", ("cpu", "cpu")),
    ],
)
def test_parameters_go_to_the_host_alone_where_they_can(
    framework: str, stage: str, word: str, away: tuple[str, str]
) -> None:
    """DeepSpeed's stage 3 offloads them without the optimizer; CPUOffload of FSDP takes the states along."""
    cells = {"framework": framework, "tp": "1", "pp": "1", "dp": "16", "zero_stage": stage, "offload": word}
    strategy = read_row(row(**cells)).candidates[0].strategy

    assert (strategy.offload_optimizer, strategy.offload_params) == away
    assert all(one.offloaded_layers == one.layers for one in strategy.stages)
