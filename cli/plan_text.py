"""A plan as text."""

from __future__ import annotations

from collections.abc import Iterator

from ..models import Stage, Strategy
from ..plans import MemoryReport, Plan, TimeReport
from .tables import items, paragraph, table
from .words import gib, gibs, job, knobs, number, seconds, share, terms, trained


def plan_text(plan: Plan, top: int, verbose: bool) -> str:
    """The plan in about ten lines; with `verbose` its stages, memory and traffic too."""
    lines = [
        paragraph(job(plan.request), "", "  "),
        paragraph(trained(plan.request.training, plan.request.model), "  ", "    "),
        items(knobs(plan.strategy)),
        *time_lines(plan.time),
        *memory_lines(plan.memory),
    ]
    lines += [paragraph(_proof(plan), "  ", "    ")]
    lines += list(_cost(plan))
    if plan.alternatives and top:
        lines += ["", _alternatives(plan, top)]
    if verbose:
        lines += ["", *details(plan.memory, plan.time), "", stage_table(plan.memory, plan.strategy)]
        if plan.traffic:
            lines += ["", _traffic(plan)]
        lines += ["", _ladder(plan)]
        lines += ["", paragraph(_first_minutes(plan), "  ", "    ")]
        lines += ["", paragraph(plan.proof.statement, "proof: ", "  ")]
    return "\n".join(lines)


def _ladder(plan: Plan) -> str:
    """Lever by lever from plain data parallel to the plan, memory bought and seconds paid; or why none."""
    if not plan.ladder:
        return paragraph(f"no ladder: {_no_ladder(plan)}", "  ", "    ")
    rows = [
        [
            rung.lever,
            gibs(rung.memory_bytes),
            gibs(rung.bought_bytes) if index else "",
            seconds(rung.step_seconds),
            f"{rung.paid_seconds:+,.2f} s" if index else "",
            seconds(rung.hidden_seconds),
            rung.verdict.replace("_", " "),
        ]
        for index, rung in enumerate(plan.ladder)
    ]
    return table(["ladder", "GiB", "bought", "step", "paid", "hidden", ""], rows, "  ")


def _no_ladder(plan: Plan) -> str:
    """Why no ladder leads to a plan."""
    cluster, training = plan.request.cluster, plan.request.training
    if plan.status != "optimal":
        return "the search was stopped before it"
    if cluster.others or cluster.free:
        return "it starts from one data-parallel group over equal cards, which pools and free cards are not"
    if training.global_batch_size % cluster.gpus:
        batch = training.global_batch_size
        return f"plain data parallel needs a batch that {cluster.gpus} cards divide, not {batch}"
    return f"plain data parallel is DeepSpeed's here, which does not run {training.optimizer} or this model"


def _first_minutes(plan: Plan) -> str:
    """What logs should show once the run has warmed up, in the words frameworks log it."""
    time, memory = plan.time, plan.memory
    reserved = gib(memory.views_bytes["reserved"])
    return (
        f"in the first five minutes expect: torch max_memory_reserved near {reserved} "
        f"({gib(memory.total_bytes)} in nvidia-smi) on the fullest rank (stage {memory.peak_stage}), "
        f"{seconds(time.step_seconds)} a step, "
        f"{number(time.tokens_per_second_per_gpu)} tokens/s/GPU ({number(time.tokens_per_second)} in all), "
        f"{time.model_tflops_per_gpu:,.0f} TFLOP/s/GPU, MFU {share(time.mfu, 1)}; a step above "
        f"{seconds(time.uncertainty.high_seconds)} or a card above {gib(memory.usable_bytes)} means that "
        "something differs from this plan"
    )


def time_lines(time: TimeReport) -> list[str]:
    """Step time with its terms, and what it means."""
    unit, divisor = ("ms", 1e-3) if time.step_seconds < 1 else ("s", 1.0)
    low, high = time.uncertainty.low_seconds / divisor, time.uncertainty.high_seconds / divisor
    digits = 2 if time.step_seconds / divisor < 10 else 1
    first = f"step {seconds(time.step_seconds)} ({terms(time.terms_seconds, divisor, digits)})"
    second = f"expected {low:,.1f} to {high:,.1f} {unit} in 8 of 10 cases, by {time.uncertainty.basis}"
    third = (
        f"mfu {share(time.mfu, 1)}, hfu {share(time.hfu, 1)}, "
        f"{number(time.tokens_per_second_per_gpu)} tokens/s a card, "
        f"{share(time.limit_fraction)} of the physical limit"
    )
    return [paragraph(line, "  ", "    ") for line in (first, second, third)]


def memory_lines(memory: MemoryReport) -> list[str]:
    """Memory of a card with its terms, and of a host, each with its verdict."""
    verdict = memory.verdict.replace("_", " ")
    card = (
        f"memory {gibs(memory.total_bytes)} of {gib(memory.usable_bytes)} a card, {verdict} "
        f"(stage {memory.peak_stage}, {memory.peak_moment.replace('_', ' ')}; "
        f"limit {gib(memory.limit_bytes)})"
    )
    parts = f"of these {terms(memory.terms_bytes, 2**30)}"
    low, high = memory.uncertainty.low_bytes, memory.uncertainty.high_bytes
    peak = f"peak expected {gibs(low)} to {gib(high)} in 8 of 10 cases{_held(memory)}"
    return [paragraph(line, "  ", "    ") for line in (card, parts, peak, _host(memory))]


def _held(memory: MemoryReport) -> str:
    """Where the peak's interval lies about what the card has, and the margin that keeps it inside."""
    rough = memory.uncertainty
    if rough.verdict in (None, "fits"):
        return ": inside the card" if rough.verdict else ""
    if rough.verdict == "does_not_fit":
        return ": beyond the card"
    between = f": the card's {gibs(memory.usable_bytes)} lie between"
    holds = f"; memory_margin={rough.holding_margin} keeps plans inside"
    return between if memory.verdict == "does_not_fit" else between + holds


def _host(memory: MemoryReport) -> str:
    """Memory of a host with its verdict; a host of unknown size holds nothing of a plan."""
    if not memory.host_usable_bytes and not memory.host_bytes_per_node:
        return "host memory not known: nothing stands there"
    host = (
        f"host {gibs(memory.host_bytes_per_node)} of {gib(memory.host_usable_bytes)} a node, "
        f"{memory.host_verdict.replace('_', ' ')}"
    )
    if memory.host_nodes_needed:
        host += f"; the hosts of {memory.host_nodes_needed} nodes would hold it"
    return host


def _proof(plan: Plan) -> str:
    proof = plan.proof
    seen = f"{proof.rows_considered:,} layouts considered, {proof.leaves_solved:,} solved to the end"
    if plan.status == "optimal":
        return f"optimal under this cost model and search space: {seen}"
    return (
        f"stopped before the end: at most {share(proof.gap, 1)} above the best step under this cost model "
        f"(bound {seconds(proof.bound_seconds)}); {seen}"
    )


def _cost(plan: Plan) -> Iterator[str]:
    cost = plan.cost
    parts = [
        f"${cost.usd_per_hour:,.2f} an hour" if cost.usd_per_hour is not None else "",
        f"${cost.usd_per_million_tokens:,.3g} a million tokens"
        if cost.usd_per_million_tokens is not None
        else "",
        f"{cost.days:,.1f} days{_between(cost.days_low, cost.days_high, 1)}" if cost.days is not None else "",
        f"${cost.usd_total:,.0f} in all{_between(cost.usd_total_low, cost.usd_total_high, 0)}"
        if cost.usd_total is not None
        else "",
    ]
    if any(parts):
        yield paragraph(", ".join(part for part in parts if part), "  ", "    ")


def _loss(percent: float) -> str:
    """A loss with its sign, to a tenth; a smaller one to its first digit that tells, as ``+0.03``."""
    return f"{percent:+.1f}" if abs(percent) >= 0.05 or not percent else f"{percent:+.1g}"


def _between(low: float | None, high: float | None, digits: int) -> str:
    """Both ends in brackets; nothing where a plan does not tell them."""
    return "" if low is None or high is None else f" ({low:,.{digits}f} to {high:,.{digits}f})"


def _alternatives(plan: Plan, top: int) -> str:
    rows = [
        [
            other.name,
            seconds(other.step_seconds),
            gibs(other.memory_bytes),
            _loss(other.loss_percent),
        ]
        for other in plan.alternatives[:top]
    ]
    lines = [table(["instead", "step", "GiB a card", "loss %"], rows, "  ")]
    lines += [
        paragraph(f"{other.name}: {', '.join(knobs(other.strategy))}: {other.why}", "  ", "    ")
        for other in plan.alternatives[:top]
    ]
    return "\n".join(lines)


def details(memory: MemoryReport, time: TimeReport) -> list[str]:
    """Every term of memory and time of the worst stage, and what is hidden."""
    held = [[name.replace("_", " "), gibs(size, 2)] for name, size in memory.terms_bytes.items()]
    spent = [[name.replace("_", " "), f"{part:,.6f}"] for name, part in time.terms_seconds.items()]
    hidden = [[name.replace("_", " "), f"{part:,.6f}"] for name, part in time.hidden_seconds.items() if part]
    recipe = memory.bytes_per_parameter
    frozen = f", frozen weights {recipe.frozen:.4g}" if recipe.frozen else ""
    blocks = [
        table(["memory, worst stage", "GiB"], [*held, ["total", gibs(memory.total_bytes, 2)]], "  "),
        paragraph(
            f"bytes a parameter before sharding: weights {recipe.weights:g}, gradients {recipe.gradients:g}, "
            f"optimizer {recipe.optimizer:g} ({recipe.recipe}){frozen}; "
            f"load peak {gib(memory.load_peak_bytes)}, checkpoint {gib(memory.checkpoint_bytes)}",
            "  ",
            "    ",
        ),
        table(["time of a step", "s"], [*spent, ["total", f"{time.step_seconds:,.6f}"]], "  "),
    ]
    return blocks + ([table(["hidden behind compute", "s"], hidden, "  ")] if hidden else [])


def stage_table(memory: MemoryReport, strategy: Strategy) -> str:
    """Layers and memory of each pipeline stage."""
    rows = [
        [
            report.stage,
            stage.layers,
            stage.recompute_full_layers,
            stage.recompute_selective_layers,
            stage.offloaded_layers,
            gibs(report.total_bytes),
            report.peak_moment.replace("_", " "),
        ]
        for report, stage in zip(memory.stages, strategy.stages, strict=False)
    ]
    head = ["stage", "layers", "full", "selective", "offloaded", "GiB", "peak at"]
    if any(stage.chunk_layers for stage in strategy.stages):
        head.append("chunks of")
        rows = [[*row, _chunks(stage)] for row, stage in zip(rows, strategy.stages, strict=False)]
    if any(stage.device for stage in strategy.stages):
        head.append("on")
        rows = [[*row, stage.device or ""] for row, stage in zip(rows, strategy.stages, strict=False)]
    return table(head, rows, "  ")


def _chunks(stage: Stage) -> str:
    """Layers of the chunks of a stage, where they differ."""
    return " ".join(map(str, stage.chunk_layers or ()))


def _traffic(plan: Plan) -> str:
    rows = [[entry.axis, entry.tier, f"{entry.bytes_per_card / 1e9:,.3f}"] for entry in plan.traffic]
    if plan.uplink_bytes_per_step:
        rows.append(["a machine's network cards", "all", f"{plan.uplink_bytes_per_step / 1e9:,.3f}"])
    return table(["traffic of a card a step", "over", "GB"], rows, "  ")
