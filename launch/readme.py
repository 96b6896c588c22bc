"""The README of an emitted folder: what was decided, how to start, what to see in the first minutes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from ..inputs.quantity import gib, gibs
from ..models.backend import usually_overlapped
from ..models.chunks import in_order, uneven_chunks
from ..models.strategy import Strategy
from ..models.work import parameters
from ..plans.plan import Plan
from .label import label
from .notes import MEANING, notes
from .releases import tested_with
from .shape import shape
from .target import Target
from .written import SHORT


def readme(plan: Plan, target: Target, sums: Mapping[str, str], plan_hash: str) -> str:
    """Markdown; `sums` are the SHA-256 of the other files by name, `plan_hash` is that of the plan."""
    nodes, cards = shape(plan)
    gpu = label(plan.request.cluster.node.gpu.name)
    title = f"# {label(plan.request.model.name)} on {nodes} x {cards} {gpu}, for {target.name}"
    intro = (
        f"Written by shardwise for plan {plan_hash[:SHORT]}. Files of this kind are {target.proof} "
        f"with {tested_with(*target.packages)}."
    )
    parts = [title, intro, _decided(plan), _start(plan, target), _watch(plan), _files(sums)]
    return "\n\n".join(parts) + "\n"


def _decided(plan: Plan) -> str:
    strategy, training = plan.strategy, plan.request.training
    stage = strategy.stages[0]
    rows = [
        ("sequences a step", f"{training.global_batch_size} of {training.sequence_length} tokens"),
        (
            "of them",
            f"{strategy.micro_batch_size} a micro-batch x {strategy.gradient_accumulation_steps} "
            f"accumulated x {strategy.data_parallel} data-parallel",
        ),
        ("ZeRO stage", f"{strategy.zero_stage}, over {strategy.shard_group_size} cards{_second(strategy)}"),
        ("tensor parallel", f"{strategy.tensor_parallel}{_sequence(plan)}"),
        *_axes(plan),
        ("precision", f"{strategy.precision}, gradients {strategy.gradient_dtype}"),
        *_overlap(strategy),
        *_trained(plan),
        ("optimizer", training.optimizer),
        (
            "recomputed layers",
            f"{stage.recompute_full_layers} whole, {stage.recompute_selective_layers} in part, "
            f"of {stage.layers}{' on the first stage' if strategy.pipeline_parallel > 1 else ''}",
        ),
        (
            "offload",
            f"optimizer {strategy.offload_optimizer}, weights {strategy.offload_params}; "
            f"of {sum(each.offloaded_layers for each in strategy.stages)} layers",
        ),
        ("loss, software priced", f"{strategy.loss_kernel}, {strategy.software_stack}"),
        ("status", f"{plan.status}: {plan.proof.statement}"),
    ]
    return "## Decided\n\n" + _table(("choice", "value"), rows)


def _second(strategy: Strategy) -> str:
    """The second copy of the weights, where there is one."""
    size = strategy.secondary_shard_group_size
    return f", a second copy of the weights over each {size} (hpZ)" if size > 1 else ""


def _overlap(strategy: Strategy) -> Iterator[tuple[str, str]]:
    """Rows on communication that runs beside compute, or does not, where that is unusual."""
    unusual = [name for name, on in usually_overlapped(strategy).items() if on != getattr(strategy, name)]
    for word, value in (("on", True), ("off", False)):
        some = [name for name in unusual if getattr(strategy, name) is value]
        if some:
            yield word, ", ".join(some)


def _trained(plan: Plan) -> Iterator[tuple[str, str]]:
    """A row on what is trained, where that is not everything."""
    held = parameters(plan.request.training, plan.request.model)
    if held.trained < held.total:
        yield "trained", f"{held.trained} of {held.total} parameters: {plan.request.training.trainable}"
        yield "frozen", f"{held.frozen} in 16 bits, {held.quantised} in 4 bits"


def _axes(plan: Plan) -> Iterator[tuple[str, str]]:
    """Rows for stages, context and experts, where the plan has them."""
    strategy = plan.strategy
    if strategy.pipeline_parallel > 1:
        runs = [(size, len(list(run))) for size, run in groupby(stage.layers for stage in strategy.stages)]
        sizes = ", ".join(f"{times} x {size}" if times > 1 else f"{size}" for size, times in runs)
        chunks = strategy.virtual_pipeline
        split = f", each in {chunks} interleaved chunks{_uneven(strategy)}" if chunks > 1 else ""
        yield "pipeline stages", f"{strategy.pipeline_parallel}, of {sizes} layers{split}"
        yield "neighbouring ranks", f"{strategy.rank_order}, the first innermost"
    if strategy.context_parallel > 1:
        yield "context parallel", f"{strategy.context_parallel}, {exchange(strategy)}"
    if any(kind.feed_forward.experts for kind in plan.request.model.kinds):
        yield (
            "expert parallel",
            f"{strategy.expert_parallel}, each expert cut over {strategy.expert_tensor_parallel}",
        )


def _uneven(strategy: Strategy) -> str:
    """Of how many layers chunks are, where they differ."""
    sizes = in_order(strategy)
    return f" of {min(sizes)} to {max(sizes)} layers" if uneven_chunks(strategy) else ""


def exchange(strategy: Strategy) -> str:
    """How the context ranks of a strategy exchange a sequence, in words."""
    group, left = strategy.ulysses_group_size, strategy.context_parallel // strategy.ulysses_group_size
    words = {
        "ring": "a ring",
        "all_gather": "keys and values gathered",
        "ulysses": "an all-to-all of heads (Ulysses)",
        "ulysses+ring": f"an all-to-all of heads over {group} neighbours, a ring over {left} groups",
    }
    return words.get(strategy.context_parallel_kind, "alone")


def _sequence(plan: Plan) -> str:
    return ", with sequence parallel" if plan.strategy.sequence_parallel else ""


def _start(plan: Plan, target: Target) -> str:
    lines = [f"- {note}" for note in notes(plan, target.name)]
    line = "sbatch job.sbatch" if target.name == "slurm" else "bash launch.sh"
    return f"## Start\n\n    {line}\n\n" + "\n".join(lines)


def _watch(plan: Plan) -> str:
    memory, time = plan.memory, plan.time
    band = f"{time.uncertainty.low_seconds:.3f} to {time.uncertainty.high_seconds:.3f}"
    rows = [
        ("peak memory of a card", f"{gibs(memory.total_bytes, 2)} GiB of {gibs(memory.usable_bytes, 2)}"),
        ("of it `torch.cuda.max_memory_reserved()`", gib(memory.views_bytes["reserved"])),
        ("at", memory.peak_moment),
        ("verdict", memory.verdict),
        (
            "host memory of a machine",
            f"{gib(memory.host_bytes_per_node)} of {gibs(memory.host_usable_bytes)}: {memory.host_verdict}",
        ),
        ("step", f"{time.step_seconds:.3f} s ({band}: {time.uncertainty.basis})"),
        ("tokens", f"{time.tokens_per_second:.0f} /s, {time.tokens_per_second_per_gpu:.0f} /s a card"),
        ("model FLOPs", f"{time.model_tflops_per_gpu:.1f} TFLOP/s a card, MFU {time.mfu:.3f}"),
    ]
    text = (
        "## The first minutes\n\n"
        "Expected, from the cost model. A step far outside its band, or a peak above the usable memory,\n"
        "means that the run is not the plan. The peak is what `nvidia-smi` shows of the worst card: what\n"
        "torch reserves, and what stands beside it (CUDA's context, buffers of NCCL).\n\n"
    )
    return text + _table(("what", "expected"), rows)


def _files(sums: Mapping[str, str]) -> str:
    rows = [(f"`{name}`", MEANING[name], f"`{digest}`") for name, digest in sums.items()]
    return "## Files\n\n" + _table(("file", "what it is", "SHA-256"), rows)


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
