"""All families of config.json: the tables of the package, by model_type, class and name."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import cache
from typing import Any

from ..inputs.data import data
from .family import Common, Dimension, Family, Spelling


class Families:
    """All tables; each family is checked when it is first asked for."""

    def __init__(self, common: Common, tables: dict[str, dict[str, Any]]) -> None:
        self.common = common
        self._tables = tables
        self._built: dict[str, Family] = {}
        self._types = _index(tables, "model_types")
        self._classes = _index(tables, "architectures")

    @property
    def names(self) -> tuple[str, ...]:
        """Every family, towers too."""
        return tuple(self._tables)

    @property
    def model_types(self) -> tuple[str, ...]:
        """Every word that `model_type` may hold at the top of a file."""
        return tuple(w for w, name in self._types.items() if self._tables[name].get("role") != "tower")

    def family(self, name: str) -> Family:
        """The family `name`, with what it takes from the family it is `like`."""
        if name not in self._built:
            self._built[name] = Family.of({**self._merged(name), "name": name})
        return self._built[name]

    def of_model_type(self, word: str) -> str | None:
        """Name of the family whose config.json says ``"model_type": word``."""
        return self._types.get(word)

    def of_architecture(self, word: str) -> str | None:
        """Name of the family that builds the class `word`."""
        return self._classes.get(word)

    def of_marks(self, keys: Collection[str]) -> str | None:
        """Name of the family whose marks all stand among `keys`."""
        marked = ((name, table["marks"]) for name, table in self._tables.items() if table.get("marks"))
        return next((name for name, marks in marked if all(mark in keys for mark in marks)), None)

    def dimension(self, name: str, spelling: Spelling) -> Dimension:
        """What the dimension `name` may hold, as `spelling` narrows it."""
        found = self.common.dimensions.get(name) or Dimension(kind=spelling.kind or "integer")
        changes: dict[str, Any] = {"kind": spelling.kind} if spelling.kind else {}
        changes |= {"words": spelling.words} if spelling.words else {}
        return replace(found, **changes) if changes else found

    def _merged(self, name: str) -> dict[str, Any]:
        own = dict(self._tables[name])
        like, without = own.pop("like", None), own.pop("without", [])
        if like is None:
            return own
        names = ("model_types", "architectures", "marks")
        base = {key: value for key, value in self._merged(like).items() if key not in names}
        kept = {key: value for key, value in base.get("dimensions", {}).items() if key not in without}
        return {
            **base,
            **own,
            "dimensions": kept | own.get("dimensions", {}),
            "ignored": [*base.get("ignored", []), *own.get("ignored", [])],
            "expected": base.get("expected", {}) | own.get("expected", {}),
        }


TABLES = ("code", "composite", "dense", "encoder", "hybrid", "moe", "tower")
"""Files of families beside `common`."""


def _index(tables: dict[str, dict[str, Any]], names: str) -> dict[str, str]:
    return {word: family for family, table in tables.items() for word in table.get(names, ())}


@cache
def families() -> Families:
    """The tables, read once.

    >>> families().of_architecture("LlamaForCausalLM")
    'llama'
    """
    common = Common.of(data(__package__, "tables", "common.json"))
    tables: dict[str, dict[str, Any]] = {}
    for name in TABLES:
        tables |= data(__package__, "tables", f"{name}.json")
    return Families(common, tables)
