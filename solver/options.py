"""Option tables of one row: what each stage could hold, and what that costs; whole numbers only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..costs.columns import Ints
from ..models.backend import backend
from ..models.strategy import BACKENDS
from .coefficients import Coefficients, allowed_recompute, host_capacity_kib
from .table import RowTable


@dataclass(frozen=True)
class Mode:
    """How the layers of every stage are recomputed: by `word`, `number` of each chunk at most.

    `number` None leaves each stage free; `every` asks that no layer be left out.
    """

    word: str
    number: int | None
    every: bool = False


@dataclass(frozen=True)
class RowOptions:
    """Options of one row: for each mode, for each stage a table (options, FIELDS)."""

    modes: tuple[Mode, ...]
    tables: tuple[tuple[Ints, ...], ...]
    passes: int
    layers: int
    contiguous: bool
    """Options fix where they start: the stack has several kinds of layers."""
    node_stages: int
    node_cards: int
    host_capacity_kib: int


def longest_chunk(coefficients: Coefficients, row: int, limit_ns: int) -> int:
    """Most layers a chunk may hold: the others take one each, and the step stays within `limit_ns`.

    A stage works m v chunks, so c layers of a chunk cost at least m v c times the lightest layer.
    """
    s = coefficients.strategies
    most = coefficients.request.model.layers // int(s.virtual_pipeline[row])
    most -= int(s.pipeline_parallel[row]) - 1
    lightest = int(coefficients.passes[row]) * int(coefficients.chunk.stage["layer"][row].min())
    return min(most, limit_ns // lightest) if lightest > 0 else most


def ways(coefficients: Coefficients, row: int) -> list[Mode]:
    """Ways of recomputing that backend and request allow for a row; `number` is settled later."""
    known = backend(BACKENDS[coefficients.strategies.backend[row]])
    words = [w for w in allowed_recompute(coefficients.request) if w in known.recompute]
    every = "none" not in words
    if known.recompute_freedom == "free":
        return [Mode("free", None, every)] if words else []
    whole = every or known.recompute_freedom == "all"
    return [Mode(word, None, word == "selective" or (word == "full" and whole)) for word in words]


def undominated(table: Ints) -> Ints:
    """Options no other of the same start and layers beats in chunk, tail and host at once.

    Tail and host depend on the layers offloaded alone, so of each such number the shortest chunk (then
    most spare memory, then least recompute) stays; among these a walk by (tail, host) drops the rest.
    """
    start, layers, full, selective, offloaded, chunk, _, _, spare = table.T
    order = np.lexsort((full, full + selective, -spare, chunk, offloaded, layers, start))
    sorted_table = table[order]
    keys = sorted_table[:, [0, 1, 4]]
    first = np.ones(len(table), dtype=np.bool_)
    first[1:] = (keys[1:] != keys[:-1]).any(axis=1)
    shortest: Ints = sorted_table[first]
    several = (shortest[1:, :2] == shortest[:-1, :2]).all(axis=1).any()
    return _walked(shortest) if several else shortest


def _walked(table: Ints) -> Ints:
    """Options with several numbers of offloaded layers: those not beaten in tail, host and chunk."""
    start, layers, _, _, offloaded, chunk, tail, host, _ = table.T
    ordered = table[np.lexsort((offloaded, chunk, host, tail, layers, start))]
    kept: list[int] = []
    seen: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for index, option in enumerate(ordered.tolist()):
        better = seen.setdefault((option[0], option[1]), [])
        if not any(host <= option[7] and chunk <= option[5] for host, chunk in better):
            better.append((option[7], option[5]))
            kept.append(index)
    found: Ints = ordered[kept]
    return found


def row_options(coefficients: Coefficients, row: int, limit_ns: int) -> RowOptions | None:
    """Option tables of a row for every mode that can beat `limit_ns`; None where no mode has options."""
    table = RowTable(coefficients, row)
    layers = coefficients.request.model.layers // table.chunks
    contiguous = len(coefficients.request.model.kinds) > 1
    stages, cards, aligned = (int(part[row]) for part in coefficients.node_stages)
    offloads = bool(coefficients.strategies.is_("offload_optimizer", "cpu")[row])
    if offloads and not aligned:
        return None
    passes = int(coefficients.passes[row])
    longest = longest_chunk(coefficients, row, limit_ns)
    found = [
        pair for way in ways(coefficients, row) for pair in _modes(table, way, longest, passes, limit_ns)
    ]
    if not found:
        return None
    modes, tables = zip(*found, strict=True)
    capacity = host_capacity_kib(coefficients.request, coefficients.layout) if offloads else 2**60
    return RowOptions(modes, tables, passes, layers, contiguous, stages, cards, capacity)


def _modes(
    table: RowTable, way: Mode, longest: int, passes: int, limit_ns: int
) -> Iterator[tuple[Mode, tuple[Ints, ...]]]:
    """Modes of one way with their tables: one, or one a number where every stage recomputes as many.

    A larger number costs more on every stage, so it is kept only where it lets other spans fit.
    """
    every = stage_tables(table, way, longest)
    every = [options[options[:, 5] * passes + options[:, 6] <= limit_ns] for options in every]
    if not all(len(options) for options in every):
        return
    if way.word != "full" or way.every:
        yield way, tuple(undominated(options) for options in every)
        return
    before: list[list[list[int]]] = []
    for number in range(1, max(int(options[:, 1].max()) for options in every) + 1):
        same = [options[options[:, 2] == np.minimum(options[:, 1], number)] for options in every]
        spans = [options[:, :2].tolist() for options in same]
        if all(spans) and spans != before:
            before = spans
            yield Mode(way.word, number), tuple(same)


def stage_tables(table: RowTable, way: Mode, longest: int) -> list[Ints]:
    """All fitting options of each stage."""
    freedom = backend(BACKENDS[table.coefficients.strategies.backend[table.row]]).layers_freedom
    several = table.prefix.shape[1] > 1
    layers = table.prefix.shape[0] - 1
    found = []
    for stage in range(table.stages):
        starts = _starts(stage, table.stages, layers, longest) if several else range(1)
        lengths = _lengths(table.stages, layers, longest, freedom)
        options = table.options(stage, way.word, way.every, starts, lengths)
        if stage == table.stages - 1 and several:
            options = options[options[:, 0] + options[:, 1] == layers]
        found.append(options)
    return found


def _starts(stage: int, stages: int, layers: int, longest: int) -> range:
    """Depths at which a stage may start: stages before and after it hold 1 to `longest` layers each."""
    left = stages - stage
    return range(max(stage, layers - left * longest), min(stage * longest, layers - left) + 1)


def _lengths(stages: int, layers: int, longest: int, freedom: str) -> range:
    """Chunk-layers a stage may hold."""
    if stages == 1:
        return range(layers, layers + 1)
    if freedom == "even":
        return range(layers // stages, layers // stages + (2 if layers % stages else 1))
    return range(1, longest + 1)
