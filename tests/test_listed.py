"""Catalogues of the package: what is read without a check is what a check would make of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shardwise.costs.activations import saved_sets
from shardwise.costs.cards import card_factors
from shardwise.costs.interval import residuals
from shardwise.costs.law import constants
from shardwise.hardware import gemm_curve, gpu
from shardwise.hardware.collective import KINDS
from shardwise.hardware.collective_tables import curves_of
from shardwise.hardware.measured import attention_curve
from shardwise.hardware.named import gpu_names
from shardwise.inputs import Frozen
from shardwise.models.backend import backends
from shardwise.models.recipe import losses, recipes
from shardwise.models.stack import stacks


def listed() -> Iterator[Frozen]:
    """Every entry that is read unchecked."""
    for table in (
        saved_sets(), card_factors(), residuals("peak"), residuals("step"), constants(), backends(),
        recipes(), losses(), stacks(),
    ):  # fmt: skip
        yield from table.values()
    for name in gpu_names():
        yield from (curve for kind in KINDS for curve in curves_of(name, kind))
        yield attention_curve(name)
        yield from (gemm_curve(name, precision) for precision in gpu(name).precisions)


def test_what_is_listed_is_valid() -> None:
    """Each entry passes its type's checks and is the object they make, number types included."""
    every = list(listed())
    for entry in every:
        kind = type(entry)
        checked = kind.model_validate(entry.model_dump())
        assert checked == entry, entry
        assert checked.model_dump_json() == entry.model_dump_json()
    assert len(every) > 300


def test_a_wrong_value_is_noticed() -> None:
    """The check above tells an entry with a value that its type refuses."""
    wrong = next(iter(recipes().values())).model_copy(update={"step_bytes": -1.0})
    with pytest.raises(ValueError, match="greater than or equal"):
        type(wrong).model_validate(wrong.model_dump())
