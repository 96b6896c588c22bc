"""Option tables of one row: what each stage could hold, and what that costs; whole numbers only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..costs.book import MOMENTS
from ..costs.columns import Ints
from ..models.backend import backend
from ..models.strategy import BACKENDS
from .coefficients import Coefficients, allowed_recompute, capacity_kib, host_capacity_kib

FIELDS = ("start", "layers", "full", "selective", "offloaded", "chunk_ns", "tail_ns", "host_kib", "spare_kib")
"""Columns of an option: chunk-layers from `start` on; layers offloaded over the stage; costs."""


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


@dataclass(frozen=True)
class RowTable:
    """Builds the option tables of one row from its coefficients."""

    coefficients: Coefficients
    row: int

    @property
    def stages(self) -> int:
        """Pipeline stages."""
        return int(self.coefficients.strategies.pipeline_parallel[self.row])

    @property
    def chunks(self) -> int:
        """Chunks a stage."""
        return int(self.coefficients.strategies.virtual_pipeline[self.row])

    @cached_property
    def prefix(self) -> Ints:
        """Layers of each kind before each depth, in chunk-layers, (layers + 1, kinds)."""
        kinds = np.array(self.coefficients.request.model.kind_of_layer)
        depth = kinds[: len(kinds) // self.chunks]
        found = np.zeros((len(depth) + 1, int(kinds.max()) + 1), dtype=np.int64)
        found[np.arange(1, len(depth) + 1), depth] = 1
        before: Ints = found.cumsum(axis=0)
        return before

    def _value(self, part: dict[str, Ints], stage: int, counts: dict[str, Ints], chunks: int) -> Ints:
        total = np.full(counts["layer"].shape[0], int(part["fixed"][self.row]), dtype=np.int64)
        if stage == 0:
            total += int(part["first"][self.row])
        if stage == self.stages - 1:
            total += int(part["last"][self.row])
        for piece in ("layer", "full", "selective"):
            total += counts[piece] @ part[piece][self.row] * chunks
        found: Ints = total + counts["offloaded"] @ part["offloaded"][self.row]
        return found

    def _counts(self, picks: Ints) -> dict[str, Ints]:
        """Counts by kind of picks (start, layers, full, selective, offloaded)."""
        prefix, v = self.prefix, self.chunks
        start, layers, full, selective, offloaded = picks.T
        edge = start + layers
        counts = {
            "layer": prefix[edge] - prefix[start],
            "full": prefix[start + full] - prefix[start],
            "selective": prefix[start + full + selective] - prefix[start + full],
        }
        if prefix.shape[1] == 1:
            counts["offloaded"] = offloaded[:, None]
        else:
            counts["offloaded"] = prefix[edge] - prefix[edge - offloaded // v]
        return counts

    def options(self, stage: int, word: str, every: bool, starts: range, lengths: range) -> Ints:
        """Options of a stage that fit its card, for one way of recomputing; columns as FIELDS."""
        picked = self._picks(word, every, self._spans(starts, lengths))
        if not len(picked):
            return np.zeros((0, len(FIELDS)), dtype=np.int64)
        counts = self._counts(picked)
        c = self.coefficients
        spare = np.full(len(picked), 2**40, dtype=np.int64)
        for moment in MOMENTS:
            total = c.memory[moment]
            used = self._value(total.stage, stage, counts, self.chunks)
            flight = self._value(total.flight, stage, counts, 1)
            used += int(c.in_flight[self.row, stage]) * flight
            spare = np.minimum(spare, capacity_kib(c.request) - used)
        columns = [
            picked,
            self._value(c.chunk.stage, stage, counts, 1)[:, None],
            self._value(c.tail.stage, stage, counts, self.chunks)[:, None],
            self._value(c.host.stage, stage, counts, self.chunks)[:, None],
            spare[:, None],
        ]
        fitting: Ints = np.concatenate(columns, axis=1)[spare >= 0]
        return fitting

    def _spans(self, starts: range, lengths: range) -> Ints:
        """(start, layers) of all spans that lie within the stack."""
        grid = np.stack(np.meshgrid(np.array(starts), np.array(lengths), indexing="ij"), axis=-1)
        spans: Ints = grid.reshape(-1, 2).astype(np.int64)
        inside: Ints = spans[spans.sum(axis=1) < len(self.prefix)]
        return inside

    def _picks(self, word: str, every: bool, spans: Ints) -> Ints:
        """(start, layers, full, selective, offloaded) of each span, for one way of recomputing."""
        if word == "free":
            picks = [self._free_picks(span, every) for span in spans]
            return np.concatenate(picks) if picks else np.zeros((0, 5), dtype=np.int64)
        if word == "none":
            number = np.zeros(len(spans), dtype=np.int64)
        elif every:
            number = spans[:, 1]
        else:
            repeats = spans[:, 1]
            spans = np.repeat(spans, repeats, axis=0)
            number = np.arange(len(spans)) - np.repeat(np.cumsum(repeats) - repeats, repeats) + 1
        none = np.zeros(len(spans), dtype=np.int64)
        pair = (none, number) if word == "selective" else (number, none)
        offloaded = spans[:, 1] * self.chunks if self.coefficients.folds[self.row] else none
        return np.column_stack([spans, *pair, offloaded])

    def _free_picks(self, span: Ints, every: bool) -> Ints:
        """All pairs of recompute and all numbers of offloaded layers of one span."""
        length = int(span[1])
        pairs, offloads = self._free_pairs(length, every), self._offloads(length)
        grid = np.repeat(pairs, len(offloads), axis=0)
        tail = np.tile(offloads, len(pairs))[:, None]
        head = np.broadcast_to(span, (len(grid), 2))
        return np.concatenate([head, grid, tail], axis=1)

    def _free_pairs(self, length: int, every: bool) -> Ints:
        words = allowed_recompute(self.coefficients.request)
        fulls = np.arange(length + 1) if "full" in words else np.zeros(1, dtype=np.int64)
        partial = np.arange(length + 1) if "selective" in words else np.zeros(1, dtype=np.int64)
        pairs = np.stack(np.meshgrid(fulls, partial, indexing="ij"), axis=-1).reshape(-1, 2)
        total = pairs.sum(axis=1)
        kept: Ints = pairs[total == length] if every else pairs[total <= length]
        return kept

    def _offloads(self, length: int) -> Ints:
        s = self.coefficients.strategies
        if not s.is_("offload_optimizer", "cpu")[self.row]:
            return np.zeros(1, dtype=np.int64)
        if self.coefficients.folds[self.row]:
            return np.array([length * self.chunks], dtype=np.int64)
        return np.arange(length * self.chunks + 1, dtype=np.int64)


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
    every = _tables(table, way, longest)
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


def _tables(table: RowTable, way: Mode, longest: int) -> list[Ints]:
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
