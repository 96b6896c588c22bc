"""The ledger of a strategy whose stages stand on cards of several kinds: each stage priced on its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..hardware import Cluster
from ..hardware.mixed import all_alike, pool_names
from ..inputs import InputError
from ..models.strategy import Strategy
from ..models.training import Training
from ..models.transformer import Transformer
from .columns import Strategies
from .ledger import Ledger, StageEntry
from .price import price
from .schedule import Rounds, plain, step
from .stage_counts import Counts
from .totals import Prices, price_columns

BOUNDARY = "pipeline_comm"
"""The term of a link between stages: where pools differ, the slowest of their networks carries it."""


def price_mixed(
    transformer: Transformer, training: Training, cluster: Cluster, strategies: Sequence[Strategy]
) -> list[Ledger]:
    """A `Ledger` for each of `strategies`, whose stages each name a pool of `cluster` as their device.

    Raises `InputError` for a stage that names none.
    """
    return [_mixed(transformer, training, cluster, strategy) for strategy in strategies]


def _mixed(transformer: Transformer, training: Training, cluster: Cluster, strategy: Strategy) -> Ledger:
    names = pool_names(cluster)
    for number, stage in enumerate(strategy.stages):
        if stage.device not in names:
            field, reason = f"strategy.stages.{number}.device", "names no pool of the cluster"
            raise InputError(field, stage.device, "strategy", reason, legal=list(names))
    alike = [all_alike(cluster, index) for index in range(len(names))]
    if any(part is None for part in alike):
        reason = "its pools have machines of different sizes that one another's cards do not fill"
        raise InputError("cluster.pool", cluster.gpus, "cluster", reason)
    if not plain(Strategies.of([strategy])):
        field, reason = "strategy.pipeline_schedule", "is not priced over pools of several kinds"
        raise InputError(field, strategy.pipeline_schedule, "strategy", reason, legal=["1f1b", "interleaved"])
    bare = strategy.model_copy(
        update={"stages": tuple(s.model_copy(update={"device": None}) for s in strategy.stages)}
    )
    whole = {name: part for name, part in zip(names, alike, strict=True) if part is not None}
    ledgers = {name: price(transformer, training, part, [bare])[0] for name, part in whole.items()}
    devices = [str(stage.device) for stage in strategy.stages]
    entries = [_entry(ledgers, device, i) for i, device in enumerate(devices)]
    if strategy.virtual_pipeline == 1:
        return _composed(ledgers, devices, entries, strategy)
    columns, counts = Strategies.of([bare]), Counts.of([bare], transformer.kind_of_layer)
    alone = {
        name: price_columns(transformer, training, part, columns, counts) for name, part in whole.items()
    }
    slower = [
        entry.chunk_ns.get(BOUNDARY, 0) - ledgers[device].stages[stage].chunk_ns.get(BOUNDARY, 0)
        for stage, (device, entry) in enumerate(zip(devices, entries, strict=True))
    ]
    return _composed(ledgers, devices, entries, strategy, _rounds([alone[d] for d in devices], slower))


def _rounds(alone: Sequence[Prices], slower: Sequence[int]) -> Rounds | None:
    """What rounds wait for: each stage's chunk on its own pool, `slower` ns slower at its boundary."""
    found = [prices.rounds for prices in alone if prices.rounds is not None]
    if not found:
        return None
    chunk = [int(rounds.longest[0, stage]) + slower[stage] for stage, rounds in enumerate(found)]
    first, last = int(found[0].ends[0, 0]) + slower[0], int(found[-1].ends[1, 0]) + slower[-1]
    return Rounds(found[0].chunks, np.array([chunk]), np.array([[first], [last]]))


def _entry(ledgers: dict[str, Ledger], device: str, stage: int) -> StageEntry:
    """A stage on its own pool, with the slowest pool's boundary."""
    own = ledgers[device].stages[stage]
    slowest = max(ledger.stages[stage].chunk_ns.get(BOUNDARY, 0) for ledger in ledgers.values())
    chunk = {**own.chunk_ns, BOUNDARY: slowest} if slowest else own.chunk_ns
    return replace(own, chunk_ns=chunk, usable_kib=ledgers[device].usable_kib)


def _composed(
    ledgers: dict[str, Ledger],
    devices: list[str],
    entries: list[StageEntry],
    strategy: Strategy,
    rounds: Rounds | None = None,
) -> Ledger:
    """The step from the stages' times; what is told of the fullest card and the slowest stage is theirs."""
    passes = strategy.gradient_accumulation_steps * strategy.virtual_pipeline
    chunk = np.array([[sum(entry.chunk_ns.values()) for entry in entries]])
    tail = np.array([[sum(entry.tail_ns.values()) for entry in entries]])
    whole = step(chunk, tail, np.ones_like(chunk, dtype=np.bool_), np.array([passes]), rounds=rounds)
    slowest, last = int(whole.slowest[0]), int(whole.tail_stage[0])
    terms = {name: passes * ns for name, ns in entries[slowest].chunk_ns.items()}
    if whole.bubble[0]:
        terms["pipeline_bubble"] = int(whole.bubble[0])
    for name, ns in entries[last].tail_ns.items():
        terms[name] = terms.get(name, 0) + ns
    fullest = max(range(len(entries)), key=lambda i: entries[i].total_kib / ledgers[devices[i]].usable_kib)
    base = ledgers[devices[slowest]]
    speed = sum(1.0 / ledgers[device].limit_ns for device in devices if ledgers[device].limit_ns)
    return replace(
        base,
        stages=tuple(entries),
        terms_ns=dict(sorted(terms.items())),
        usable_kib=ledgers[devices[fullest]].usable_kib,
        limit_ns=int(len(devices) / speed) if speed else 0,
        host_node_kib=0,
    )
