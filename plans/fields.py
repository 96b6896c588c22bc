"""What each field of a request means: unit, default, source, and what other tools call it."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel

from ..costs.eight_bits import alike
from ..inputs import Frozen, InputError, nearest
from ..inputs.data import data
from ..models import Training
from .choose import WORDS, Choose
from .limits import Limits, Objective
from .plan import SCHEMA_VERSION
from .settings import FIELDS, field_of

_TYPES: dict[str, type[BaseModel]] = {
    "training": Training,
    "limits": Limits,
    "objective": Objective,
    "choose": Choose,
}
"""The tables of a request whose types say defaults and words."""


class FieldText(Frozen):
    """A field of the request in words; `names` are those of other tools, where they have one."""

    schema_version: int = SCHEMA_VERSION
    field: str
    meaning: str
    unit: str
    default: str
    values: tuple[str, ...] = ()
    source: str
    names: dict[str, str] = {}
    also: tuple[dict[str, Any], ...] = ()
    """Other meanings of the same word, each as a field or a term is told."""


@cache
def _texts() -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = data(__package__, "fields.json")["fields"]
    return found


def field_text(key: str) -> FieldText:
    """The text of a field, given dotted or by its last word. Raises `InputError` with the nearest names.

    >>> field_text("micro_batch_size").names["deepspeed"]
    'train_micro_batch_size_per_gpu'
    """
    if key.startswith("cluster.node."):
        legal = ["cluster.preset"]
        raise InputError(
            "field", key, "argument", "is a fact of the machine: see `show cluster`", legal=legal
        )
    field = field_of(key, "argument")
    entry = dict(_texts()[field])
    entry.setdefault("default", _default(field))
    if field == "choose.precision":
        entry["meaning"] = f"{entry['meaning']}; {alike()}"
    name = field.rpartition(".")[2]
    values = WORDS.get(name, ()) if field.startswith("choose.") else _words(field)
    return FieldText.model_validate({"field": field, "values": values, **entry})


def _words(field: str) -> tuple[str, ...]:
    """The words that a field of a fixed set takes, as the types have them; of an optional one too."""
    table, _, name = field.partition(".")
    known = _TYPES.get(table)
    if known is None or name not in known.model_fields:
        return ()
    kind = known.model_fields[name].annotation
    found = [word for one in (kind, *get_args(kind)) if get_origin(one) is Literal for word in get_args(one)]
    return tuple(found)


def _default(field: str) -> str:
    """The default as the types have it."""
    table, _, name = field.partition(".")
    if table == "choose":
        return "free: the search chooses"
    known = _TYPES.get(table)
    info = known.model_fields.get(name) if known else None
    if info is None or info.is_required():
        return "required" if info is not None else "as the node type has it"
    return "none" if info.default is None else str(info.default)


def field_names() -> tuple[str, ...]:
    """Every field with a text, dotted."""
    return tuple(field for field in FIELDS if field in _texts())


def field_elsewhere(name: str) -> str | None:
    """The field that another tool calls `name`; None where none does.

    >>> field_elsewhere("per_device_train_batch_size"), field_elsewhere("tensor-model-parallel-size")
    ('choose.micro_batch_size', 'choose.tensor_parallel')
    """
    plain = _plain(name)
    for field in field_names():
        spelled = ", ".join(field_text(field).names.values()).replace(",", " ").split()
        if plain in map(_plain, spelled):
            return field
    return None


def _plain(word: str) -> str:
    """A name without the ways in which tools write it: dashes, and letters in capitals."""
    return word.lstrip("-").replace("-", "_").lower()


def fields_taking(value: str) -> tuple[str, ...]:
    """Fields of which `value` is one of the words they take, in any case.

    >>> fields_taking("bf16"), fields_taking("adafactor")
    (('choose.precision', 'choose.gradient_dtype'), ('training.optimizer',))
    """
    word = _plain("".join(value.split()))
    return tuple(field for field in field_names() if word in map(_plain, field_text(field).values))


def near_fields(key: str) -> list[str]:
    """Fields and their last words nearest to `key`."""
    return nearest(key, [*FIELDS, *(field.rpartition(".")[2] for field in FIELDS)])
