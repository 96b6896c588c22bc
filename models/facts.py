"""The dimensions of one config.json: found by the table of its family, checked, with where each came from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from ..inputs import InputError
from .config_file import ConfigFile
from .divisors import nearest_divisors
from .families import Derivation, Dimension, Family, Scalar, Spelling, families

CLASS_DEFAULT = "default of the class"
FAMILY_FACT = "fact of the family"


class Facts:
    """Dimensions of `file`, read as the family `name` spells them.

    All keys that the table names are checked at once; `used` then grows with what is asked for, so
    that a report can tell a key that counts from one that only stands there.

    Raises InputError for the first key, in the order of the table, that is missing or wrong.
    """

    def __init__(self, file: ConfigFile, name: str) -> None:
        self.file = file
        self.family: Family = families().families[name]
        self.name = name
        self.used: dict[str, tuple[str, Scalar]] = {}
        self._values: dict[str, Scalar] = {}
        for dimension in self.family.dimensions:
            self._value(dimension)

    def integer(self, name: str) -> int:
        """A whole number."""
        return cast(int, self._take(name))

    def optional(self, name: str) -> int | None:
        """A whole number, or None where the family or the file says none."""
        return cast("int | None", self._take(name))

    def switch(self, name: str) -> bool:
        """True or false."""
        return cast(bool, self._take(name))

    def word(self, name: str) -> Any:
        """One of the words of the table; typed by the field that takes it."""
        return self._take(name)

    def integers(self, name: str) -> tuple[int, ...]:
        """Whole numbers."""
        return cast("tuple[int, ...]", self._take(name) or ())

    def words(self, name: str) -> tuple[str, ...] | None:
        """Words of the table, or None."""
        return cast("tuple[str, ...] | None", self._take(name))

    def error(self, name: str, reason: str, legal: Sequence[object] = ()) -> InputError:
        """The error for the key that gives the dimension `name`."""
        return self.file.error(self.key(name), reason, legal)

    def key(self, name: str) -> str:
        """The key that gives the dimension `name`: as the file spells it, else as the family does first."""
        keys = self._spelling(name).keys
        return self.file.first(keys) or (keys[0] if keys else name)

    def _spelling(self, name: str) -> Spelling:
        return self.family.dimensions.get(name, Spelling())

    def _take(self, name: str) -> Scalar:
        value = self._value(name)
        if name in self.family.dimensions:
            self.used[name] = (self._source(name), value)
        return value

    def _source(self, name: str) -> str:
        spelling = self._spelling(name)
        if not spelling.keys and spelling.derived is None:
            return FAMILY_FACT
        return self.file.first(spelling.keys) or CLASS_DEFAULT

    def _value(self, name: str) -> Scalar:
        if name not in self._values:
            self._values[name] = self._read(name)
        return self._values[name]

    def _read(self, name: str) -> Scalar:
        dimension = families().dimensions[name]
        if name not in self.family.dimensions:
            return dimension.absent
        spelling = self._spelling(name)
        key = self.file.first(spelling.keys)
        if key is not None and self.file.keys[key] is not None:
            return self._checked(dimension, key)
        if key is not None and not spelling.nullable and spelling.derived is None:
            return self._checked(dimension, key)
        if key is None and spelling.required:
            raise self.file.error(spelling.keys[0], f"a {self.name} config must give it")
        if key is None and spelling.default is not None:
            return spelling.default
        return None if spelling.derived is None else self._derived(spelling.derived)

    def _checked(self, dimension: Dimension, key: str) -> Scalar:
        if dimension.kind == "integer":
            return self.file.integer(key, dimension.least, dimension.most)
        if dimension.kind == "switch":
            return self.file.switch(key)
        if dimension.kind == "integers":
            return self.file.integers(key, 0, dimension.most)
        return self.file.words(key, dimension.words)

    def _derived(self, rule: Derivation) -> int:
        if rule == "4 * hidden_size":
            return 4 * cast(int, self._value("hidden_size"))
        if rule != "hidden_size / heads":
            return cast(int, self._value(rule))
        hidden, heads = cast(int, self._value("hidden_size")), cast(int, self._value("heads"))
        if hidden % heads:
            reason = f"does not divide {self.key('hidden_size')} = {hidden}"
            reason += ", and no head_dim is given" if self._spelling("head_dim").keys else ""
            raise self.error("heads", reason, nearest_divisors(hidden, heads))
        widest = families().dimensions["head_dim"].most
        if hidden // heads > widest:
            raise self.error("heads", f"makes heads of {hidden // heads}; at most {widest} wide are read")
        return hidden // heads
