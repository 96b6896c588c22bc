"""Catalogues of the package: what is read without a check is what a check would make of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from functools import cache
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from shardwise.costs.cards import card_factors
from shardwise.costs.interval import peak_interval
from shardwise.costs.law import constants
from shardwise.costs.saved_sets import saved_sets
from shardwise.costs.scatter import scatters
from shardwise.hardware import gemm_curve, gpu, host, network
from shardwise.hardware.collective import KINDS
from shardwise.hardware.collective_tables import curves_of
from shardwise.hardware.measured import attention_curve
from shardwise.hardware.named import gpu_names
from shardwise.inputs.listed import Listed
from shardwise.launch import families as layer_classes
from shardwise.launch.megatron import families as megatron
from shardwise.launch.torchtitan.models import models
from shardwise.models.backend import backends
from shardwise.models.catalogue import catalogue
from shardwise.models.families import families
from shardwise.models.recipe import losses, recipes
from shardwise.models.schedule import schedules
from shardwise.models.stack import stacks


def tables() -> Iterator[Any]:
    """Every catalogue, or the entries of one."""
    yield from (saved_sets(), card_factors(), {"peaks": peak_interval()}, scatters(), constants(), backends())
    yield from (recipes(), losses(), stacks(), schedules(), layer_classes.families())
    yield from (host(), network(), catalogue(), families().common, megatron.known(), *models())
    yield from map(families().family, families().names)
    for name in gpu_names():
        yield from (curve for kind in KINDS for curve in curves_of(name, kind))
        yield attention_curve(name)
        yield from (gemm_curve(name, precision) for precision in gpu(name).precisions)


def nested(value: Any) -> Iterator[Any]:
    """The entries in a value: itself, and those that its fields hold."""
    if isinstance(value, Listed):
        yield value
        value = vars(value)
    if isinstance(value, Mapping):
        value = tuple(value.values())
    if isinstance(value, tuple):
        for inner in value:
            yield from nested(inner)


@cache
def adapter(kind: Any) -> TypeAdapter[Any]:
    """What checks the entries of a type."""
    return TypeAdapter(kind)


def checked(entry: Any) -> Any:
    """What pydantic makes of the fields of an entry, by the types and bounds they are annotated with."""
    kind: Any = type(entry)
    return adapter(kind).validate_python({one.name: getattr(entry, one.name) for one in fields(kind)})


def test_what_is_listed_is_valid() -> None:
    """Each entry passes its type's checks and is the object they make, number types included."""
    every = [entry for table in tables() for entry in nested(table)]
    for entry in every:
        assert repr(checked(entry)) == repr(entry)
    assert len(every) > 1000
    assert len({type(entry) for entry in every}) >= 35


def test_a_wrong_value_is_noticed() -> None:
    """The check above tells an entry with a value that its type refuses."""
    wrong = replace(next(iter(recipes().values())), step_bytes=-1.0)
    with pytest.raises(ValidationError, match="greater than or equal"):
        checked(wrong)


@pytest.mark.parametrize("more", [{"other": 1}, {}])
def test_fields_that_are_unknown_or_missing_are_refused(more: dict[str, Any]) -> None:
    """An entry holds all fields of its type that have no default, and none besides."""
    with pytest.raises(TypeError, match="Recipe"):
        type(next(iter(recipes().values()))).listed(name="half", **more)


def test_knots_rise() -> None:
    """Lengths and bytes rise from knot to knot, seconds do not fall, and each knot has one value."""
    for name in gpu_names():
        curve = attention_curve(name)
        for row in (*curve.forward, *curve.forward_backward):
            assert len(row.lengths) == len(row.flops_per_s)
            assert list(row.lengths) == sorted(set(row.lengths))
        for table in (one for kind in KINDS for one in curves_of(name, kind)):
            assert len(table.bus_bytes) == len(table.knot_seconds)
            assert list(table.bus_bytes) == sorted(set(table.bus_bytes))
            assert list(table.knot_seconds) == sorted(table.knot_seconds)


def test_a_model_is_spelled_once() -> None:
    """An entry gives the keys of a config.json, or the transformer."""
    for name, entry in catalogue().models.items():
        assert (entry.config is None) != (entry.transformer is None), name
