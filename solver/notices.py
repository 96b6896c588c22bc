"""Warnings beside an answer: what a person should know before starting, each with what to do about it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from ..costs import Ledger
from ..costs.law import law
from ..costs.scatter import measured_cards, step_scatter
from ..costs.sharding import whole_below
from ..hardware import host
from ..hardware.host import NO_HOST
from ..inputs.quantity import gib
from ..models import (
    Strategy,
    Transformer,
    count,
    predictor_flops_per_token,
    tower_flops_per_token,
    training_flops_per_token,
)
from ..models.backend import backend
from ..models.divisors import padded_vocabulary
from ..plans import Notice, Request
from ..plans.report import host_limit_bytes, seconds, verdict
from .drives import bytes_on_drives
from .eight_bits import not_told_apart

COMM_WARNING = 0.3
"""Share of the step above which exposed communication is worth a warning."""


def notices(request: Request, ledger: Ledger, strategy: Strategy) -> tuple[Notice, ...]:
    """What a person should know before starting this strategy."""
    found = [*topology_notices(request), *_of_model(request.model, strategy)]
    found += _beyond_positions(request)
    found += _unpriced(request.model, request.training.sequence_length)
    found += [
        *not_told_apart(request, strategy),
        *_idle(request, strategy),
        *_doubtful(request),
        *_card_notice(ledger, strategy),
        *_host_notice(request, ledger),
    ]
    if ledger.comm_ns > COMM_WARNING * ledger.step_ns:
        found.append(_communication(request, ledger))
    if strategy.offload_optimizer == "nvme":
        found.append(_nvme(request, strategy))
    if strategy.offload_optimizer == "cpu":
        what = "optimizer states" if strategy.offload_params == "none" else "weights and optimizer states"
        found.append(
            Notice(
                code="offload",
                message=f"{what} live in host memory: {gib(1024 * ledger.host_node_kib)} a node",
                hint="the step rests on the host's memory bandwidth; bind cores to ranks and measure",
            )
        )
    return tuple(found)


def _idle(request: Request, strategy: Strategy) -> Iterator[Notice]:
    """What the job asks of recomputed layers where none is recomputed so."""
    training = request.training
    asked = {
        "offload_activations": (training.offload_activations, "recompute_full_layers", "whole", "full"),
        "recompute_modules": (
            training.recompute_modules,
            "recompute_selective_layers",
            "in part",
            "selective",
        ),
    }
    for field, (given, counted, how, word) in asked.items():
        if given and not any(getattr(stage, counted) for stage in strategy.stages):
            yield Notice(
                code="no-effect",
                message=f"training.{field} changes nothing: no layer is recomputed {how}",
                hint=f"--set recompute={word} makes use of it, where it pays",
            )


def _nvme(request: Request, strategy: Strategy) -> Notice:
    """What lives on NVMe, and what is taken of the drives."""
    cluster, law = request.cluster, host()
    read, written = law.nvme_read_bytes_per_s / 1e9, law.nvme_write_bytes_per_s / 1e9
    held = "states of the optimizer" + (" and weights" if strategy.offload_params == "nvme" else "")
    places = (strategy.offload_optimizer, strategy.offload_params)
    need = bytes_on_drives(request, backend(strategy.backend), *places) / 1e9
    size = cluster.node.nvme_bytes
    known = (
        f"{need:,.0f} of {size / 1e9:,.0f} GB a node" if size else f"{need:,.0f} GB a node, drives not known"
    )
    return Notice(
        code="offload",
        message=f"{held} live on NVMe ({known}), taken to read {read:g} and write {written:g} GB/s a node",
        hint="the step rests on the drives: measure them (DeepNVMe's ds_io), and keep in mind that they wear",
    )


def _doubtful(request: Request) -> Iterator[Notice]:
    """Step times on cards that no published run of the fit was measured on."""
    new = sorted({pool.node.gpu.name for pool in request.cluster.pools} - measured_cards())
    if request.cluster.site is None and new:
        ratio = step_scatter("new-card")
        yield Notice(
            code="doubtful-time",
            message=f"no run was measured on {', '.join(new)}: step times on such cards are doubtful; "
            f"{ratio.told} took {ratio.low:.2g} to {ratio.high:.2g} times what was predicted",
            hint="run the best plan of each backend (--set backend=NAME) for 50 steps, then `calibrate`",
        )


def topology_notices(request: Request) -> tuple[Notice, ...]:
    """What the source of the cluster did not show, so that no guess passes unseen.

    Host memory that nobody gave is told where states might have been offloaded to it.
    """
    usual = "say what is missing under [cluster], or paste the whole text"
    given = request.limits.host_memory_bytes is not None or request.choose.offload_optimizer == ("none",)
    notes = [note for note in request.cluster.notes if note != NO_HOST or not given]
    parts = [note.partition("; give ") for note in notes]
    return tuple(
        Notice(code="topology", message=message, hint=f"give {fields}" if fields else usual)
        for message, _, fields in parts
    )


def _card_notice(ledger: Ledger, strategy: Strategy) -> Iterator[Notice]:
    """The worst card too full, or nearly."""
    share = 100 * ledger.peak_kib / ledger.usable_kib
    entry = ledger.stages[ledger.peak_stage]
    largest = max(entry.terms_kib, key=lambda name: entry.terms_kib[name])
    hint = f"its largest term is {largest.replace('_', ' ')}"
    stage = whole_below(backend(strategy.backend)).get(largest, 0)
    if strategy.zero_stage < stage and strategy.data_parallel > 1:
        hint += f", whole on each of {strategy.data_parallel} data ranks below ZeRO stage {stage}"
    hint += "; `shardwise plan` for the same request finds what fits"
    if verdict(ledger) == "does_not_fit":
        yield Notice(
            code="card-too-small",
            message=f"the worst card would need {share:.0f} % of its usable memory",
            hint=hint,
        )
    elif share > 100:
        yield Notice(
            code="risky-memory",
            message=f"the worst card is expected to need {share:.0f} % of its usable memory; it fits only "
            "where fragmentation stays small: risky",
            hint=hint,
        )
    elif verdict(ledger) == "risky":
        yield Notice(
            code="risky-memory",
            message=f"the worst card is filled to {share:.0f} % of its usable memory: risky",
            hint="runs above 92 % are known to crash later; limits.memory_margin=0.08 keeps plans below that",
        )


def _host_notice(request: Request, ledger: Ledger) -> Iterator[Notice]:
    """A node's host memory too full, or nearly."""
    limit, used = host_limit_bytes(request, ledger), ledger.host_node_kib * 1024
    if used <= law("risky_share") * limit:
        return
    code, word = ("host-too-small", "would need") if used > limit else ("risky-host", "fill")
    yield Notice(
        code=code,
        message=f"offloaded states {word} {100 * used / max(limit, 1):.0f} % of a node's usable host memory",
        hint="more nodes, a lighter optimizer or fewer offloaded layers relieve the host",
    )


def _communication(request: Request, ledger: Ledger) -> Notice:
    """Exposed communication above `COMM_WARNING`: the axis and the link it waits for."""
    terms = {name: ns for name, ns in ledger.terms_ns.items() if "_comm" in name}
    worst = max(terms, key=lambda name: terms[name])
    axis, tier = _AXES.get(worst, worst), _tier_of(ledger, worst)
    link = request.cluster.tiers().named(tier)
    rate = f" ({link.bandwidth_bytes_per_s / 1e9:,.4g} GB/s a card)" if link else ""
    return Notice(
        code="communication",
        message=f"{100 * ledger.comm_ns / ledger.step_ns:.0f} % of the step is exposed communication",
        hint=f"{seconds(terms[worst]):.3g} s of it are {axis.replace('_', ' ')} over the {tier}{rate}: keep "
        "that axis inside a faster tier, take a larger batch a card, or a faster link",
    )


def _of_model(model: Transformer, strategy: Strategy) -> Iterator[Notice]:
    """What its file says beside sizes, and a vocabulary that is padded."""
    for note in model.notes:
        yield Notice(
            code="model", message=note, hint=f"shardwise show model {shlex.quote(model.source or model.name)}"
        )
    multiple = backend(strategy.backend).vocab_multiple
    size = padded_vocabulary(model.vocab_size, strategy.tensor_parallel, multiple)
    if size > model.vocab_size:
        unit = f"{multiple} * tensor_parallel {strategy.tensor_parallel}"
        yield Notice(
            code="vocabulary",
            message=f"the vocabulary of {model.vocab_size:,} is padded to {size:,}, a multiple of {unit}",
            hint="the rows are counted in memory; a checkpoint of another padding does not load as it is",
        )


def _beyond_positions(request: Request) -> Iterator[Notice]:
    """A sequence longer than the table of learned positions, which no run can look up."""
    model, length = request.model, request.training.sequence_length
    if 0 < model.positions < length:
        yield Notice(
            code="positions",
            message=f"{model.name} has {model.positions:,} learned positions and the sequence {length:,} "
            "tokens: its own code stops at the first step",
            hint=f"--set training.sequence_length={model.positions}, or a model file with more positions",
        )


def _unpriced(model: Transformer, length: int) -> Iterator[Notice]:
    """Parts of the model that the step time leaves out, and what they would add."""
    of_text = training_flops_per_token(model, length) * length
    for tower in model.towers:
        added = ""
        if tower.tokens:
            share = 100 * tower_flops_per_token(tower, tower.tokens) * tower.tokens / of_text
            added = f"; one of {tower.tokens:,} patches a sequence would add {share:.2g} % of the FLOPs"
        yield Notice(
            code="tower",
            message=f"the {tower.name} tower is counted in memory, on the first stage, not in time{added}",
            hint="no request says how many images or clips a sequence holds: the step is that of text alone",
        )
    if model.mtp_layers < model.predictor_depth:
        share = 100 * predictor_flops_per_token(model, length) * length / of_text
        yield Notice(
            code="predictor",
            message="layers that predict further tokens are left out of memory and time; trained, they would "
            f"add {count(model).predictor:,} parameters and {share:.2g} % of the FLOPs",
            hint=f"--set training.mtp_layers={model.predictor_depth} trains them: priced, placed and written",
        )


_AXES = {
    "tensor_comm": "tensor_parallel",
    "context_comm": "context_parallel",
    "expert_comm": "expert_parallel",
    "pipeline_comm": "pipeline_parallel",
    "data_comm_exposed": "shard_group",
}


def _tier_of(ledger: Ledger, term: str) -> str:
    return ledger.placement.get(_AXES.get(term, ""), "network")
