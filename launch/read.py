"""From somebody's files to the strategy they start, whichever client they are for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..hardware.mixed import pool_names
from ..inputs import InputError
from ..models.strategy import Strategy
from ..plans.complete import read_strategy
from ..plans.request import Request
from .accelerate import read as accelerate
from .bundle import Bundle, Client
from .deepspeed import read as deepspeed
from .documents import Document
from .families import families, family
from .fsdp import read as fsdp
from .megatron import read as megatron
from .torchtitan import read as torchtitan
from .trainer import Trainer
from .transformers import read as transformers
from .written import origin_of

ORDER: tuple[Client, ...] = ("megatron", "torchtitan", "fsdp", "accelerate", "deepspeed", "transformers")
"""Clients whose files hold a layout, in the order they are looked for."""

KEYS: dict[Client, Mapping[str, str]] = {
    "megatron": megatron.KEYS,
    "deepspeed": deepspeed.KEYS,
    "torchtitan": torchtitan.KEYS,
}
"""Fields of a strategy by the end of the key that states them, for errors to name its line."""

NUMBERS = {"micro_batch_size", "gradient_accumulation_steps"}


class Read(NamedTuple):
    """A strategy, the client whose file holds it, that file, and places by dotted field.

    `request` is the one it was read for, with what the files alone say of the job.
    """

    strategy: Strategy
    client: Client
    file: Document
    places: Mapping[str, str]
    request: Request


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
    _same_layers(client, file, request)
    found = _fields(client, bundle, file, request)
    assumed = {key: _counted(value) if key in NUMBERS else value for key, value in bundle.assumed().items()}
    places = _places(client, bundle, file)
    cards = request.cluster.gpus
    strategy = read_strategy({**found, **assumed}, request.model, file.name, request.training, cards, places)
    _same_batch(strategy, request, file)
    strategy = _as_planned(strategy, documents, request)
    if more := _job_fields(client, bundle, file, request):
        request = request.changed(more, file.name)
    return Read(strategy, client, file, places, request)


def _job_fields(client: Client, bundle: Bundle, file: Document, request: Request) -> dict[str, Any]:
    """What the files alone say of the job."""
    if client == "megatron":
        return megatron.job_fields(bundle, request.model, request.training)
    return fsdp.job_fields(file, request.training) if client == "fsdp" else {}


def _as_planned(strategy: Strategy, documents: Sequence[Document], request: Request) -> Strategy:
    """The strategy on the pools that a plan beside its files has for its stages: no client's file says."""
    origin = origin_of(documents, strategy) if request.cluster.others else None
    devices = [stage.device for stage in origin.plan.strategy.stages] if origin else []
    if len(devices) != len(strategy.stages) or not set(devices) <= set(pool_names(request.cluster)):
        return strategy
    pairs = zip(strategy.stages, devices, strict=True)
    stages = tuple(stage.model_copy(update={"device": device}) for stage, device in pairs)
    return strategy.model_copy(update={"stages": stages})


def _places(client: Client, bundle: Bundle, file: Document) -> dict[str, str]:
    """File and line of the fields of a strategy; a flag of a script wins over a key of the file."""
    found = {"strategy": file.name}
    for field, key in KEYS.get(client, {}).items():
        said = bundle.argument(key)
        path = next((path for path in file.lines if f".{path}".endswith(f".{key}")), None)
        if said is not None or path is not None:
            found[f"strategy.{field}"] = said.where if said is not None else file.where(path or key)
    return found


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


WRAPPED = "fsdp_config.fsdp_transformer_layer_cls_to_wrap"


def _same_layers(client: Client, file: Document, request: Request) -> None:
    """Refuses an Accelerate YAML that wraps layers of another family: Accelerate finds none and stops."""
    own, named = family(request.model.family), file.get(WRAPPED)
    if client != "accelerate" or own is None or not isinstance(named, str):
        return
    others = {each.layer_class for each in families().values()} - {own.layer_class}
    wrong = [name.strip() for name in named.split(",") if name.strip() in others]
    if wrong:
        reason = f"is no class of {request.model.name}: Accelerate finds no such layer and stops"
        raise file.wrong(WRAPPED, reason, (own.layer_class,))


def _same_batch(strategy: Strategy, request: Request, file: Document) -> None:
    """Refuses files of another global batch, or for another number of cards, than the request asks.

    Of free cards, and of pools, files may take a part.
    """
    asked = request.training.global_batch_size
    made = strategy.micro_batch_size * strategy.gradient_accumulation_steps * strategy.data_parallel
    if made != asked:
        reason = f"the files make {made} sequences a step"
        raise InputError("training.global_batch_size", asked, file.name, reason, legal=[str(made)])
    some = request.cluster.free or request.cluster.others
    if strategy.world > request.cluster.gpus or (strategy.world < request.cluster.gpus and not some):
        reason = f"the files are for {strategy.world} cards"
        raise InputError("cluster.gpus", request.cluster.gpus, file.name, reason, legal=[str(strategy.world)])
