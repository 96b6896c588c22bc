"""How context ranks of a published row exchange keys and values."""

from __future__ import annotations

import pytest

from shardwise.models.context import CONTEXT_KINDS
from shardwise.runs.exchanges import exchange_named
from shardwise.runs.record import COLUMNS, Record
from shardwise.runs.refusal import Refused
from shardwise.runs.rows import read_row

LLAMA2_70B = {
    "id": "row", "year": "2025", "gpu": "GB200", "gpus": "8", "gpus_per_node": "4", "layers": "80",
    "hidden": "8192", "heads": "64", "kv_heads": "8", "ffn_hidden": "28672", "ffn_type": "swiglu",
    "vocab": "32000", "tied_embeddings": "0", "seq_len": "8192", "global_batch_seqs": "8",
    "micro_batch_seqs": "1", "tp": "1", "pp": "1", "zero_stage": "0", "recompute": "none", "precision": "fp8",
    "notes": "LoRA rank 16 on qkv and o_proj (attention)",
}  # fmt: skip


def row(**cells: str) -> Record:
    """A row of which only some cells are said."""
    return Record(dict.fromkeys(COLUMNS, "") | cells)


@pytest.mark.parametrize(
    ("notes", "kind"),
    [
        ("FP8; context parallelism by all-to-all (cp_comm_type a2a)", "ulysses"),
        ("DeepEP; context parallelism point to point; cross-entropy not fused", "ring"),
        ("cp_comm_type=p2p", "ring"),
        ("context parallel by all-gather", "all_gather"),
        ("alltoall dispatcher, no context parallelism", None),
        ("1F1B overlap of all-to-all", None),
        ("", None),
    ],
)
def test_notes_name_the_exchange(notes: str, kind: str | None) -> None:
    """Only behind "context parallelism" or "cp_comm_type": experts have an all-to-all of their own."""
    assert exchange_named(row(notes=notes)) == kind


def test_a_column_goes_before_the_notes() -> None:
    """Spellings of Megatron Core and names of the ledger; another word is refused."""
    said = {"notes": "cp_comm_type a2a"}
    assert exchange_named(row(context_parallel_kind="p2p", **said)) == "ring"
    assert all(exchange_named(row(context_parallel_kind=kind)) == kind for kind in CONTEXT_KINDS[1:])
    with pytest.raises(Refused, match="context_parallel_kind = sideways"):
        exchange_named(row(context_parallel_kind="sideways"))


@pytest.mark.parametrize(
    ("framework", "context", "kind"),
    [
        ("NeMo Framework 25.04", "8", "ulysses"),
        ("NeMo Framework 24.09", "8", "ring"),
        ("NeMo Framework 25.04", "1", "none"),
    ],
)
def test_llama_2_70b_of_nemo_25_exchanges_heads(framework: str, context: str, kind: str) -> None:
    """Its MLPerf configuration says a2a, that of the year before nothing; one rank exchanges nothing."""
    job = read_row(row(**{**LLAMA2_70B, "framework": framework, "cp": context}))
    assert {one.strategy.context_parallel_kind for one in job.candidates} == {kind}
