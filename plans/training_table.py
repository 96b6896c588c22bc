"""The [training] table of a request, made into a job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from ..inputs import InputError
from ..inputs.origin import as_input_error
from ..models import Training, Transformer
from .model_name import transformer_of
from .table import known, whole

TRAINING_KEYS = ("global_batch_tokens", *Training.model_fields)


def training_of(table: Mapping[str, Any]) -> Training:
    """The job of a [training] table. Raises `InputError` on the dotted field."""
    known(table, TRAINING_KEYS, "training")
    fields = dict(table)
    length = whole(fields, "sequence_length", "training")
    tokens = whole(fields, "global_batch_tokens", "training")
    fields.pop("global_batch_tokens", None)
    if tokens is not None:
        fields["global_batch_size"] = _sequences(tokens, length, fields.get("global_batch_size"))
    for key, flag in (("global_batch_size", "--global-batch-size"), ("sequence_length", "--sequence-length")):
        if fields.get(key) is None:
            reason = f"is required: write it under [training] or give {flag}"
            raise InputError(f"training.{key}", "nothing", "training", reason, code="missing")
    reference = fields.get("reference_model")
    if isinstance(reference, str) and reference != "self":
        fields["reference_model"] = _reference(reference)
    try:
        return Training.model_validate(_plain(fields), strict=True)
    except ValidationError as error:
        raise as_input_error(error, {}, "training", Training) from None


def _plain(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A reference model that `Request` itself spelled out is made a noun first: it is not strict."""
    reference = fields.get("reference_model")
    if not isinstance(reference, Mapping):
        return dict(fields)
    return {**fields, "reference_model": Transformer.model_validate(reference)}


def _reference(name: str) -> Transformer:
    """The reference model of that name or path."""
    try:
        return transformer_of(name)
    except InputError as error:
        field, legal = "training.reference_model", ["self", *error.legal]
        raise InputError(field, name, "training", error.reason, legal=legal, code=error.code) from None


def _sequences(tokens: int, length: int | None, size: object) -> int:
    """Sequences in a global batch given in tokens."""
    field = "training.global_batch_tokens"
    if size is not None:
        reason = f"contradicts training.global_batch_size = {size}: give one of the two"
        raise InputError(field, tokens, "training", reason, code="contradiction")
    if length is None:
        raise InputError(field, tokens, "training", "needs training.sequence_length", code="missing")
    if tokens % length:
        near = [str(n * length) for n in (tokens // length, tokens // length + 1) if n]
        reason = f"must be a multiple of sequence_length {length}"
        raise InputError(field, tokens, "training", reason, legal=near)
    return tokens // length
