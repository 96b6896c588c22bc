"""The dimensions of one config.json: found by the table of its family, checked, with where each came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..inputs import InputError
from .config_file import ConfigFile
from .families import families
from .family import Dimension, Family, Scalar, Spelling, Variant
from .scope import Scope


class Facts:
    """Dimensions of `file`, read as `family` spells them; `parts` are those of its nested sections.

    All keys that the table names are checked at once; `used` then grows with what is asked for, so
    that a report can tell a key that counts from one that only stands there. `class_defaults` are, by key,
    what the class takes for numbers that cost nothing and the file leaves out.

    Raises InputError for the first key, in the order of the table, that is missing or wrong.
    """

    def __init__(self, file: ConfigFile, family: Family, parts: Mapping[str, Facts] | None = None) -> None:
        self.file = file
        self.family = family
        self.parts = parts or {}
        self.dimensions = {**family.dimensions, **_of_class(file, family)}
        self.used: dict[str, tuple[str, Scalar]] = {}
        self.class_defaults: dict[str, Scalar] = {}
        self._top = Scope(self, {}, None)
        for name, spelling in self.dimensions.items():
            self._check(name, spelling)
        for _, name, spelling in family.of_variants():
            self._check(name, spelling)
        for formula, reason in family.requires.items():
            self._top.demand(formula, reason)

    def integer(self, name: str) -> int:
        """A whole number."""
        return self._top.integer(name)

    def optional(self, name: str) -> int | None:
        """A whole number, or None where the family or the file says none."""
        return self._top.optional(name)

    def switch(self, name: str) -> bool:
        """True or false."""
        return self._top.switch(name)

    def value(self, name: str) -> Any:
        """Whatever the dimension holds."""
        return self._top.value(name)

    def scope(self, variants: Sequence[tuple[str, Variant]], layer: int | None) -> Scope:
        """The dimensions as the variants of a layer, by name, spell them; the last one wins."""
        own = {
            dimension: (f"{name}.{dimension}" if name else dimension, spelling)
            for name, variant in variants
            for dimension, spelling in variant.dimensions.items()
        }
        return Scope(self, own, layer)

    def error(self, name: str, reason: str, legal: Sequence[object] = ()) -> InputError:
        """The error for the key that gives the dimension `name`."""
        return self.file.error(self.key(name), reason, legal)

    def key(self, name: str) -> str:
        """The key that gives the dimension `name`: as the file spells it, else as the family does first."""
        keys = self.dimensions.get(name, Spelling()).keys
        return self.file.first(keys) or (keys[0] if keys else name)

    def _check(self, name: str, spelling: Spelling) -> None:
        """The key of a dimension, whether any layer asks for it or not."""
        key = self.file.first(spelling.keys)
        if key is None:
            given = spelling.default is not None or spelling.derived is not None
            if spelling.required and not (self.file.path and given):
                raise self.file.error(spelling.keys[0], f"a {self.family.name} config must give it")
            return
        if self.file.keys[key] is not None or not (spelling.nullable or spelling.derived):
            self.checked(name, spelling, key)

    def checked(self, name: str, spelling: Spelling, key: str) -> Scalar:
        """The value of `key`, if it is one that the dimension may hold."""
        dimension, file = families().dimension(name, spelling), self.file
        if spelling.within:
            return self._listed(file.plucked(key, spelling.within), dimension, key)
        if dimension.kind == "switch":
            return file.switch(key)
        if dimension.kind == "word":
            return file.word(key, dimension.words)
        if dimension.kind == "period":
            return file.period(key, dimension.least, dimension.most)
        if dimension.kind == "integer" or (
            dimension.kind == "integer_each" and not isinstance(file.keys[key], list)
        ):
            return file.integer(key, dimension.least, dimension.most)
        return self._listed(file, dimension, key)

    def _listed(self, file: ConfigFile, dimension: Dimension, key: str) -> Scalar:
        if dimension.kind == "integers":
            return self._numbers(dimension, key)
        if dimension.kind == "cycle":
            return file.words(key, dimension.words)
        if dimension.kind == "length":
            return file.length(key)
        if dimension.kind in ("first", "last"):
            numbers = file.numbers(key, dimension.least, dimension.most) or (None,)
            return numbers[0 if dimension.kind == "first" else -1]
        if dimension.kind == "side":
            return file.side(key, dimension.least, dimension.most)
        found: tuple[int, ...] | tuple[float, ...] | tuple[str, ...]
        if dimension.kind == "decimals":
            found = file.decimals(key, dimension.most)
        elif dimension.kind == "words":
            found = file.words(key, dimension.words)
        elif dimension.kind == "letters":
            found = file.letters(key, dimension.words)
        else:
            found = file.numbers(key, dimension.least, dimension.most)
        if dimension.kind == "integer_each" and not found:
            raise file.error(key, "is an empty list: it must give a number, or one for each layer")
        told = file.first(self.dimensions["layers"].keys) is not None
        layers = self.integer("layers") if told else len(found)
        if found and len(found) != layers:
            raise file.error(key, f"names {len(found)} layers, {self.key('layers')} is {layers}")
        return found

    def _numbers(self, dimension: Dimension, key: str) -> tuple[int, ...]:
        found = self.file.integers(key, dimension.least, dimension.most)
        layers = self.integer("layers") if dimension.of_layers else 0
        for number in found:
            if dimension.of_layers and number >= layers:
                reason = f"names layer {number}; the {layers} layers are 0 to {layers - 1}"
                raise self.file.error(key, reason)
        return found


def _of_class(file: ConfigFile, family: Family) -> dict[str, Spelling]:
    """What the class that the file names spells differently; the family's first class if it names none."""
    named = file.keys.get("architectures")
    words = [word for word in named if word in family.architectures] if isinstance(named, list) else []
    return family.architectures.get((words or [*family.architectures, ""])[0], {})
