"""The flags that several commands share, each spelled once."""

from __future__ import annotations

from typing import Annotated

import typer

from . import complete

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="No hints.")]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="Tell more: stages, terms, traffic.")]
NoColor = Annotated[bool, typer.Option("--no-color", help="No colour (also: NO_COLOR).")]

Force = Annotated[bool, typer.Option("--force", help="Overwrite what stands at -o.")]
Strict = Annotated[bool, typer.Option("--strict", help="A risky verdict exits 1.")]
Output = Annotated[
    str | None, typer.Option("-o", "--output", metavar="PATH", help="Where output goes; - prints it.")
]
Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Set a field of the request (see `explain`), as often as needed.",
        autocompletion=complete.settings,
    ),
]
TimeLimit = Annotated[
    str | None,
    typer.Option(
        "--time-limit", metavar="SECONDS", help="Seconds of search, by the solver's deterministic clock."
    ),
]

Source = Annotated[
    str,
    typer.Argument(
        metavar="REQUEST|MODEL",
        help="A request (TOML or JSON, - for stdin), a model name or its config.json.",
        autocompletion=complete.models,
    ),
]
ClusterName = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        autocompletion=complete.clusters,
        metavar="NAME|FILE",
        help="Node type (see `list clusters`) or cluster file.",
    ),
]
Nodes = Annotated[str | None, typer.Option("--nodes", metavar="N", help="Machines of that type.")]
Gpus = Annotated[str | None, typer.Option("--gpus", metavar="N", help="Cards instead of machines.")]
Batch = Annotated[
    str | None, typer.Option("--global-batch-size", metavar="N", help="Sequences per optimizer step.")
]
Length = Annotated[str | None, typer.Option("--sequence-length", metavar="N", help="Tokens a sequence.")]
Optimizer = Annotated[
    str | None, typer.Option("--optimizer", metavar="NAME", help="adamw, adamw-8bit, lion, sgd, ...")
]
TotalTokens = Annotated[
    str | None,
    typer.Option("--total-tokens", metavar="N", help="Tokens of the whole training, as 1T: gives days."),
]
Oversubscription = Annotated[
    str | None, typer.Option("--oversubscription", metavar="X", help="Leaf over spine bandwidth, 1 or more.")
]

Site = Annotated[
    str | None, typer.Option("--site", metavar="SITE.json", help="Constants measured here: see `calibrate`.")
]


def request_flags(
    cluster: str | None,
    nodes: str | None,
    gpus: str | None,
    global_batch_size: str | None,
    sequence_length: str | None,
    optimizer: str | None,
    total_tokens: str | None,
    oversubscription: str | None,
    site: str | None = None,
) -> dict[str, object]:
    """The flags of a request by the dotted field each one sets."""
    from ..plans.sections import is_path

    return {
        "cluster.file" if cluster and is_path(cluster) else "cluster.preset": cluster,
        "cluster.nodes": nodes,
        "cluster.gpus": gpus,
        "cluster.oversubscription": oversubscription,
        "cluster.site": site,
        "training.global_batch_size": global_batch_size,
        "training.sequence_length": sequence_length,
        "training.optimizer": optimizer,
        "training.total_tokens": total_tokens,
    }
