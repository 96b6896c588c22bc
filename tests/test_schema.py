"""The published schemas are those of the types."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shardwise.cli.schema import ALL, schema_files

pytestmark = pytest.mark.tree

FOLDER = Path(__file__).parent.parent / "docs" / "schemas"


@pytest.fixture(scope="module")
def written() -> dict[str, str]:
    """What the types give, written once for all tests."""
    return schema_files()


@pytest.mark.parametrize("name", sorted(ALL))
def test_published_schemas_are_current(name: str, written: dict[str, str]) -> None:
    """docs/schemas holds what `python scripts/schemas.py` writes; a change of a type shows there."""
    published = (FOLDER / f"{name}.json").read_text(encoding="utf-8")

    assert written[f"{name}.json"] == published


def test_nothing_else_is_published() -> None:
    """Every published schema has a type, and every type a schema."""
    assert sorted(path.stem for path in FOLDER.iterdir()) == sorted(ALL)


@pytest.mark.parametrize("name", sorted(ALL))
def test_schemas_refuse_unknown_fields(name: str, written: dict[str, str]) -> None:
    """Objects of ours are closed: a reader may trust that no field is misspelled."""
    assert json.loads(written[f"{name}.json"])["additionalProperties"] is False
