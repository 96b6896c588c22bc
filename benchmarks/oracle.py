"""The ledger's memory against an FSDP oracle: ``python -m benchmarks.oracle CSV``

The oracle runs one rank of a sharded Llama under fake tensors (torch 2.13) and lets torch's own tracker say
what every byte at the peak is; no fragmentation, no runtime, no side-stream pools. Compared at the moment
that the ledger calls the peak: the total, parameters (resident and gathered), optimizer states. Activations
are compared after the forward pass, with what the loss keeps for its backward.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from shardwise.costs import Ledger, price
from shardwise.hardware import Cluster
from shardwise.inputs import InputError
from shardwise.models import Attention, Block, FeedForward, Run, Stage, Strategy, Training, Transformer
from shardwise.models.recipe import losses
from shardwise.runs.record import Record, read_records, words

from .face import Result, run, table
from .scores import percent

COLUMNS = words(
    """
    model layers hidden heads kv_heads ffn vocab seq micro_batch world reshard_after_forward ac params_gib
    optim_gib total_gib mp kernels loss optimizer tp peak_phase act_after_fwd_gib
    """
)
LOSSES = {"fp32": "eager", "chunked": "chunked-8", "bf16": "megatron"}
STACKS = {
    "gpu flash": "fsdp-eager-2023",
    "eager flash": "fsdp-composite-2023",
    "gpu math": "fsdp-written-out-2023",
}
"""By kernels and attention; all have eager SwiGLU, "eager" no fused norm and no grouped queries either."""
SAVED_BYTES = {"fp32": 4.0, "chunked": 2.0, "bf16": 2.0}
"""Bytes an entry that the loss keeps between the passes: log-softmax, or the logits of all chunks."""
GIB = 2**20
CLOSE_PERCENT = 2.0
"""A total further off has a reason in ``data/oracle_why.json``."""
DATA = Path(__file__).parent / "data"
PARTS = ("total", "params", "optimizer", "activations")
PHASES = {"forward": "fwd_bwd", "backward": "fwd_bwd", "gradients": "fwd_bwd", "step": "optimizer"}


def measure(files: Sequence[str]) -> Result:
    """Errors of every line of the oracle's table."""
    lines = [_line(record) for record in read_records(files[0], COLUMNS)]
    lines.sort(key=lambda line: -abs(line["total"]["error"]))
    beyond = [line["name"] for line in lines if abs(line["total"]["error"]) > CLOSE_PERCENT]
    reasons = json.loads((DATA / "oracle_why.json").read_text(encoding="utf-8"))
    found: Result = {
        "rows": len(lines),
        "lines": lines,
        "beyond": {name: reasons.get(name, "") for name in beyond},
        "unexplained": sum(name not in reasons for name in beyond),
    }
    for part in PARTS:
        errors = [line[part]["error"] for line in lines if line[part]["error"] is not None]
        found[part] = {
            "rows": len(errors),
            "mape": fmean(abs(error) for error in errors) if errors else None,
            "worst": max((abs(error) for error in errors), default=None),
            "bias": fmean(errors) if errors else None,
        }
    return found


def _word(record: Record, column: str, known: dict[str, str]) -> str:
    word = record.text(column)
    if word not in known:
        raise InputError(column, word, record.text("model"), "is not known", legal=sorted(known))
    return known[word]


def _stack(record: Record) -> str:
    kernels = f"{record.text('kernels')} {record.text('attn') or 'flash'}"
    if kernels not in STACKS:
        raise InputError("kernels", kernels, record.text("model"), "is not known", legal=sorted(STACKS))
    return STACKS[kernels]


def _line(record: Record) -> dict[str, Any]:
    cells = {name: int(record.number(name) or 0) for name in COLUMNS[1:10]}
    transformer = _transformer(cells)
    world = cells["world"]
    cluster = Cluster.of_gpus("dgx-h100", world)
    training = Training(global_batch_size=cells["micro_batch"] * world, sequence_length=cells["seq"])
    ledger = price(transformer, training, cluster, [_strategy(record, cells)])[0]
    stage = ledger.stages[0]
    moments = {name: _live(terms) for name, terms in stage.moments_kib.items()}
    peak = max(moments, key=lambda name: sum(moments[name].values()))
    return {
        "name": f"{record.text('model')} x{world} {record.text('reshard_after_forward')} {record.text('ac')}",
        "peak": {
            "predicted": peak,
            "measured": record.text("peak_phase"),
            "same": PHASES[peak] == record.text("peak_phase"),
        },
        "total": _beside(sum(moments[peak].values()), record.number("total_gib")),
        "params": _beside(
            _of(moments[peak], "weights", "gathered_units", "autocast_copies"), record.number("params_gib")
        ),
        "optimizer": _beside(
            _of(moments[peak], "optimizer", "step_copy", "step_temporary"), record.number("optim_gib")
        ),
        "activations": _beside(
            _after_forward(ledger, record.text("loss")), record.number("act_after_fwd_gib")
        ),
    }


def _beside(kib: float, measured: float | None) -> dict[str, float | None]:
    predicted = kib / GIB
    return {
        "predicted": predicted,
        "measured": measured,
        "error": percent(predicted, measured) if measured else None,
    }


def _live(terms: dict[str, int]) -> dict[str, int]:
    return {k: v for k, v in terms.items() if k not in ("runtime", "fragmentation", "stream_pools")}


def _of(terms: dict[str, int], *names: str) -> int:
    return sum(terms.get(name, 0) for name in names)


def _after_forward(ledger: Ledger, loss: str) -> float:
    terms = ledger.stages[0].moments_kib["forward"]
    kept = _of(terms, "activations", "embedding_output", "head_input")
    return kept + SAVED_BYTES[loss] / losses()[LOSSES[loss]].bytes_per_entry * terms.get("logits", 0)


def _strategy(record: Record, cells: dict[str, int]) -> Strategy:
    world, layers = cells["world"], cells["layers"]
    tensor = int(record.number("tp") or 1)
    reshard = record.text("reshard_after_forward") == "true"
    kind = record.text("ac")
    return Strategy(
        backend="fsdp",
        software_stack=_stack(record),
        data_parallel=world // tensor,
        tensor_parallel=tensor,
        zero_stage=3 if reshard else 2,
        shard_group_size=world // tensor,
        reshard_after_forward=reshard,
        sequence_parallel=tensor > 1,
        micro_batch_size=cells["micro_batch"],
        precision="fp32" if record.text("mp") == "fp32" else "bf16",
        gradient_dtype="fp32",
        loss_kernel=_word(record, "loss", LOSSES),
        stages=(
            Stage(
                layers=layers,
                recompute_full_layers=layers if kind == "full" else 0,
                recompute_selective_layers=layers if kind == "selective_op" else 0,
            ),
        ),
    )


def _transformer(cells: dict[str, int]) -> Transformer:
    attention = Attention(
        heads=cells["heads"], kv_heads=cells["kv_heads"], head_dim=cells["hidden"] // cells["heads"]
    )
    block = Block(attention=attention, feed_forward=FeedForward(width=cells["ffn"]))
    return Transformer(
        name="oracle",
        family="llama",
        hidden_size=cells["hidden"],
        vocab_size=cells["vocab"],
        runs=(Run(block=block, layers=cells["layers"]),),
    )


def text(found: Result) -> str:
    """The result as tables."""
    rows = [
        [
            line["name"],
            line["peak"]["predicted"],
            line["peak"]["measured"],
            *(line[part][key] for part in PARTS for key in ("predicted", "measured", "error")),
        ]
        for line in found["lines"]
    ]
    head = ["line", "peak", "oracle's"] + [word for part in PARTS for word in (part, "GiB", "%")]
    parts = [table(head, rows)]
    body = [[part, *(found[part][key] for key in ("rows", "mape", "worst", "bias"))] for part in PARTS]
    parts.append(table(("part", "rows", "mape", "worst", "bias"), body))
    why = table(("further off than 2 %", "why"), list(found["beyond"].items()))
    return "\n\n".join([*parts, why] if found["beyond"] else parts)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    return run((__doc__ or "").splitlines()[0], ["CSV"], measure, text, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
