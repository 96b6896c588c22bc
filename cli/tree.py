"""A cluster as a tree: spine, leaves, NVLink domains, machines, islands; equal branches told once."""

from __future__ import annotations

from typing import Any

from ..hardware import Cluster

_OUTER = ("spine", "leaf", "domain", "node", "island")


def tree_lines(cluster: Cluster) -> list[str]:
    """The tree, one line a vertex or a run of equal vertices, with bandwidths of the links above them."""
    graph = cluster.graph
    roots = [v for v, d in graph.nodes(data=True) if d["kind"] == _outermost(graph)]
    return _drawn(_merged([_branch(graph, root) for root in roots]), "")


def _outermost(graph: Any) -> str:
    kinds = {data["kind"] for _, data in graph.nodes(data=True)}
    return next(kind for kind in _OUTER if kind in kinds)


Branch = tuple[str, tuple["Run", ...]]
Run = tuple[int, Branch]
"""How many equal branches stand beside one another, and one of them."""


def _branch(graph: Any, vertex: str) -> Branch:
    below = _below(graph, vertex)
    inner = [(_link(graph.edges[vertex, first]), _branch(graph, v)) for v, first in below.items()]
    branches = [(f"{text} - {link}", runs) for link, (text, runs) in inner]
    return _words(graph.nodes[vertex]), _merged(branches)


def _below(graph: Any, vertex: str) -> dict[str, str]:
    """Vertices inside `vertex`, each with the neighbour its link leads to.

    A machine that shares an NVLink domain stands in it, and the domain under the leaf of its first machine.
    """
    own = _OUTER.index(graph.nodes[vertex]["kind"])
    found: dict[str, str] = {}
    for v in graph[vertex]:
        if _OUTER.index(graph.nodes[v]["kind"]) > own:
            domains = [d for d in graph[v] if graph.nodes[d]["kind"] == "domain" and d != vertex]
            found.setdefault(domains[0] if domains else v, v)
    return found


def _words(data: dict[str, Any]) -> str:
    from .words import plural, rate

    text = f"{data['kind']}, {plural(data['cards'], 'card')}"
    if "bandwidth_bytes_per_s" in data:
        text += f" at {rate(data['bandwidth_bytes_per_s'])} each"
    return text


def _link(edge: dict[str, Any]) -> str:
    from .words import rate

    reached = edge["bandwidth_bytes_per_s"] * edge["share"]
    links = f"{edge['links']} x " if edge["links"] > 1 else ""
    return f"{edge['kind']} {links}{rate(reached / edge['links'])}"


def _merged(branches: list[Branch]) -> tuple[Run, ...]:
    """Neighbours that are equal become a run."""
    runs: list[Run] = []
    for branch in branches:
        if runs and runs[-1][1] == branch:
            runs[-1] = (runs[-1][0] + 1, branch)
        else:
            runs.append((1, branch))
    return tuple(runs)


def _drawn(runs: tuple[Run, ...], indent: str) -> list[str]:
    lines = []
    for index, (count, (text, inner)) in enumerate(runs):
        last = index == len(runs) - 1
        lines.append(f"{indent}{'`- ' if last else '|- '}{f'{count} x ' if count > 1 else ''}{text}")
        lines += _drawn(inner, indent + ("   " if last else "|  "))
    return lines
