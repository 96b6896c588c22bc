"""The dimensions that one layer sees: those of its kind first, then those of the family."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from ..inputs import InputError
from .divisors import nearest_divisors
from .families import families
from .family import Scalar, Spelling
from .formula import NotWhole, evaluate, names

if TYPE_CHECKING:
    from .facts import Facts

CLASS_DEFAULT = "default of the class"
FAMILY_FACT = "fact of the family"


class Scope:
    """Dimensions as one layer sees them: of its variants first, then of the family.

    `varies` tells whether anything asked for depends on the number of the layer.
    """

    def __init__(self, facts: Facts, own: Mapping[str, tuple[str, Spelling]], layer: int | None) -> None:
        self.facts = facts
        self.varies = False
        self._own = own
        self._layer = layer
        self._values: dict[str, Scalar] = {}

    def integer(self, name: str) -> int:
        """A whole number."""
        value = self.value(name)
        if value is None:
            raise self.facts.error(name, f"a {self.facts.family.name} config must give it")
        return cast(int, value)

    def optional(self, name: str) -> int | None:
        """A whole number, or None where the family or the file says none."""
        return cast("int | None", self.value(name))

    def switch(self, name: str) -> bool:
        """True or false."""
        return bool(self.value(name))

    def holds(self, formula: str | None) -> bool:
        """Whether a formula is true; no formula always is."""
        return formula is None or bool(self._evaluated("", formula))

    def demand(self, formula: str, reason: str) -> None:
        """Refuses the file where `formula` does not hold."""
        if not self.holds(formula):
            raise self.facts.error(self._keyed(formula), f"breaks {formula}: {reason}")

    def value(self, name: str) -> Any:
        """Whatever the dimension holds, as JSON gives it or a formula makes it."""
        if name == "layer":
            self.varies = True
            return self._layer
        part, dot, rest = name.partition(".")
        if dot:
            return self.facts.parts[part].value(rest)
        if name not in self._values:
            self._values[name] = None  # what a formula that leads back to itself finds
            self._values[name] = self._read(name)
        value = self._values[name]
        each = families().dimension(name, self._spelling(name)[1]).kind == "integer_each"
        if each and isinstance(value, tuple) and self._layer is not None:
            return value[self.value("layer")]
        return value

    def _spelling(self, name: str) -> tuple[str, Spelling]:
        return self._own.get(name) or (name, self.facts.dimensions.get(name, Spelling()))

    def _read(self, name: str) -> Scalar:
        called, spelling = self._spelling(name)
        if name not in self._own and name not in self.facts.dimensions:
            return families().dimension(name, spelling).absent
        source, value = self._found(name, spelling)
        self.facts.used.setdefault(called, (source, value))
        return value

    def _found(self, name: str, spelling: Spelling) -> tuple[str, Scalar]:
        facts = self.facts
        key = facts.file.first(spelling.keys)
        if key is not None and facts.file.keys[key] is not None:
            return facts.file.called(key), facts.checked(name, spelling, key)
        if key is None and spelling.default is not None:
            return CLASS_DEFAULT if spelling.keys else FAMILY_FACT, spelling.default
        if spelling.derived is not None:
            value = self._evaluated(name, spelling.derived)
            return f"= {spelling.derived}", self._bounded(name, spelling, value)
        if key is not None:
            return facts.file.called(key), None
        return CLASS_DEFAULT if spelling.keys else FAMILY_FACT, None

    def _evaluated(self, name: str, formula: str) -> Any:
        try:
            return evaluate(formula, self.value)
        except NotWhole as error:
            raise self._not_whole(name, *error.names) from None
        except (TypeError, IndexError, ZeroDivisionError, OverflowError):
            keyed = self._keyed(formula)
            raise self.facts.error(keyed, "contradicts the keys it goes with") from None

    def _not_whole(self, name: str, above: str, below: str) -> InputError:
        facts = self.facts
        reason = f"does not divide {facts.key(above)} = {self._values.get(above)}"
        reason += f", and no {name} is given" if self._spelling(name)[1].keys else ""
        whole, part = self._values.get(above), self._values.get(below)
        counted = isinstance(whole, int) and isinstance(part, int) and whole
        return facts.error(
            below, reason, nearest_divisors(cast(int, whole), cast(int, part)) if counted else ()
        )

    def key(self, name: str) -> str:
        """The key that gives a dimension, directly or through its formula."""
        spelling = self._spelling(name)[1]
        return self.facts.key(self._keyed(spelling.derived) if spelling.derived else name)

    def _keyed(self, formula: str) -> str:
        """The last name in a formula that a key of the file may give."""
        named = [name for name in names(formula) if self.facts.dimensions.get(name, Spelling()).keys]
        return (named or [*names(formula), "model_type"])[-1]

    def _bounded(self, name: str, spelling: Spelling, value: Any) -> Any:
        dimension = families().dimension(name, spelling)
        counted = isinstance(value, int) and not isinstance(value, bool)
        if not counted or dimension.kind not in ("integer", "integer_each"):
            return value
        if dimension.least <= value <= dimension.most:
            return value
        bound = f"at least {dimension.least}" if value < dimension.least else f"at most {dimension.most}"
        raise self.facts.error(self._keyed(spelling.derived or ""), f"makes {name} {value}; must be {bound}")
