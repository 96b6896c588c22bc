"""The flags that several commands share, each spelled once, and the groups in which commands take them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, get_type_hints

import typer

from ..inputs.record import dataclass
from . import complete
from .voice import Voice

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


@dataclass(frozen=True)
class Job:
    """What a request says besides its file, as flags: machines, batch, training, single settings."""

    cluster: ClusterName = None
    global_batch_size: Batch = None
    sequence_length: Length = None
    optimizer: Optimizer = None
    total_tokens: TotalTokens = None
    oversubscription: Oversubscription = None
    site: Site = None
    sets: Sets = None

    @property
    def settings(self) -> list[str]:
        """The texts of --set."""
        return self.sets or []

    def flags(self) -> dict[str, object]:
        """The flags by the dotted field each one sets."""
        from ..plans.model_name import is_path

        return {
            "cluster.file" if self.cluster and is_path(self.cluster) else "cluster.preset": self.cluster,
            "cluster.oversubscription": self.oversubscription,
            "cluster.site": self.site,
            "training.global_batch_size": self.global_batch_size,
            "training.sequence_length": self.sequence_length,
            "training.optimizer": self.optimizer,
            "training.total_tokens": self.total_tokens,
        }


@dataclass(frozen=True)
class Size:
    """How large the cluster is, as flags."""

    nodes: Nodes = None
    gpus: Gpus = None

    def flags(self) -> dict[str, object]:
        """The flags by the dotted field each one sets."""
        return {"cluster.nodes": self.nodes, "cluster.gpus": self.gpus}


VOICE: dict[str, Any] = {"as_json": Json, "quiet": Quiet, "verbose": Verbose, "no_color": NoColor}
"""The flags of `Voice`, which is made without typer too."""

GROUPS: dict[type[Any], dict[str, Any]] = {
    Voice: VOICE,
    Job: get_type_hints(Job, include_extras=True),
    Size: get_type_hints(Size, include_extras=True),
}
"""The flags of each group, in the order in which help lists them."""


def spelled(command: Callable[..., int]) -> Callable[..., int]:
    """`command` as typer reads it: a parameter whose type is a group becomes the flags of the group."""
    hints = get_type_hints(command, include_extras=True)
    groups = {name: kind for name, kind in hints.items() if kind in GROUPS}

    @wraps(command)
    def spoken(**given: Any) -> int:
        made = {
            name: kind(**{flag.name: given.pop(flag.name) for flag in fields(kind)})
            for name, kind in groups.items()
        }
        return command(**given, **made)

    parameters = list(_parameters(command, hints))
    spoken.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    spoken.__annotations__ = {each.name: each.annotation for each in parameters}
    return spoken


def _parameters(command: Callable[..., int], hints: dict[str, Any]) -> Iterator[Parameter]:
    """The parameters of a command, the flags of a group in its place."""
    for name, parameter in signature(command).parameters.items():
        kind = hints[name]
        if kind not in GROUPS:
            yield parameter.replace(annotation=kind, kind=Parameter.KEYWORD_ONLY)
            continue
        defaults = {flag.name: flag.default for flag in fields(kind)}
        for flag, annotation in GROUPS[kind].items():
            yield Parameter(flag, Parameter.KEYWORD_ONLY, default=defaults[flag], annotation=annotation)
