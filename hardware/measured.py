"""Choice of the measured curve of products and attention that serves a card.

A card without measurements is served by a sister card (``stand_ins.json``) or by its link rates; the
answer then has grade A and says so in its `source`. Answers are cached.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from ..inputs import InputError
from .curves import AttentionCurve, GemmCurve, SpeedRow
from .facts import facts
from .gpu import Gpu
from .host import host
from .named import gpu


@cache
def gemm_curve(card: str | Gpu, precision: str) -> GemmCurve:
    """Matrix products of `card` in `precision` (a word of ``gpu.PEAK_FIELDS``).

    Raises `InputError` where the card lacks that arithmetic.
    """
    own = card_of(card)
    if own.peak_flops_per_s(precision) is None:
        reason = f"{own.name} has no such arithmetic"
        raise InputError("precision", precision, "precision", reason, legal=own.precisions)
    data = facts("gemm")
    words = (precision, data["precision_fallback"].get(precision, precision))
    order = [(name, word) for names in (_sisters(own), _others()) for word in words for name in names]
    found = {(row["gpu"], row["precision"]): row for row in reversed(data["rows"])}
    for row in [found[key] for key in order if key in found][:1]:
        measured = row["gpu"] == own.name and row["precision"] == precision and row["grade"] == "M"
        source = row["source"] if row["gpu"] == own.name else f"as {row['gpu']}: {row['source']}"
        fresh = {"gpu": own.name, "precision": precision, "grade": "M" if measured else "A", "source": source}
        power = {"sustained_flops_per_s": _sustained(own, precision, words), **data["power_settles"]}
        return GemmCurve.listed(**{**row, **fresh, **power, "hbm_share": data["hbm_share"]})
    raise InputError("precision", precision, "precision", f"no curve serves {own.name}")


def _sustained(own: Gpu, precision: str, words: tuple[str, ...]) -> float | None:
    """FLOP/s that the board's power allows under steady load; None where no energy of a FLOP is known.

    A card of the architecture was measured. With more watts for each FLOP of its peak than that one a card
    stands so much more of its peak; with fewer the cube root less, since voltage falls with the clock and
    power with clock and voltage squared. Of the two laws each is the one that promises more speed.

    >>> round(_sustained(gpu("L4"), "bf16", ("bf16",)) / 1e12)  # 52 to 59 measured, by none of the fits seen
    56
    """
    for row in facts("gemm")["energy"]:
        seen = gpu(row["gpu"])
        if seen.arch != own.arch or row["precision"] not in words or own.tdp_watts is None:
            continue
        watts, peak = seen.tdp_watts or 0.0, seen.peak_flops_per_s(row["precision"]) or 0.0
        own_peak = own.peak_flops_per_s(precision) or 0.0
        budget = own.tdp_watts / own_peak * peak / watts
        return float(own_peak * watts / row["joules_per_flop"] / peak * max(budget, budget ** (1 / 3)))
    return None


@cache
def attention_kernel(card: str | Gpu, generation: str) -> str:
    """The measured kernel that stands for a generation (flash2, flash3, flash4) on `card`.

    A generation made for other architectures falls back on flash2: newer software brings an older card no
    newer kernel.
    """
    own, made = card_of(card), facts("attention")["generations"]
    served = made[generation] if own.arch in made[generation]["archs"] else made["flash2"]
    measured = {row["kernel"] for row in _attention_rows(own)}
    return next(str(kernel) for kernel in served["kernels"] if kernel in measured)


@cache
def attention_curve(card: str | Gpu, kernel: str | None = None) -> AttentionCurve:
    """Fused attention of `card` by a measured kernel (prefill, flash2, flash3, flash4, cudnn), else flash2's.

    The passes that were not measured on the nearest card with that kernel are derived from those that were.
    """
    own, data = card_of(card), facts("attention")
    mine = _attention_rows(own)
    wanted = attention_kernel(own, "flash2") if kernel is None else kernel
    known = {row["kernel"] for row in mine}
    if wanted not in known:
        raise InputError("kernel", wanted, "kernel", f"is not measured for {own.name}", legal=sorted(known))
    nearest_card = next(row["gpu"] for row in mine if row["kernel"] == wanted)
    mine = [row for row in mine if row["gpu"] == nearest_card]
    forward, both = (_speed_rows(own, mine, wanted, passes) for passes in ("forward", "forward_backward"))
    ratio, share = data["backward_flops_ratio"], data["backward_share"]
    joint = (1.0 + ratio) / (1.0 + ratio / share)
    both = both or _scaled(forward, joint, "derived from forward")
    forward = forward or _scaled(both, 1.0 / joint, "derived from forward+backward")
    rows = forward + both
    measured = all(row["gpu"] == own.name and "derived" not in row["source"] for row in rows)
    return AttentionCurve.listed(
        gpu=own.name,
        forward=[_speed_row(row) for row in forward],
        forward_backward=[_speed_row(row) for row in both],
        short_exponent=data["short_exponent"],
        small_head_dim=data["small_head_dim"],
        grade="M" if measured else "A",
        source="; ".join(sorted({f"{row['gpu']}: {row['source']}" for row in rows})),
    )


@cache
def p2p_bytes_per_s(card: str | Gpu) -> float:
    """Rate of one card writing to one other of its machine, one direction.

    Measured on four cards; else a share of the link, or of PCI Express where there is none.
    """
    own, data = card_of(card), facts("collectives")
    for row in data["p2p"]:
        if row["gpu"] == own.name:
            return float(row["bytes_per_s"])
    if own.joins(2):
        return float(data["p2p_share"] * min(own.nvlink_bytes_per_s, own.peer_bytes_per_s or float("inf")))
    return host().collective_bytes_per_s(own.pcie_generation)


def card_of(card: str | Gpu) -> Gpu:
    return card if isinstance(card, Gpu) else gpu(card)


def _sisters(own: Gpu) -> tuple[str, ...]:
    """Whose kernel measurements serve `own`: itself, its stand-in, that of its architecture."""
    data = facts("stand_ins")
    names = (own.name, data["kernels_by_gpu"].get(own.name), data["kernels_by_arch"].get(own.arch))
    return tuple(dict.fromkeys(name for name in names if name))


def _others() -> tuple[str, ...]:
    """Who serves a card without sisters, best first."""
    return tuple(facts("stand_ins")["kernels_else"]["gpus"])


def _attention_rows(own: Gpu) -> list[dict[str, Any]]:
    """Measured attention of `own` and its sisters, nearest first; of the plainest card where none has any."""
    rows = facts("attention")["rows"]
    known = {row["gpu"] for row in rows}
    names = [name for name in _sisters(own) if name in known] or _others()[:1]
    return [row for name in names for row in rows if row["gpu"] == name]


def _speed_rows(own: Gpu, rows: list[dict[str, Any]], kernel: str, passes: str) -> list[dict[str, Any]]:
    """Rows of a kernel's passes on the nearest card that has any, scaled by the ratio of 16-bit peaks."""
    met = [row for row in rows if (row["kernel"], row["passes"]) == (kernel, passes)]
    names = dict.fromkeys(row["gpu"] for row in met)
    name = next(iter(names), own.name)
    factor = 1.0 if name == own.name else _peak(own) / _peak(gpu(name))
    return _scaled([row for row in met if row["gpu"] == name], factor, "")


def _peak(card: Gpu) -> float:
    return card.bf16_flops_per_s or card.fp16_flops_per_s or card.tf32_flops_per_s or 1.0


def _scaled(rows: list[dict[str, Any]], factor: float, note: str) -> list[dict[str, Any]]:
    return [
        {
            **row,
            "tflops_per_s": [speed * factor for speed in row["tflops_per_s"]],
            "source": f"{row['source']}, {note}" if note else row["source"],
        }
        for row in rows
    ]


def _speed_row(row: dict[str, Any]) -> SpeedRow:
    speeds = [speed * 1e12 for speed in row["tflops_per_s"]]
    return SpeedRow.listed(head_dim=row["head_dim"], lengths=row["lengths"], flops_per_s=speeds)
