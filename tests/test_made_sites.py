"""Sites made by chance: their constants drawn as calibration holds them likely, their runs by the ledger."""

from __future__ import annotations

from dataclasses import replace
from math import exp, log, log1p

import numpy as np

from shardwise import Cluster, Plan, Request, Strategy, Training, plan
from shardwise.calibration import MeasuredStep, calibrate, suggest
from shardwise.calibration.facts import facts
from shardwise.calibration.measured import MeasuredSteps, unknowns_of
from shardwise.costs.scatter import step_scatter
from shardwise.costs.stage_counts import even_stages
from shardwise.models import Transformer
from shardwise.models.strategy import Stage
from shardwise.plans.report import price

NOISE = facts("spreads")["run_spread"]
STACK = "megatron-bridge-2025"
DEGREES = ((1, 1, 1), (1, 1, 2), (2, 1, 1), (4, 1, 2), (8, 1, 1), (4, 2, 1), (2, 4, 2), (8, 2, 2))
"""Tensor and pipeline degree, micro-batch."""


def layout(tensor: int, pipeline: int, micro: int, sequences: int) -> Strategy:
    """A Megatron layout of 32 layers on 32 cards."""
    data = 32 // tensor // pipeline
    return Strategy(
        backend="megatron", software_stack=STACK, data_parallel=data, tensor_parallel=tensor,
        pipeline_parallel=pipeline, zero_stage=1, shard_group_size=data, micro_batch_size=micro,
        gradient_accumulation_steps=sequences // (data * micro), sequence_parallel=tensor > 1,
        gradient_dtype="fp32", loss_kernel="megatron", stages=(Stage(layers=32 // pipeline),) * pipeline,
    )  # fmt: skip


def runs() -> list[MeasuredStep]:
    """Eight layouts at two batches and two lengths on four DGX H100."""
    model, cluster = Transformer.preset("llama-3.1-8b"), Cluster.preset("dgx-h100", nodes=4)
    return [
        MeasuredStep(f"{sequences}-{length}-{degrees}", "made", model, training, cluster, strategy, 1.0)
        for sequences in (64, 256)
        for length in (4096, 8192)
        for training in [Training(global_batch_size=sequences, sequence_length=length)]
        for degrees in DEGREES
        for strategy in [layout(*degrees, sequences)]
    ]


def drawn_site(steps: list[MeasuredStep], chance: np.random.Generator) -> dict[str, float]:
    """Constants of a site, each as far from the catalogue's as is held likely."""
    return {u.paths[0]: exp(chance.normal(log(u.center), u.kin_spread)) for u in unknowns_of(steps)}


def test_the_interval_of_a_made_site_holds_what_it_says() -> None:
    """Of 8 sites with 16 runs each, 128 others lie inside in 80 to 95 %, in intervals under the published.

    More than 80 % where few runs speak: their scatter is drawn to that of published runs, which is wider.
    """
    steps, chance = runs(), np.random.default_rng(0)
    rows = MeasuredSteps(tuple(steps))
    held, reaches = [], []
    for _ in range(8):
        truth = rows.seconds(drawn_site(steps, chance))
        seen = truth * np.exp(chance.normal(0.0, NOISE, len(steps)))
        order = chance.permutation(len(steps))
        taught = [replace(steps[i], seconds=float(seen[i])) for i in order[:16].tolist()]
        site = calibrate(taught, "made", "2026-11-30").site
        told = rows.seconds({constant.name: constant.value for constant in site.constants})
        others = order[16:]
        reaches.append(log1p(site.interval))
        held += (np.abs(np.log(told[others] / seen[others])) <= reaches[-1]).tolist()

    assert len(held) == 128
    assert 0.8 <= np.mean(held) <= 0.95
    assert max(reaches) < step_scatter("near").reach


def test_few_runs_do_not_widen_the_interval_of_a_site_like_the_catalogue() -> None:
    """1, 2, 3, 8 runs of a site like the catalogue: never wider than without a site, narrower in turn."""
    steps, chance = runs(), np.random.default_rng(1)
    seen = MeasuredSteps(tuple(steps)).seconds({}) * np.exp(chance.normal(0.0, NOISE, len(steps)))
    made = [replace(step, seconds=float(value)) for step, value in zip(steps, seen, strict=True)]
    widths = [log1p(calibrate(made[:n], "made", "2026-11-30").site.interval) for n in (1, 2, 3, 8)]

    assert widths[0] <= step_scatter("near").reach
    assert widths == sorted(widths, reverse=True)


def test_suggested_runs_teach_what_they_claim() -> None:
    """Of twelve sites the plan's step is off by what was claimed, before the suggested runs and after.

    Both are standard deviations; that of twelve draws may lie 1.5 times off by chance. What is claimed knows
    how far sites lie from the catalogue, what is found learns it from three runs: twice the claim is allowed.
    """
    request = Request(
        model="llama-3.1-8b",
        cluster=Cluster.preset("dgx-h100", nodes=4),
        training=Training(global_batch_size=64, sequence_length=4096),
    )
    answer = plan(request)
    assert isinstance(answer, Plan)
    suggested = suggest(answer)
    steps = [changed(answer, entry.changes) for entry in suggested]
    rows, chance = MeasuredSteps(tuple(steps)), np.random.default_rng(2)
    before, after = [], []
    for _ in range(12):
        truth = rows.seconds(drawn_site(steps, chance))
        seen = truth * np.exp(chance.normal(0.0, NOISE, len(steps)))
        taught = [replace(step, seconds=float(value)) for step, value in zip(steps, seen, strict=True)]
        site = calibrate(taught, "made", "2026-11-30").site
        told = rows.seconds({constant.name: constant.value for constant in site.constants})
        before.append(log(rows.seconds({})[0] / truth[0]))
        after.append(log(told[0] / truth[0]))

    claimed = suggested[0].spread_percent_before, suggested[-1].spread_percent_after
    found = [100.0 * float(np.sqrt(np.mean(np.square(errors)))) for errors in (before, after)]
    assert not suggested[0].changes and all(entry.changes for entry in suggested[1:])
    assert claimed[0] / 1.5 < found[0] < claimed[0] * 1.5
    assert found[1] < claimed[1] * 2.0 < found[0]


def test_suggested_runs_keep_the_limit_of_the_plan() -> None:
    """A run that teaches has to run: each keeps as much of the card free as the plan was told to.

    Twice the micro-batch of the best plan on two machines would teach more, and fill 99 % of the card.
    """
    request = Request(
        model="llama-3.1-8b",
        cluster=Cluster.preset("dgx-h100", nodes=2),
        training=Training(global_batch_size=64, sequence_length=4096),
    )
    answer = plan(request)
    assert isinstance(answer, Plan)
    steps = [changed(answer, entry.changes) for entry in suggest(answer)]
    peaks = [price(request, [step.strategy])[0].peak_kib * 1024 for step in steps]

    assert len(peaks) > 1
    assert max(peaks) <= answer.memory.limit_bytes


def changed(answer: Plan, changes: dict[str, int | str]) -> MeasuredStep:
    """The plan's run with what a suggestion changes."""
    fields: dict[str, object] = {key: value for key, value in changes.items() if key != "recompute"}
    if word := changes.get("recompute"):
        layers, stages = answer.request.model.layers, answer.strategy.pipeline_parallel
        fields["stages"] = even_stages(layers, stages, str(word), False)
    strategy = answer.strategy.model_copy(update=fields)
    request = answer.request
    return MeasuredStep("made", "made", request.model, request.training, request.cluster, strategy, 1.0)
