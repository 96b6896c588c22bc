"""Option tables of one row: what each stage could hold, and what that costs; whole numbers only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ..costs.columns import Ints
from ..inputs.record import dataclass
from ..models.backend import backend
from ..models.strategy import BACKENDS
from .bounds import levels, longest, slowest
from .capacity import host_capacity_kib
from .cases import FULL, allowed_recompute, cases, recompute_alike
from .coefficients import Coefficients
from .level import Level, halved
from .picks import Picks
from .slowest import Floor, slowest_stages
from .stage_limits import comm_share, on_stages
from .table import RowTable

WORDS = ("none", "selective", "full")


@dataclass(frozen=True)
class Mode:
    """How the layers of every stage are recomputed: by `word`, `number` of each chunk at most.

    `number` None leaves each stage free; `every` asks that no layer be left out.
    """

    word: str
    number: int | None
    every: bool = False
    places: int | None = None
    """Places of each round of chunks, where not those of the row."""


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
    floors: tuple[Floor, ...] = ()
    """For each mode, where communication is limited: (slowest chunk, step) that no plan of it beats, ns."""
    comm_share: int | None = None
    """Ten-thousandths of the step that shown communication may take."""
    chunks: int = 1
    """Chunks of a stage whose rounds wait for one another."""


def undominated(table: Ints) -> Ints:
    """Options no other of the same start and layers beats in chunk, tail and host at once.

    Tail and host depend on the layers offloaded alone, so of each such number the shortest chunk (then
    most spare memory, then least recompute) stays; among these a walk by (tail, host) drops the rest.
    """
    start, layers, full, selective, offloaded, chunk, _, _, spare = table.T[:9]
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
    start, layers, _, _, offloaded, chunk, tail, host = table.T[:8]
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


def row_options(
    coefficients: Coefficients, row: int, limit_ns: int, known: Level | None = None
) -> RowOptions | None:
    """Option tables of a row for every mode that can beat `limit_ns`; None where no mode has options.

    `known` are the row's levels, where they have been found for this limit or a higher one.
    """
    layers = int(coefficients.depth[row])
    table = RowTable(coefficients, row, layers)
    contiguous = len(coefficients.request.model.kinds) > 1
    stages, cards, aligned = (int(part[row]) for part in coefficients.node_stages)
    on_host = bool(coefficients.on_host[row])
    if on_host and not aligned:
        return None
    passes = int(coefficients.passes[row])
    alike = bool(recompute_alike(coefficients)[row])
    share = comm_share(coefficients.request)
    floors: tuple[Floor, ...] = ()
    if share is not None:
        limited = list(_every(table, limit_ns))
        found, floors = [one[:2] for one in limited], tuple(one[2] for one in limited)
    else:
        found = list(_alike(table, limit_ns, known) if alike else _free(table, limit_ns))
    if not found:
        return None
    modes, tables = zip(*found, strict=True)
    capacity = host_capacity_kib(coefficients.request) if on_host else 2**60
    parts = (modes, tables, passes, layers, contiguous, stages, cards, capacity, floors, share)
    return RowOptions(*parts, table.chunks)


def _every(table: RowTable, limit_ns: int) -> Iterator[tuple[Mode, tuple[Ints, ...], Floor]]:
    """Every mode with every option within the limit: a slower one may show less of its communication."""
    passes = int(table.coefficients.passes[table.row])
    for mode, (stages,) in mode_tables([table], _longest(table, limit_ns)):
        kept = tuple(options[options[:, 5] * passes + options[:, 6] <= limit_ns] for options in stages)
        if not all(len(options) for options in kept):
            continue
        slowest = slowest_stages(table, kept, limit_ns)
        if len(slowest.chunk_ns):
            most = int(slowest.chunk_ns.max())
            yield mode, tuple(options[options[:, 5] <= most] for options in kept), slowest.floor


def mode_tables(tables: Sequence[RowTable], longest: int) -> Iterator[tuple[Mode, list[list[Ints]]]]:
    """Every mode of a row with the fitting options of its stages, once for each of `tables`."""
    first = tables[0]
    if not recompute_alike(first.coefficients)[first.row]:
        words = _words(first)
        if words:
            yield Mode("free", None, "none" not in words), [free_tables(table, longest) for table in tables]
        return
    found = cases(first.coefficients, np.array([first.row]), np.array([longest]))
    for word, number in zip(found.word.tolist(), found.number.tolist(), strict=True):
        yield _mode(word, number), [stage_tables(table, word, number, longest) for table in tables]


def _mode(word: int, number: int) -> Mode:
    return Mode(WORDS[word], number if word == FULL else None)


def _words(table: RowTable) -> list[str]:
    """Ways to leave a layer that backend and request allow."""
    known = backend(BACKENDS[table.coefficients.strategies.backend[table.row]])
    return [word for word in allowed_recompute(table.coefficients.request) if word in known.recompute]


def free_tables(table: RowTable, longest: int) -> list[Ints]:
    """Fitting options of each stage where each layer is free."""
    found, picks, every = [], Picks(table), "none" not in _words(table)
    for stage in range(table.stages):
        spans = picks.spans(*picks.where(stage, longest))
        weighed = table.weighed(picks.free(stage, spans, every))
        found += table.options(np.array([stage]), weighed, np.ones((1, 1), dtype=np.bool_))
    return found


def _free(table: RowTable, limit_ns: int) -> Iterator[tuple[Mode, tuple[Ints, ...]]]:
    """The one mode of a backend that leaves each layer free."""
    words, passes = _words(table), int(table.coefficients.passes[table.row])
    if not words:
        return
    found = []
    for options in free_tables(table, _longest(table, limit_ns)):
        options = options[options[:, 5] * passes + options[:, 6] <= limit_ns]
        found.append(undominated(options) if len(options) else options)
    if all(len(options) for options in found):
        yield Mode("free", None, "none" not in words), tuple(found)


def _alike(table: RowTable, limit_ns: int, known: Level | None) -> Iterator[tuple[Mode, tuple[Ints, ...]]]:
    """Modes of a backend whose stages all recompute alike: one for each word, one for each number of layers.

    A larger number costs more on every stage, so it is kept only where it lets other spans fit.
    """
    c = table.coefficients
    found = halved(c, levels(c, np.array([table.row]), limit_ns)) if known is None else known
    if not on_stages(c.request):
        limit_ns = min(limit_ns, int(found.upper.min(initial=limit_ns)))
    found = found.take(found.lower <= limit_ns)
    slowest_ns = slowest(c, found.cases, limit_ns)
    before: list[list[list[int]]] = []
    longest = _longest(table, limit_ns)
    ways = (part.tolist() for part in (found.cases.word, found.cases.number, found.cases.places))
    for index, (word, number, places) in enumerate(zip(*ways, strict=True)):
        if places != table.places:
            table, before = RowTable(c, table.row, places), []
        tables = stage_tables(table, word, number, longest)
        tables = [options[options[:, 5] <= slowest_ns[index]] for options in tables]
        tables = _joined(tables, places) if table.prefix.shape[1] > 1 else tables
        spans = [options[:, :2].tolist() for options in tables]
        if not all(spans) or (word == FULL and spans == before):
            continue
        before = spans if word == FULL else []
        yield replace(_mode(word, number), places=places), tuple(tables)


def stage_tables(table: RowTable, word: int, number: int, longest: int) -> list[Ints]:
    """Fitting options of each stage under one way of recomputing."""
    layers, picks = table.places, Picks(table)
    several = table.prefix.shape[1] > 1
    spans = picks.spans(range(layers) if several else range(1), picks.lengths(longest))
    weighed = table.weighed(picks.alike(spans, word, number))
    stages = np.arange(table.stages)
    inside = np.ones((len(stages), len(spans)), dtype=np.bool_)
    if several:
        starts = [picks.where(stage, longest)[0] for stage in stages.tolist()]
        first, end = (np.array([getattr(part, edge) for part in starts]) for edge in ("start", "stop"))
        inside = (spans[:, 0] >= first[:, None]) & (spans[:, 0] < end[:, None])
        inside[-1] &= spans.sum(axis=1) == layers
    return table.options(stages, weighed, inside)


def _joined(tables: list[Ints], layers: int) -> list[Ints]:
    """Options that lie on a way through all stages, each starting where one before ends."""
    for forward in (True, False):
        edge = np.zeros(layers + 1, dtype=np.bool_)
        edge[0 if forward else layers] = True
        for stage in range(len(tables)) if forward else reversed(range(len(tables))):
            start, end = tables[stage][:, 0], tables[stage][:, 0] + tables[stage][:, 1]
            here, there = (start, end) if forward else (end, start)
            kept = edge[here]
            tables[stage] = tables[stage][kept]
            edge = np.zeros_like(edge)
            edge[there[kept]] = True
    return tables


def _longest(table: RowTable, limit_ns: int) -> int:
    """Most layers a chunk may hold."""
    return int(longest(table.coefficients, np.array([table.row]), limit_ns)[0])
