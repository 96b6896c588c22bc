"""From somebody's files to the strategy they start, whichever client they are for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..inputs import InputError
from ..models.strategy import Strategy
from ..plans.complete import read_strategy
from ..plans.request import Request
from .accelerate import read as accelerate
from .bundle import Bundle, Client
from .deepspeed import read as deepspeed
from .documents import Document
from .fsdp import read as fsdp
from .megatron import read as megatron
from .torchtitan import read as torchtitan
from .trainer import Trainer
from .transformers import read as transformers

ORDER: tuple[Client, ...] = ("megatron", "torchtitan", "fsdp", "accelerate", "deepspeed", "transformers")
"""Clients whose files hold a layout, in the order they are looked for."""

NUMBERS = {"micro_batch_size", "gradient_accumulation_steps"}


class Read(NamedTuple):
    """A strategy, the client whose file holds it, and that file."""

    strategy: Strategy
    client: Client
    file: Document


def read_config(documents: Sequence[Document], request: Request) -> Read:
    """The strategy in `documents` for the model, batch and cards of `request`.

    Raises `InputError` for what no client is known by, what contradicts itself or the request, and
    choices the ledger has no price for.
    """
    bundle = Bundle(documents)
    client = next((name for name in ORDER if _holds(bundle, name)), None)
    if client is None:
        names = ", ".join(document.name for document in documents)
        reason = (
            "no configuration of DeepSpeed, Accelerate, the Hugging Face trainer's FSDP, Megatron-LM, "
            "torchtitan or our FSDP module"
        )
        raise InputError("config", names or "nothing", "--config", reason, code="bad-file")
    file = bundle.of(client)
    assert file is not None
    found = _fields(client, bundle, file, request)
    assumed = {key: _counted(value) if key in NUMBERS else value for key, value in bundle.assumed().items()}
    strategy = read_strategy(
        {**found, **assumed}, request.model, file.name, request.training, request.cluster.gpus
    )
    _same_batch(strategy, request, file)
    return Read(strategy, client, file)


def _holds(bundle: Bundle, client: Client) -> bool:
    """Whether a file of `client` holds a layout; arguments of the trainer do where they switch FSDP on."""
    if bundle.of(client) is None:
        return False
    return client != "transformers" or transformers.shards(Trainer(bundle))


def _counted(value: str) -> int | str:
    return int(value) if value.isdecimal() and len(value) < 20 else value


def _fields(client: Client, bundle: Bundle, file: Document, request: Request) -> dict[str, Any]:
    cards, model = request.cluster.gpus, request.model
    if client == "megatron":
        return megatron.fields(bundle, model, cards)
    if client == "torchtitan":
        return torchtitan.fields(bundle, file, cards, model.layers)
    if client == "fsdp":
        return fsdp.fields(file, model.layers)
    if client == "accelerate":
        return accelerate.fields(bundle, file, cards, request.cluster.node.gpus)
    if client == "transformers":
        return transformers.fields(bundle, file, cards, request.cluster.node.gpus)
    return deepspeed.fields(bundle, file, cards)


def _same_batch(strategy: Strategy, request: Request, file: Document) -> None:
    """Refuses files of another global batch, or for another number of cards, than the request asks."""
    asked = request.training.global_batch_size
    made = strategy.micro_batch_size * strategy.gradient_accumulation_steps * strategy.data_parallel
    if made != asked:
        reason = f"the files make {made} sequences a step"
        raise InputError("training.global_batch_size", asked, file.name, reason, legal=[str(made)])
    if strategy.world != request.cluster.gpus:
        reason = f"the files are for {strategy.world} cards"
        raise InputError("cluster.gpus", request.cluster.gpus, file.name, reason, legal=[str(strategy.world)])
