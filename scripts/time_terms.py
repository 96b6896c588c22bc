"""Write ``docs/terms/time``: a page a term of the step, with a number worked by the ledger.

python scripts/time_terms.py
"""

from __future__ import annotations

import json
from pathlib import Path

from shardwise import Cluster, Ledger, Request, Strategy, Training, price
from shardwise.models.strategy import Stage

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "terms" / "time"


def examples() -> list[tuple[str, Ledger]]:
    """Two priced layouts between which every term appears."""
    stage = Stage(layers=16, recompute_full_layers=4)
    experts = Strategy(
        backend="megatron", software_stack="bridge-moe-hybridep-attention", data_parallel=4,
        tensor_parallel=2, pipeline_parallel=2, context_parallel=2, expert_parallel=4, zero_stage=1,
        shard_group_size=8, sequence_parallel=True, gradient_accumulation_steps=16, gradient_dtype="fp32",
        loss_kernel="megatron", stages=(stage, stage),
    )  # fmt: skip
    whole = Stage(layers=32, recompute_full_layers=32, offloaded_layers=32)
    offloaded = Strategy(
        backend="deepspeed", software_stack="deepspeed-2024", data_parallel=8, zero_stage=3,
        shard_group_size=8, reshard_after_forward=True, offload_optimizer="cpu", offload_params="cpu",
        loss_kernel="hf-eager", stages=(whole,),
    )  # fmt: skip
    mixtral = Request(
        model="mixtral-8x7b",
        cluster=Cluster.preset("dgx-h100", nodes=4),
        training=Training(global_batch_size=64, sequence_length=4096),
    )
    llama = Request(
        model="llama-3.1-8b",
        cluster=Cluster.preset("dgx-h100"),
        training=Training(global_batch_size=8, sequence_length=4096),
    )
    return [
        ("Mixtral 8x7B on 32 H100: tp 2, pp 2, cp 2, ep 4, a quarter recomputed", price(mixtral, experts)),
        ("Llama 3.1 8B on 8 H100: ZeRO-3, optimizer and weights on the host", price(llama, offloaded)),
    ]


def pages() -> dict[str, str]:
    """Pages by file name."""
    told = json.loads((Path(__file__).parent / "time_terms.json").read_text(encoding="utf-8"))
    found, priced = {}, examples()
    for name, term in told.items():
        job, ledger = next((job, ledger) for job, ledger in priced if ledger.terms_ns.get(name))
        share = 100.0 * ledger.terms_ns[name] / ledger.step_ns
        found[f"{name}.md"] = (
            f"# {name}\n\n"
            f"| | |\n|---|---|\n| symbol | {term['symbol']} |\n| unit | seconds a step |\n"
            f"| formula | {term['formula'].replace('|', ' ')} |\n| source | {term['source']} |\n\n"
            f"{term['note']}\n\n"
            f"Worked: {job}: {ledger.terms_ns[name] / 1e9:.4f} s of {ledger.step_ns / 1e9:.4f} s "
            f"({share:.1f} %).\n"
        )
    return found


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for file, text in pages().items():
        (FOLDER / file).write_text(text, encoding="utf-8")
