"""The tables of families: whole, and right by what is published where no code can be asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shardwise.models import count, parse_config
from shardwise.models import families as families_module
from shardwise.models.families import TABLES, families
from shardwise.models.family import Family, Spelling, Variant
from shardwise.models.formula import names

PUBLISHED = json.loads((Path(__file__).parent / "data" / "published_models.json").read_text(encoding="utf-8"))
FAMILIES = families().names


def test_every_table_is_read() -> None:
    """A file of families that no name stands for would be dead."""
    folder = Path(families_module.__file__).parent / "tables"

    assert {*TABLES, "common"} == {path.stem for path in folder.glob("*.json")}


def variants(family: Family) -> Iterator[Variant]:
    """Every kind of layer, and what stands beside another mixer."""
    todo = [*family.mixers.values(), *family.forwards.values()]
    for variant in todo:
        yield variant
        todo += variant.beside.values()


def formulas(family: Family) -> Iterator[str]:
    """Every formula of a table."""
    spellings: list[Spelling] = list(family.spellings())
    yield from (spelling.derived for spelling in spellings if spelling.derived)
    yield from (variant.when for variant in variants(family) if variant.when)
    yield from family.requires
    yield from (part.connector for part in family.parts.values())


def test_more_than_a_hundred_families_are_read() -> None:
    """And more than a dozen towers."""
    roles = [families().family(name).role for name in FAMILIES]

    assert roles.count("model") > 100
    assert roles.count("tower") > 12


@pytest.mark.parametrize("name", FAMILIES)
def test_a_table_names_only_dimensions_that_there_are(name: str) -> None:
    """Every name in a formula is spelled in the table, common to all, the layer, or of a nested part."""
    family = families().family(name)
    known = {*family.dimensions, *families().common.dimensions, "layer"}
    known |= {dimension for _, dimension, _ in family.of_variants()}
    known |= {dimension for own in family.architectures.values() for dimension in own}
    for formula in formulas(family):
        strange = [
            one for one in names(formula) if one not in known and one.split(".")[0] not in family.parts
        ]
        assert strange == [], formula


@pytest.mark.parametrize("name", FAMILIES)
def test_a_table_is_whole(name: str) -> None:
    """A source, a last variant that always holds, parts that are families, a class for every model."""
    family = families().family(name)

    assert len(family.source.split()) >= 3
    assert list(family.mixers.values())[-1].when is None
    assert list(family.forwards.values())[-1].when is None
    assert all(part.family in FAMILIES for part in family.parts.values())
    assert all(one in FAMILIES for part in family.parts.values() for one in part.families)
    assert family.role == "tower" or family.model_types or family.marks


def test_no_word_names_two_families() -> None:
    """A model_type, and a class, belongs to one family."""
    tables = [families().family(name) for name in FAMILIES]
    for words in ([t.model_types for t in tables], [tuple(t.architectures) for t in tables]):
        flat = [word for group in words for word in group]
        assert len(flat) == len(set(flat))


@pytest.mark.parametrize("entry", PUBLISHED["models"], ids=lambda entry: entry["model"])
def test_a_model_without_a_class_has_its_published_count(entry: dict[str, Any]) -> None:
    """Within one percent of the card."""
    counted = count(parse_config(entry["config"], entry["model"]))
    total = counted.total + (counted.predictor if entry.get("with_predictor") else 0)

    assert total / 1e9 == pytest.approx(entry["published_billion"], rel=0.01)
