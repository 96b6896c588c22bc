"""`ledger`: bytes and traffic of the sharding schemes side by side."""

from __future__ import annotations

from typing import Annotated

import typer

from . import complete
from .errors import OK
from .voice import Voice

PRECISIONS = ("bf16", "fp16", "fp32", "fp8", "mxfp8")
OFFLOADS = ("none", "optimizer", "optimizer+params")


def ledger(
    size: Annotated[
        str, typer.Argument(metavar="N_PARAMS|MODEL", help="30e9, 70B, a model name or its config.json.")
    ],
    gpus: Annotated[str, typer.Option("--gpus", metavar="N", help="Cards the states are divided over.")],
    card: Annotated[
        str,
        typer.Option(
            "--card",
            metavar="SIZE|NAME",
            help="80GB, 74.5GiB or a card's name.",
            autocompletion=complete.cards,
        ),
    ] = "80GB",
    recipe: Annotated[
        str | None,
        typer.Option("--recipe", metavar="R", help="Byte recipe: BASE[/OPTIMIZER[/no-master]]."),
    ] = None,
    precision: Annotated[
        str | None, typer.Option("--precision", metavar="P", help="bf16, fp16, fp8, ...")
    ] = None,
    micro_batches: Annotated[
        str, typer.Option("--micro-batches", metavar="M", help="Micro-batches a step.")
    ] = "1",
    offload: Annotated[
        str | None, typer.Option("--offload", metavar="T", help="none, optimizer or optimizer+params.")
    ] = None,
    nodes: Annotated[
        str | None, typer.Option("--nodes", metavar="K", help="Machines those cards stand in.")
    ] = None,
    *,
    voice: Voice,
) -> int:
    """Compare the sharding schemes side by side.

    Bytes a parameter and per card, traffic of a step, and from how many cards each fits.
    """
    from ..costs.scheme import side_by_side
    from ..plans import as_json as json_text
    from .ledger_text import ledger_text
    from .parsed import whole_of

    cards = whole_of(gpus, "--gpus", most=2**24)
    machines = None if nodes is None else whole_of(nodes, "--nodes", most=cards)
    found = side_by_side(
        _parameters(size),
        cards,
        card_bytes=_card_bytes(card),
        recipe=_recipe(recipe),
        precision=_word(precision, "--precision", PRECISIONS),
        micro_batches=whole_of(micro_batches, "--micro-batches"),
        offload=_word(offload, "--offload", OFFLOADS) or "none",
        gpus_per_node=_per_node(cards, machines),
    )
    voice.data(json_text(found) if voice.as_json else ledger_text(found, voice.verbose))
    return OK


def _parameters(size: str) -> int:
    """Parameters: an amount as it stands, or those of the model of that name or path."""
    from ..inputs import InputError
    from ..inputs.origin import placed
    from ..models import count
    from ..plans import count_of
    from ..plans.model_name import transformer_of

    if size[:1].isdigit() or size[:1] in "-+.":
        return count_of(size, "size", "argument")
    try:
        return count(transformer_of(size)).total
    except InputError as error:
        raise placed(error, {"model": "argument"}) from None


def _card_bytes(card: str) -> int:
    """Bytes of a card: an amount as it stands, or what a card of that name can use."""
    from ..hardware.catalogue import gpu
    from ..inputs import InputError
    from ..plans import bytes_of

    if card[:1].isdigit() or card[:1] in "-+.":
        return bytes_of(card, "card", "--card")
    try:
        return gpu(card).memory_usable_bytes
    except InputError as error:
        raise InputError("card", card, "--card", error.reason, legal=["80GB", *error.legal]) from None


def _recipe(name: str | None) -> str | None:
    """The name of a byte recipe, known to exist."""
    from ..models.optimizer import named_recipe

    if name is not None:
        named_recipe(name, "--recipe")
    return name


def _word(word: str | None, flag: str, known: tuple[str, ...]) -> str | None:
    """`word`, one of `known`."""
    from ..inputs import InputError, nearest

    if word is not None and word not in known:
        legal = nearest(word, known, len(known))
        raise InputError(flag.lstrip("-"), word, flag, "is not known", legal=legal)
    return word


def _per_node(cards: int, machines: int | None) -> int | None:
    """Cards a machine holds, where the machines are known."""
    from ..inputs import InputError

    if machines is None:
        return None
    if cards % machines:
        near = [str(n) for n in range(1, min(cards, 64) + 1) if cards % n == 0]
        reason = f"does not divide {cards} cards"
        raise InputError("nodes", machines, "--nodes", reason, legal=near[-3:])
    return cards // machines
