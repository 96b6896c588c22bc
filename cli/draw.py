"""Drawing a cluster's graph, the stages of a plan coloured on its machines; needs the `draw` extra."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .output import refuse_taken, write_file

if TYPE_CHECKING:
    from ..hardware import Cluster
    from ..plans import Plan

MOST_MACHINES = 256
"""Machines a drawing holds; beyond it nobody could tell them apart."""

_HEIGHT = {"island": 0.0, "node": 1.0, "domain": 1.7, "leaf": 2.6, "spine": 3.6}
_PLAIN = "#cfd8dc"


def save(cluster: Cluster, path: str, plan: str | None, force: bool) -> None:
    """Writes `cluster` to `path`: drawn where it ends in .svg, else as a cluster file (.toml).

    Raises `InputError` for another ending, a plan of other cards, or where matplotlib is missing.
    """
    from ..hardware.topology import written
    from ..inputs import InputError
    from ..plans.saved import read_plan

    refuse_taken(path, force=force)
    if path.lower().endswith(".toml"):
        write_file(path, written(cluster), force=force)
    elif path.lower().endswith(".svg"):
        placed = read_plan(plan) if plan else None
        if placed is not None and placed.strategy.world > cluster.gpus:
            reason = f"uses {placed.strategy.world} cards, the cluster has {cluster.gpus}"
            raise InputError("plan", plan, "--plan", reason, code="contradiction")
        write_file(path, svg(cluster, placed), force=force)
    else:
        raise InputError(
            "output", path, "-o", "is neither a drawing nor a cluster file", legal=["x.svg", "x.toml"]
        )


def svg(cluster: Cluster, plan: Plan | None) -> str:
    """The graph as an SVG text; the same cluster and plan give the same bytes."""
    import io

    from ..inputs import InputError

    graph = cluster.graph
    machines = [v for v, data in graph.nodes(data=True) if data["kind"] == "node"]
    if len(machines) > MOST_MACHINES:
        reason = f"has {len(machines)} machines, a drawing holds {MOST_MACHINES}: give fewer with --nodes"
        raise InputError("cluster.nodes", len(machines), "argument", reason, legal=[str(MOST_MACHINES)])
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        reason = "needs matplotlib: pip install 'shardwise[draw]'"
        raise InputError("output", "svg", "-o", reason, code="not-available") from None
    with matplotlib.rc_context({"svg.hashsalt": "shardwise", "svg.fonttype": "none"}):
        figure = Figure(figsize=(max(6.0, 0.9 * len(machines)), 5.0))
        _draw(figure.subplots(), graph, _colours(graph, plan), cluster.name)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None}, bbox_inches="tight")
    return text.getvalue()


def _draw(axes: Any, graph: Any, colours: dict[str, str], title: str) -> None:
    import networkx

    place = _places(graph)
    names = {v: _label(v, data) for v, data in graph.nodes(data=True)}
    sizes = [900 if graph.nodes[v]["kind"] in ("leaf", "spine", "domain") else 500 for v in graph]
    shades = [colours.get(v, _PLAIN) for v in graph]
    networkx.draw_networkx_edges(graph, place, ax=axes, edge_color="#90a4ae")
    networkx.draw_networkx_nodes(graph, place, ax=axes, node_color=shades, node_size=sizes, node_shape="s")
    networkx.draw_networkx_labels(graph, place, names, ax=axes, font_size=6)
    if graph.number_of_edges() <= 40:
        rates = {(a, b): _rate(data) for a, b, data in graph.edges(data=True)}
        networkx.draw_networkx_edge_labels(graph, place, rates, ax=axes, font_size=5, rotate=False)
    axes.set_title(title, fontsize=8)
    axes.set_axis_off()


def _label(vertex: str, data: dict[str, Any]) -> str:
    return f"{vertex}\n{data['cards']} cards"


def _rate(data: dict[str, Any]) -> str:
    return f"{data['bandwidth_bytes_per_s'] * data['share'] / 1e9:,.0f} GB/s"


def _places(graph: Any) -> dict[str, tuple[float, float]]:
    """Machines side by side, islands under theirs, switches over the middle of what they hold."""
    found: dict[str, tuple[float, float]] = {}
    machines = [v for v, data in graph.nodes(data=True) if data["kind"] == "node"]
    for x, machine in enumerate(machines):
        found[machine] = (float(x), _HEIGHT["node"])
        islands = [v for v in graph[machine] if graph.nodes[v]["kind"] == "island"]
        for i, island in enumerate(islands):
            found[island] = (x + (i + 0.5) / len(islands) - 0.5, _HEIGHT["island"])
    for kind in ("domain", "leaf", "spine"):
        for vertex in [v for v, data in graph.nodes(data=True) if data["kind"] == kind]:
            below = [found[v][0] for v in graph[vertex] if v in found]
            found[vertex] = (sum(below) / max(len(below), 1), _HEIGHT[kind])
    return found


def _colours(graph: Any, plan: Plan | None) -> dict[str, str]:
    """A colour for each machine: that of the pipeline stage its first card holds; grey where it is idle."""
    if plan is None:
        return {}
    from matplotlib import colormaps, colors

    palette = colormaps["tab20"]
    found: dict[str, str] = {}
    rank = 0
    for machine in [v for v, data in graph.nodes(data=True) if data["kind"] == "node"]:
        if rank < plan.strategy.world:
            found[machine] = colors.to_hex(palette(stage_of(plan, rank) % 20))
            for island in graph[machine]:
                if graph.nodes[island]["kind"] == "island":
                    found[island] = found[machine]
        rank += graph.nodes[machine]["cards"]
    return found


def stage_of(plan: Plan, rank: int) -> int:
    """The pipeline stage of a rank under the plan's rank order."""
    strategy = plan.strategy
    inner = strategy.tensor_parallel * strategy.context_parallel
    if strategy.rank_order == "tp-cp-pp-dp":
        return rank // inner % strategy.pipeline_parallel
    return rank // (inner * strategy.data_parallel)
