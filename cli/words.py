"""Numbers and strategies in words, units said."""

from __future__ import annotations

from collections.abc import Mapping

from ..inputs.quantity import gib, gibs
from ..models import Strategy, Training, Transformer
from ..models.backend import usually_overlapped
from ..models.schedule import usual_schedule
from ..models.work import parameters
from ..plans import MemoryReport, Request

SHORT = {
    "tensor_parallel": "tp",
    "pipeline_parallel": "pp",
    "data_parallel": "dp",
    "context_parallel": "cp",
    "expert_parallel": "ep",
    "expert_tensor_parallel": "etp",
}
"""Short names of the degrees, outermost words of the field."""


def seconds(value: float) -> str:
    """A time in the unit that suits it.

    >>> seconds(61.42), seconds(0.0123), seconds(0)
    ('61.4 s', '12.3 ms', '0 s')
    """
    if value == 0:
        return "0 s"
    if value >= 0.9995:
        return f"{value:,.2f} s" if value < 10 else f"{value:,.1f} s"
    return f"{value * 1e3:.1f} ms" if value >= 1e-3 else f"{value * 1e6:.1f} us"


def span(low: float, high: float) -> str:
    """Two times in one unit with equally many digits, three of the lower one.

    >>> span(2.8, 3.761), span(0.0821, 0.11)
    ('2.80-3.76 s', '82.1-110.0 ms')
    """
    scale, unit = (1.0, "s") if high >= 0.9995 else (1e3, "ms")
    digits = 2 if low * scale < 10 else 1 if low * scale < 100 else 0
    return f"{low * scale:,.{digits}f}-{high * scale:,.{digits}f} {unit}"


def slower(percent: float) -> str:
    """A loss in words: two digits where one would say 0.0, and equality as such.

    >>> slower(2.61), slower(-0.013), slower(0.0)
    ('2.6 % slower', '0.013 % faster', 'as fast')
    """
    if percent == 0:
        return "as fast"
    size = abs(percent)
    told = f"{size:.1f}" if size >= 0.05 else f"{size:.2g}"
    return f"{told} % {'slower' if percent > 0 else 'faster'}"


def quoted(text: str) -> str:
    """`text` as one word of a shell.

    >>> quoted("rules=[]")
    "'rules=[]'"
    """
    return "'" + text.replace("'", "'\\''") + "'"


def number(value: float) -> str:
    """A count with separators, or its three leading digits from a million on.

    >>> number(8192), number(8_030_261_248)
    ('8,192', '8.03e9')
    """
    for power in (12, 9, 6):
        if value >= 10**power:
            return f"{value / 10**power:.3g}e{power}"
    return f"{value:,.0f}"


def share(value: float, digits: int = 0) -> str:
    """A share in percent.

    >>> share(0.4785, 1), share(0.5)
    ('47.9 %', '50 %')
    """
    return f"{100 * value:.{digits}f} %"


def rate(bytes_per_s: float) -> str:
    """A bandwidth in GB/s, one direction."""
    return f"{bytes_per_s / 1e9:,.4g} GB/s"


def plural(count: int, noun: str) -> str:
    """`count` of `noun`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def job(request: Request) -> str:
    """Model, cluster and batch of a request in one sentence."""
    cluster, training = request.cluster, request.training
    where = f"{cluster.told} ({plural(cluster.gpus, 'card')})"
    batch = f"{plural(training.global_batch_size, 'sequence')} of {lengths(training)}"
    return f"{request.model.name} on {where}, {batch}"


def lengths(training: Training) -> str:
    """Tokens of a sequence: the longest, the mean, those of a packed document."""
    told = f"{training.sequence_length:,} tokens"
    if training.mean_sequence_length:
        told += f" at most, {training.mean_sequence_length:,} in the mean"
    return told + (
        f", documents of {training.mean_document_length:,}" if training.mean_document_length else ""
    )


def trained(training: Training, model: Transformer) -> str:
    """What is trained and what is frozen, in one line.

    >>> job = Training(global_batch_size=1, sequence_length=1, trainable="qlora(16)")
    >>> trained(job, Transformer.preset("llama-3.1-8b"))
    'trains 41.9e6 of 8.07e9 parameters: qlora(16) on all-linear; frozen: 1.05e9, and 6.98e9 in 4 bits'
    """
    held, way = parameters(training, model), training.way
    copies = "" if training.master_weights else ", without a master copy"
    reference = training.reference_model
    beside = "" if reference is None else f"; beside it {'itself' if reference == 'self' else reference.name}"
    if model.mtp_layers:
        beside += f"; the last stage ends with {plural(model.mtp_layers, 'layer')} for further tokens (MTP)"
    if held.trained == held.total:
        return f"trains all {number(held.total)} parameters with {training.optimizer}{copies}{beside}"
    kind = f"{way.written} on {', '.join(training.lora_targets)}" if way.adapts else f"share {way.share:g}"
    kind = f"all but {', '.join(training.frozen)}" if training.frozen and way.kind == "all" else kind
    kind = "all but the frozen towers" if way.kind == "all" and not training.frozen else kind
    packed = f", and {number(held.quantised)} in 4 bits" if held.quantised else ""
    return (
        f"trains {number(held.trained)} of {number(held.total)} parameters: {kind}{copies}; "
        f"frozen: {number(held.frozen)}{packed}{beside}"
    )


def knobs(strategy: Strategy) -> list[str]:
    """The choices of a strategy, those at rest left out."""
    words = [strategy.backend, f"zero {strategy.zero_stage}"]
    for field, short in SHORT.items():
        degree = getattr(strategy, field)
        if degree > 1 or field in ("tensor_parallel", "pipeline_parallel", "data_parallel"):
            words.append(f"{short} {degree}")
    if strategy.context_parallel_kind not in ("none", "ring"):
        inner = f"ulysses {strategy.ulysses_group_size} + ring"
        kind = strategy.context_parallel_kind.replace("_", "-")
        words.append(inner if kind == "ulysses+ring" else kind)
    if (
        strategy.zero_stage
        and strategy.shard_group_size != strategy.data_parallel * strategy.context_parallel
    ):
        words.append(f"shard group {strategy.shard_group_size}")
    if strategy.secondary_shard_group_size > 1:
        words.append(f"hpZ {strategy.secondary_shard_group_size}")
    usual_overlap = usually_overlapped(strategy)
    words += [name.replace("_", " ") for name, on in usual_overlap.items() if on < getattr(strategy, name)]
    words += [
        f"no {name.replace('_', ' ')}" for name, on in usual_overlap.items() if on > getattr(strategy, name)
    ]
    if strategy.virtual_pipeline > 1:
        words.append(f"virtual pipeline {strategy.virtual_pipeline}")
    usual = usual_schedule(strategy.pipeline_parallel, strategy.virtual_pipeline)
    if strategy.pipeline_schedule != usual:
        words.append(f"schedule {strategy.pipeline_schedule}")
    words += [
        f"micro-batch {strategy.micro_batch_size}",
        f"accumulation {strategy.gradient_accumulation_steps}",
        f"recompute {recomputed(strategy)}",
        f"offload {offload(strategy)}",
        f"{strategy.precision} ({strategy.gradient_dtype} gradients)",
    ]
    return words


def recomputed(strategy: Strategy) -> str:
    """How layers are recomputed, and how many where not all are alike."""
    kinds = {
        "full": sum(stage.recompute_full_layers for stage in strategy.stages),
        "selective": sum(stage.recompute_selective_layers for stage in strategy.stages),
    }
    told = [f"{kind} on {count}" for kind, count in kinds.items() if 0 < count < strategy.layers]
    return f"{', '.join(told)} of {strategy.layers} layers" if told else strategy.recompute


def offload(strategy: Strategy) -> str:
    """What lives in host memory, in a word or two."""
    held = [word for word in ("optimizer", "params") if getattr(strategy, f"offload_{word}") != "none"]
    return "+".join(held) or "none"


def risk(memory: MemoryReport) -> str:
    """Which memory of a risky plan is nearly full: that of the worst card, of the host, or both."""
    full = []
    if memory.verdict == "risky":
        full.append(f"the worst card is filled to {100 * memory.total_bytes / memory.usable_bytes:.0f} %")
    if memory.host_verdict == "risky":
        share = 100 * memory.host_bytes_per_node / max(memory.host_usable_bytes, 1)
        full.append(f"host memory is filled to {share:.0f} %")
    return "risky: " + " and ".join(full)


def terms(parts: Mapping[str, float], divisor: float = 1.0, digits: int = 1) -> str:
    """Named parts, largest first, those that round to nothing left out.

    >>> terms({"compute": 48.9, "tensor_comm": 7.2, "context_comm": 0.0})
    'compute 48.9, tensor comm 7.2'
    """
    least = 0.5 * 10**-digits
    shown = sorted((p for p in parts.items() if p[1] / divisor >= least), key=lambda p: (-p[1], p[0]))
    return ", ".join(f"{name.replace('_', ' ')} {value / divisor:,.{digits}f}" for name, value in shown)


__all__ = [
    "gib", "gibs", "job", "knobs", "number", "offload", "plural", "rate", "risk", "seconds", "share", "terms",
    "trained",
]  # fmt: skip
