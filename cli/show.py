"""`show`: one model or one cluster, by its numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from . import options
from .errors import OK
from .voice import Voice

if TYPE_CHECKING:
    from .cards import ClusterCard, ModelCard

WHAT = ("model", "cluster")


def show(
    what: Annotated[str, typer.Argument(metavar="model|cluster")],
    name: Annotated[
        str, typer.Argument(metavar="NAME|FILE", help="A catalogue name; for a model also its config.json.")
    ],
    nodes: options.Nodes = None,
    gpus: options.Gpus = None,
    oversubscription: options.Oversubscription = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    no_color: options.NoColor = False,
) -> int:
    """Show a model or a cluster in numbers."""
    from ..inputs import InputError, nearest
    from ..plans import as_json as json_text
    from .model_text import model_text

    voice = Voice(as_json, quiet, verbose, no_color)
    if what not in WHAT:
        raise InputError("what", what, "argument", "is neither model nor cluster", legal=nearest(what, WHAT))
    if what == "model":
        model = _model(name)
        voice.data(json_text(model) if voice.as_json else model_text(model, voice.verbose))
    else:
        cluster = _cluster(name, nodes, gpus, oversubscription)
        voice.data(json_text(cluster) if voice.as_json else _cluster_text(cluster, voice.verbose))
    return OK


def _model(name: str) -> ModelCard:
    from ..inputs import InputError
    from ..plans.origin import placed
    from ..plans.sections import report_of
    from .cards import model_card

    try:
        return model_card(report_of(name))
    except InputError as error:
        raise placed(error, {"model": "argument"}) from None


def _cluster(name: str, nodes: str | None, gpus: str | None, oversubscription: str | None) -> ClusterCard:
    from ..inputs import InputError
    from ..plans.origin import placed
    from ..plans.sections import cluster_of
    from ..plans.settings import FLAGS, value_of
    from .cards import cluster_card

    flags = {"preset": name, "nodes": nodes, "gpus": gpus, "oversubscription": oversubscription}
    table = {key: value_of(text, f"cluster.{key}") for key, text in flags.items() if text is not None}
    try:
        return cluster_card(cluster_of(table))
    except InputError as error:
        raise placed(error, {**FLAGS, "cluster.preset": "argument"}) from None


def _cluster_text(card: ClusterCard, verbose: bool) -> str:
    from .tables import items, table
    from .words import gib, plural, rate, seconds

    cluster, node = card.cluster, card.cluster.node
    lines = [f"{plural(cluster.nodes, 'node')} {cluster.name}: {plural(card.gpus, 'card')} {node.gpu.name}"]
    facts = [
        f"{gib(node.gpu.memory_usable_bytes)} usable a card",
        f"HBM {rate(node.gpu.hbm_bytes_per_s)}",
        f"link {node.link}, {plural(node.islands, 'island')} of {node.island_size} a node",
        f"network {node.nics} x {rate(node.nic_bytes_per_s)} ({node.fabric})",
        f"host {gib(node.host_memory_bytes)}, {plural(node.cpu_cores, 'core')}",
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
    lines += [items(facts), "", table(["tier", "cards", "a card", "latency", "share an uplink"], rows, "  ")]
    if verbose:
        lines += ["", f"  node: {node.source}", f"  card: {node.gpu.source}"]
    return "\n".join(lines)
