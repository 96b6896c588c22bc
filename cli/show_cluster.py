"""`show cluster`: a type of the catalogue, or a file, by its tiers and what it leaves open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..hardware import Cluster
    from .cards import ClusterCard, SeenCard


def asked(name: str, flags: dict[str, object], sets: Sequence[str]) -> ClusterCard | SeenCard:
    """The card of the cluster called `name` or standing in that file.

    Raises `InputError`; a matrix whose cards nobody named is still shown, with the question.
    """
    from ..inputs import InputError
    from ..inputs.origin import placed
    from ..plans.cluster_table import cluster_of
    from ..plans.model_name import is_path
    from ..plans.settings import FLAGS, parsed
    from .cards import cluster_card

    key = "file" if is_path(name) else "preset"
    try:
        return cluster_card(cluster_of({key: name, **_table(flags, sets)}))
    except InputError as error:
        if key == "file" and error.field == "cluster.gpu" and error.code == "missing":
            return _seen(name, error)
        told = {field: origin for field, _, origin in map(parsed, sets)}
        raise placed(error, {**FLAGS, f"cluster.{key}": "argument", **told}) from None


def _table(flags: dict[str, object], sets: Sequence[str]) -> dict[str, Any]:
    from ..plans.settings import parsed, value_of

    told = {field: str(text) for field, text in flags.items() if text is not None}
    table = {field.partition(".")[2]: value_of(text, field) for field, text in told.items()}
    given = [parsed(setting) for setting in sets]
    return table | {
        field.partition(".")[2]: value for field, value, _ in given if field.startswith("cluster.")
    }


def _seen(name: str, error: Exception) -> SeenCard:
    from ..hardware.topology import sighting_of
    from ..inputs import InputError, read_text
    from .cards import seen_card

    sighting = sighting_of(read_text(name, "cluster.file"), name)
    if not any(machine.matrix for machine in sighting.machines) or not isinstance(error, InputError):
        raise error
    return seen_card(sighting, error.message)


def cluster_text(card: ClusterCard, verbose: bool) -> str:
    """The cluster in words: facts, the tree, the table of tiers, what is not known."""
    from .tables import items, table
    from .tree import tree_lines
    from .words import gib, plural, rate, seconds

    cluster, node = card.cluster, card.cluster.node
    lines = [f"{plural(cluster.nodes, 'node')} {cluster.name}: {plural(card.gpus, 'card')} {node.gpu.name}"]
    lines += [
        f"  and {plural(pool.nodes, 'node')} {pool.node.name}: {pool.gpus} cards {pool.node.gpu.name}"
        for pool in cluster.others
    ]
    facts = [
        f"{gib(node.gpu.memory_usable_bytes)} usable a card",
        f"HBM {rate(node.gpu.hbm_bytes_per_s)}",
        f"link {node.link}, {plural(node.islands, 'island')} of {node.island_size} a node",
        _network(cluster),
        f"host {gib(node.host_memory_bytes)}, {plural(node.cpu_cores, 'core')}"
        if node.host_memory_bytes
        else "host memory not given",
        f"oversubscription {cluster.oversubscription:g}",
    ]
    if card.usd_per_hour is not None:
        facts.append(f"${card.usd_per_hour:,.2f} an hour")
    peaks = [(p, node.gpu.peak_flops_per_s(p)) for p in ("bf16", "fp16", "fp8", "mxfp8")]
    facts.append(", ".join(f"{p} {flops / 1e12:,.0f}" for p, flops in peaks if flops) + " TFLOP/s dense")
    rows = [
        [tier.name, tier.cards, rate(tier.bandwidth_bytes_per_s), seconds(tier.latency_seconds), tier.sharers]
        for tier in card.tiers
    ]
    head = ["tier", "cards", "a card", "latency", "share an uplink"]
    lines += [items(facts), "", *[f"  {line}" for line in tree_lines(cluster)], "", table(head, rows, "  ")]
    lines += _notes(cluster.notes)
    if verbose:
        lines += ["", f"  node: {node.source}", f"  card: {node.gpu.source}"]
    return "\n".join(lines)


def _network(cluster: Cluster) -> str:
    """Network cards of a machine; for a single machine of no known type they may be nobody's word."""
    from ..hardware.topology.describe import NO_NETWORK
    from .words import plural, rate

    node = cluster.node
    given = any(getattr(node, name) != value for name, value in NO_NETWORK.items())
    if given and node.nic_bytes_per_s == NO_NETWORK["nic_bytes_per_s"] and node.name == node.described_name:
        return f"network {plural(node.nics, 'card')} ({node.fabric}), rate not given"
    if given or cluster.nodes > 1 or node.name != node.described_name:
        return f"network {node.nics} x {rate(node.nic_bytes_per_s)} ({node.fabric})"
    return "network not given"


def seen_text(card: SeenCard) -> str:
    """Machines as their matrices show them, and what must be said before they can be planned for."""
    from .tables import clean, paragraph
    from .words import plural

    lines = []
    for machine in card.machines:
        groups = " ".join("{" + ",".join(map(str, group)) + "}" for group in machine.cliques)
        lines.append(clean(f"{machine.name}: {plural(machine.cards, 'card')} {machine.card}".rstrip()))
        lines.append(f"  {machine.link}, islands {groups}")
        rails = [f"GPU{i} {'/'.join(rail)}" for i, rail in enumerate(machine.rails) if rail]
        lines.append(
            clean(
                f"  {plural(len(machine.nics), 'network card')}" + (f": {', '.join(rails)}" if rails else "")
            )
        )
    return "\n".join([*lines, *_notes(card.notes), "", paragraph(card.question, "  ", "    ")])


def _notes(notes: tuple[str, ...]) -> list[str]:
    from .tables import paragraph

    return ["", *[paragraph(f"note: {note}", "  ", "    ") for note in notes]] if notes else []
