"""Planning on free cards: which of them to use, as blocks of equal size, and how stages lie on the leaves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from ..hardware import Cluster, Node
from ..models.counts import training_flops_per_token
from ..models.divisors import divisors_of, legal_degrees
from ..plans import NoPlan, Notice, OutOfTime, Plan, Request
from ..plans.report import seconds
from .answer import Writers, out_of_time, plan_of
from .blocks import SCALE, Leaf, Spread, spread
from .clash import no_plan
from .coefficients import Coefficients
from .lower import layers_by_kind, time_bound
from .outcome import Outcome, Tally
from .search import Search
from .space import rows
from .watch import is_over


@dataclass(frozen=True)
class Shape:
    """`number` blocks of `size` cards, their stages of `stage_blocks` blocks lying as `laid` says."""

    cluster: Cluster
    size: int
    number: int
    stage_blocks: int
    laid: Spread

    @cached_property
    def virtual(self) -> Cluster:
        """A plain cluster of one block a machine, with the tiers that the layout gives its groups.

        One leaf holds all: one leaf. Whole stages in several leaves: a leaf a stage, so that only the
        boundaries between stages leave it. Split stages: their groups cross a spine as oversubscribed as
        the busiest uplink.
        """
        used = sum(1 for u, w in zip(self.laid.whole, self.laid.split, strict=True) if u or w)
        ratio = self.cluster.oversubscription
        leaf = self.number if used <= 1 else self.stage_blocks
        if self.laid.split_stages:
            leaf, ratio = max(1, self.stage_blocks // 2), max(1.0, self.laid.load / SCALE)
        return Cluster(
            name=f"{self.size} free cards of {self.cluster.name}",
            node=block_node(self.cluster.node, self.size),
            nodes=self.number,
            leaf_nodes=leaf,
            oversubscription=ratio,
            notes=self.cluster.notes,
        )


def block_node(node: Node, size: int) -> Node:
    """`size` cards of a machine as a machine: their share of its network cards, host memory and cores."""
    share = size / node.gpus
    island = min(node.island_size, size)
    changes = {
        "name": f"{size} of {node.name}",
        "gpus": size,
        "island_size": island,
        "domain_size": island,
        "link": node.link if island > 1 else "pcie",
        "card_order": (),
        "nics": max(1, node.nics * size // node.gpus),
        "nic_bytes_per_s": node.network_bytes_per_s * share / max(1, node.nics * size // node.gpus),
        "host_memory_bytes": int(node.host_memory_bytes * share),
        "host_dram_bytes_per_s": node.host_dram_bytes_per_s * share,
        "cpu_cores": max(1, int(node.cpu_cores * share)),
        "nvme_bytes": int(node.nvme_bytes * share),
        "usd_per_hour": None if node.usd_per_hour is None else node.usd_per_hour * share,
    }
    fields = {name: getattr(node, name) for name in Node.model_fields}
    return Node.model_validate({**fields, **changes})


def block_sizes(cluster: Cluster) -> list[int]:
    """Sizes of a block, larger first: divisors of a machine's cards that lie evenly on its islands."""
    island = cluster.node.island_size
    sizes = [b for b in divisors_of(cluster.node.gpus) if b % island == 0 or island % b == 0]
    return [b for b in sorted(sizes, reverse=True) if any(c >= b for leaf in cluster.free for c in leaf)]


def ideal_cluster(node: Node, cards: int) -> Cluster | None:
    """`cards` cards in whole machines under one leaf, or in part of one; None where they are neither."""
    if cards < node.gpus:
        return Cluster(name=node.name, node=node, cards=cards)
    if cards % node.gpus:
        return None
    count = cards // node.gpus
    return Cluster(name=node.name, node=node, nodes=count, leaf_nodes=count)


def leaves_of(cluster: Cluster, size: int) -> list[Leaf]:
    """Blocks of `size` cards free under each leaf, and the blocks its uplink carries at full rate."""
    found = []
    for frees in cluster.free:
        cards = len(frees) * cluster.node.gpus / cluster.oversubscription
        found.append(Leaf(sum(free // size for free in frees), max(1, int(cards / size))))
    return found


def worlds(cluster: Cluster) -> list[tuple[int, int]]:
    """(cards, block size) of every number of blocks, most cards first, of equals the larger block."""
    found = []
    for size in block_sizes(cluster):
        most = sum(leaf.blocks for leaf in leaves_of(cluster, size))
        found += [(size * number, size) for number in range(1, most + 1)]
    return sorted(found, key=lambda pair: (-pair[0], -pair[1]))


def lengths(request: Request, cards: int) -> list[int]:
    """Numbers of stages for which some degrees use so many cards and share the batch out evenly."""
    model, job, choose = request.model, request.training, request.choose
    tensors = legal_degrees(model, "tensor_parallel")
    found = []
    for p in divisors_of(cards):
        if p > model.layers or not (choose.pipeline_parallel is None or p in choose.pipeline_parallel):
            continue
        ranks = [cards // p // t for t in tensors if cards // p % t == 0]
        splits = [
            (r, c) for r in ranks for c in divisors_of(r) if c == 1 or job.sequence_length % (2 * c) == 0
        ]
        if any(job.global_batch_size % (r // c) == 0 for r, c in splits):
            found.append(p)
    return found


def shapes(
    request: Request, cards: int, size: int, stages: Sequence[int]
) -> Iterator[tuple[Shape, tuple[int, ...]]]:
    """Shapes of so many cards, each with the numbers of `stages` that have it."""
    cluster, number = request.cluster, cards // size
    by_blocks: dict[int, list[int]] = {}
    for p in stages:
        wide = cards // p
        if wide % size == 0 or size % wide == 0:
            by_blocks.setdefault(max(1, wide // size), []).append(p)
    for blocks, some in sorted(by_blocks.items(), reverse=True):
        laid = spread(leaves_of(cluster, size), number // blocks, blocks)
        if laid is not None:
            yield Shape(cluster, size, number, blocks, laid), tuple(some)


@dataclass
class Fragments:
    """The search over worlds and shapes: the best plan, all else excluded by a bound or a search."""

    request: Request
    time_limit: float | None = None

    def __post_init__(self) -> None:
        self.tally = Tally()
        self.best: tuple[Shape, Request, Outcome] | None = None
        self.last: tuple[Request, Outcome] | None = None
        self.proved = True
        self._least: dict[int, dict[int, int]] = {}

    def _limit_ns(self) -> int | None:
        best = self.best[2].best if self.best else None
        return None if best is None else best.step_ns - 1

    def _cannot_be_faster(self, cards: int) -> bool:
        """Whether the layers' work alone, shared out evenly over the cards, takes longer than the best."""
        limit = self._limit_ns()
        return limit is not None and self.card_ns // cards > limit

    @cached_property
    def card_ns(self) -> int:
        """The least nanoseconds of cards that the layers of a step can take, whatever the layout.

        A step of p stages takes at least m chunks of L / p layers, so cards times step is at least
        ``batch / micro-batch x L x layer x t x c`` of some legal t, c and micro-batch; one replica of one
        stage shows them all. Experts may be laid over replicas: there the card's peak is the bound.
        """
        job, model, node = self.request.training, self.request.model, self.request.cluster.node
        if any(kind.feed_forward.experts for kind in model.kinds):
            flops = training_flops_per_token(model, job.sequence_length) * job.tokens
            peak = max(node.gpu.peak_flops_per_s(word) or 0.0 for word in node.gpu.precisions)
            return int(flops / peak * 1e9)
        one = {"pipeline_parallel": (1,), "data_parallel": (1,), "virtual_pipeline": (1,)}
        choose = self.request.choose.model_copy(update=one)
        widths = {
            t * c
            for t in legal_degrees(model, "tensor_parallel")
            for c in divisors_of(job.sequence_length)
            if t * c <= self.request.cluster.gpus and (c == 1 or job.sequence_length % (2 * c) == 0)
        }
        found = []
        for cards in sorted(widths):
            ideal = ideal_cluster(node, cards)
            request = self.request.model_copy(update={"choose": choose, "cluster": ideal})
            some = Coefficients(request, rows(request)) if ideal else None
            if some is not None and len(some.strategies):
                layers = (some.chunk.stage["layer"] * layers_by_kind(request)[None, :]).sum(axis=1)
                found.append(int((layers * some.passes).min()) * cards)
        return min(found, default=0)

    def run(self) -> None:
        """Worlds from the largest down until none can be faster."""
        for cards, size in worlds(self.request.cluster):
            if self._cannot_be_faster(cards):
                break
            for shape, stages in shapes(self.request, cards, size, self._worth(cards)):
                if is_over(self.tally.deterministic_time, self.time_limit):
                    self.proved = False
                    return
                self._try(shape, stages)

    def _worth(self, cards: int) -> list[int]:
        """Numbers of stages that are not slower than the best already on whole machines under one leaf."""
        limit = self._limit_ns()
        if cards not in self._least:
            self._least[cards] = self._ideal(cards)
        return [p for p, least in self._least[cards].items() if limit is None or least <= limit]

    def _ideal(self, cards: int) -> dict[int, int]:
        """For each number of stages the least bound of a row on the ideal cluster; 0 where it has none."""
        stages = lengths(self.request, cards)
        ideal = ideal_cluster(self.request.cluster.node, cards)
        if ideal is None or not stages or self.best is None:
            return dict.fromkeys(stages, 0)
        choose = self.request.choose.model_copy(
            update={"pipeline_parallel": tuple(stages), "rank_order": ("tp-cp-dp-pp",)}
        )
        request = self.request.model_copy(update={"cluster": ideal, "choose": choose})
        some = Coefficients(request, rows(request))
        if not len(some.strategies):
            return {}
        bounds, p = time_bound(some), some.strategies.pipeline_parallel
        return {q: int(bounds[p == q].min()) for q in stages if (p == q).any()}

    def _try(self, shape: Shape, stages: tuple[int, ...]) -> None:
        choose = self.request.choose.model_copy(
            update={"pipeline_parallel": stages, "rank_order": ("tp-cp-dp-pp",)}
        )
        request = self.request.model_copy(update={"cluster": shape.virtual, "choose": choose})
        search = Search(request, self.time_limit)
        limit = self._limit_ns()
        if limit is not None:
            search.limit_ns = min(search.limit_ns, limit)
        outcome = search.run()
        self._count(outcome)
        if outcome.best is not None:
            self.best = (shape, request, outcome)
        self.last = self.last or (request, outcome)
        self.proved &= outcome.proved

    def _count(self, outcome: Outcome) -> None:
        for name in (
            "rows",
            "rule",
            "infeasible",
            "bound",
            "leaf",
            "leaves",
            "masters",
            "deterministic_time",
        ):
            setattr(self.tally, name, getattr(self.tally, name) + getattr(outcome.tally, name))


def plan_fragments(
    request: Request, time_limit: float | None, writers: Writers | None
) -> Plan | NoPlan | OutOfTime:
    """The fastest plan on the free cards of a cluster, and what their being scattered costs."""
    found = Fragments(request, time_limit)
    found.run()
    if found.best is None:
        virtual, outcome = found.last or (request, Outcome(None, None, True, found.tally))
        if not found.proved:
            return out_of_time(request, outcome)
        return no_plan(virtual, outcome).model_copy(update={"inputs_hash": request.inputs_hash()})
    shape, virtual, outcome = found.best
    whole = Outcome(outcome.best, outcome.bound_ns, found.proved, found.tally)
    plan = plan_of(virtual, whole, writers)
    notes = (*plan.warnings, allocation_notice(shape), *_against_whole_nodes(request, shape, outcome))
    return plan.model_copy(update={"inputs_hash": request.inputs_hash(), "warnings": notes})


def allocation_notice(shape: Shape) -> Notice:
    """Which free cards the plan uses, leaf by leaf."""
    cards, laid = shape.number * shape.size, shape.laid
    parts = [
        f"leaf {leaf}: {u} whole stages" + (f" and {w} blocks of split ones" if w else "")
        for leaf, (u, w) in enumerate(zip(laid.whole, laid.split, strict=True))
        if u or w
    ]
    return Notice(
        code="allocation",
        message=f"uses {cards} of {shape.cluster.gpus} free cards, {shape.number} blocks of {shape.size} on "
        f"a machine, {shape.stage_blocks} blocks a stage; {'; '.join(parts)}",
        hint="every block is one machine's cards to the launcher: take them in the order of the leaves",
    )


def _against_whole_nodes(request: Request, shape: Shape, outcome: Outcome) -> list[Notice]:
    """What as many cards would do on whole machines under one leaf."""
    node, cards = request.cluster.node, shape.number * shape.size
    flat = ideal_cluster(node, cards)
    if flat is None or outcome.best is None:
        return []
    whole = Search(request.model_copy(update={"cluster": flat})).run().best
    if whole is None:
        return []
    count = flat.nodes
    loss = 100.0 * (outcome.best.step_ns / whole.step_ns - 1.0)
    message = (
        f"on {count} whole machines under one leaf the step would take {seconds(whole.step_ns):.4g} s: "
        f"these fragments cost {loss:.1f} %"
    )
    return [Notice(code="fragments", message=message, hint="wait for whole machines if the job is long")]
