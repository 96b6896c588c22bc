"""`show`: one model or one cluster, by its numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from . import options
from .errors import OK
from .voice import Voice

if TYPE_CHECKING:
    from .cards import ClusterCard, ModelCard, SeenCard

WHAT = ("model", "cluster")


def show(
    what: Annotated[str, typer.Argument(metavar="model|cluster")],
    name: Annotated[
        str, typer.Argument(metavar="NAME|FILE", help="A catalogue name, a config.json, or a cluster file.")
    ],
    *,
    size: options.Size,
    oversubscription: options.Oversubscription = None,
    sets: options.Sets = None,
    plan: Annotated[
        str | None, typer.Option("--plan", metavar="PLAN", help="A saved plan, whose placement is coloured.")
    ] = None,
    output: options.Output = None,
    force: options.Force = False,
    voice: Voice,
) -> int:
    """Show a model or a cluster in numbers."""
    from ..inputs import InputError, nearest
    from ..plans import as_json as json_text
    from .model_text import model_text
    from .show_cluster import asked

    if what not in WHAT:
        raise InputError("what", what, "argument", "is neither model nor cluster", legal=nearest(what, WHAT))
    if what == "model":
        model = _model(name)
        voice.data(json_text(model) if voice.as_json else model_text(model, voice.verbose))
    else:
        flags = size.flags() | {"cluster.oversubscription": oversubscription}
        _show_cluster(voice, asked(name, flags, sets or []), output, plan, force)
    return OK


def _show_cluster(
    voice: Voice, card: ClusterCard | SeenCard, output: str | None, plan: str | None, force: bool
) -> None:
    """Prints a cluster, or writes it where `output` says: drawn (.svg) or as a cluster file (.toml)."""
    from ..inputs import InputError
    from ..plans import as_json as json_text
    from .cards import SeenCard
    from .draw import save
    from .show_cluster import cluster_text, seen_text

    if output is not None and output != "-":
        if isinstance(card, SeenCard):
            raise InputError("cluster.gpu", "nothing", "argument", card.question, code="missing")
        save(card.cluster, output, plan, force)
        voice.note(f"written: {output}")
        return
    if plan is not None:
        reason = "colours the stages of a drawing, and none is asked for"
        raise InputError("plan", plan, "--plan", reason, legal=["-o cluster.svg"])
    if voice.as_json:
        voice.data(json_text(card))
    elif isinstance(card, SeenCard):
        voice.data(seen_text(card))
    else:
        voice.data(cluster_text(card, voice.verbose))


def _model(name: str) -> ModelCard:
    from ..inputs import InputError
    from ..inputs.origin import placed
    from ..plans.model_name import report_of
    from .cards import model_card

    try:
        return model_card(report_of(name))
    except InputError as error:
        raise placed(error, {"model": "argument"}) from None
