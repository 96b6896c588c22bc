"""Families of config.json as data: which key gives which dimension, and what a file may omit."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from pydantic import model_validator

from ..inputs import Frozen

Scalar = int | bool | str | tuple[int, ...] | tuple[str, ...] | None
Kind = Literal["integer", "integers", "switch", "word", "words"]
Derivation = Literal["heads", "hidden_size", "4 * hidden_size", "hidden_size / heads", "expert_width"]


class Dimension(Frozen):
    """What a dimension may hold, in every family: `absent` where a family does not know it at all."""

    kind: Kind
    least: int = 1
    most: int = 2**31
    words: tuple[str, ...] = ()
    absent: Scalar = None


class Spelling(Frozen):
    """How one family spells one dimension.

    The first of `keys` that the file holds gives the value. Without one: refused if `required`, else
    `default` (the default of the family's own class), else the derived value. A null in the file is
    derived, or None if `nullable`, or refused. Without `keys` it is a fact of the family.
    """

    keys: tuple[str, ...] = ()
    required: bool = False
    default: Scalar = None
    derived: Derivation | None = None
    nullable: bool = False

    @model_validator(mode="before")
    @classmethod
    def _bare(cls, value: Any) -> Any:
        return value if isinstance(value, dict | Spelling) else {"default": value}


class Family(Frozen):
    """One family: its names, the spelling of its dimensions, keys known to change no weight."""

    model_types: tuple[str, ...]
    architectures: tuple[str, ...]
    dimensions: dict[str, Spelling]
    ignored: tuple[str, ...] = ()
    expected: dict[str, bool | int] = {}
    """Keys that a file may hold with this value only."""
    source: str

    @property
    def keys(self) -> tuple[str, ...]:
        """Every key that gives a dimension, in the order of the table."""
        spelled = [key for spelling in self.dimensions.values() for key in spelling.keys]
        return tuple(dict.fromkeys(spelled))


class Common(Frozen):
    """What holds for every family, and how a key is told that may change the structure of a model."""

    ignored: tuple[str, ...]
    harmless_endings: tuple[str, ...]
    structural_words: tuple[str, ...]
    structural_keys: tuple[str, ...]
    expected: dict[str, bool | int]

    def is_structural(self, key: str, value: object) -> bool:
        """Whether `key`, known to no table, may change the weights: by its words, or as a nested object."""
        if key in self.structural_keys or isinstance(value, dict):
            return True
        if key.endswith(self.harmless_endings):
            return False
        return not set(self.structural_words).isdisjoint(key.lower().split("_"))


class Families(Frozen):
    """The whole table of families.json."""

    about: str
    dimensions: dict[str, Dimension]
    common: Common
    families: dict[str, Family]

    def of_model_type(self, word: str) -> str | None:
        """Name of the family whose config.json says ``"model_type": word``."""
        return next((name for name, family in self.families.items() if word in family.model_types), None)

    def of_architecture(self, word: str) -> str | None:
        """Name of the family that builds the class `word`."""
        return next((name for name, family in self.families.items() if word in family.architectures), None)

    def ignores(self, name: str, key: str) -> bool:
        """Whether `key` is known to change no weight of the family `name`."""
        return key in self.common.ignored or key in self.families[name].ignored


@cache
def families() -> Families:
    """The table, read once.

    >>> families().of_architecture("LlamaForCausalLM")
    'llama'
    """
    text = (files(__package__) / "families.json").read_text(encoding="utf-8")
    return Families.model_validate(json.loads(text))
