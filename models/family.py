"""A family of config.json as data: which key gives which dimension, and what a file may omit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, Literal

from ..inputs.listed import Listed
from ..inputs.record import dataclass

Scalar = int | float | bool | str | tuple[int, ...] | tuple[float, ...] | tuple[str, ...] | None
Kind = Literal[
    "integer",
    "integer_each",
    "integers",
    "numbers",
    "decimals",
    "switch",
    "word",
    "words",
    "letters",
    "cycle",
    "period",
    "side",
    "length",
    "first",
    "last",
]


@dataclass(frozen=True, kw_only=True)
class Dimension(Listed):
    """What a dimension may hold, in every family: `absent` where a family does not know it at all.

    Kinds: an integer; `integer_each`, one for all layers or a list of one a layer; `integers`, a set
    of different ones, if `of_layers` numbers of layers; `numbers`, one a layer, and `decimals`, which may
    have a fraction; a switch; a word of `words`; `words` and `letters` (of one string), one a layer, a
    `cycle` of words that repeats; a `period`, a number of layers or a word with a letter for each, the last
    of them another (LLLG); a `side`, one number or a list of equal ones; the `length`, the `first`
    or the `last` of a list.
    """

    kind: Kind = "integer"
    least: int = 0
    most: int = 2**31
    words: tuple[str, ...] = ()
    of_layers: bool = False
    absent: Scalar = None


@dataclass(frozen=True, kw_only=True)
class Spelling(Listed):
    """How one family spells one dimension.

    The first of `keys` that the file holds gives the value. Without one: refused if `required` (in a
    nested section only where there is no default), else `default` (the default of the family's own
    class), else the `derived` formula. A null in the file is derived, or None if `nullable`, or
    refused. Without `keys` it is a fact of the family. A dimension that only this family has may say
    of which `kind` it is; `words` narrow a common one. Where the key holds a list of objects, one a layer,
    `within` is the dotted path into each (null and false are 0, true is 1).
    """

    keys: tuple[str, ...] = ()
    required: bool = False
    default: Scalar = None
    derived: str | None = None
    nullable: bool = False
    kind: Kind | None = None
    words: tuple[str, ...] = ()
    within: str = ""

    @classmethod
    def of(cls, value: Any) -> Spelling:
        """As a table spells it: a value alone is the default."""
        return cls.listed(**value) if isinstance(value, dict) else cls.listed(default=value)


Dimensions = dict[str, Spelling]


def dimensions_of(table: Mapping[str, Any]) -> Dimensions:
    """The spellings of a table by dimension."""
    return {name: Spelling.of(value) for name, value in table.items()}


@dataclass(frozen=True, kw_only=True)
class Variant(Listed):
    """A kind of layer: where it stands (`when`, of the layer number), and what is different there.

    The first variant whose formula holds is taken. `mixer` is built from the dimensions of attention
    or of a mixer without softmax ("state"); `beside` are further mixers of the same layer. `needs`
    names a dimension that a layer listed by name cannot do without.
    """

    when: str | None = None
    mixer: Literal["attention", "state", "none"] = "attention"
    forward: Literal["dense", "experts", "none"] | None = None
    dimensions: Dimensions = field(default_factory=dict)
    beside: dict[str, Variant] = field(default_factory=dict)
    needs: str | None = None

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> Variant:
        """As a table spells it."""
        parts: dict[str, Any] = {"dimensions": dimensions_of(entry.get("dimensions", {}))}
        return cls.listed(**{**entry, **parts, "beside": variants_of(entry.get("beside", {}))})


def variants_of(table: Mapping[str, Any]) -> dict[str, Variant]:
    """The kinds of layers of a table by name."""
    return {name: Variant.of(entry) for name, entry in table.items()}


@dataclass(frozen=True, kw_only=True)
class Part(Listed):
    """A nested section: the text model of a composite, or a tower beside it.

    The section's own model_type names its family, `family` where it has none; `families` bounds the
    choice. If the `key` is missing: the keys stand at the top if `flat`, there is no such part if
    `optional`, else all is the default of the class. `dimensions` are what the composite spells otherwise
    than the family of the part, such as other defaults. `connector` is a formula.
    """

    key: str
    family: str
    families: tuple[str, ...] = ()
    flat: bool = False
    optional: bool = False
    dimensions: Dimensions = field(default_factory=dict)
    connector: str = "0"

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> Part:
        """As a table spells it."""
        return cls.listed(**{**entry, "dimensions": dimensions_of(entry.get("dimensions", {}))})


@dataclass(frozen=True, kw_only=True)
class Family(Listed):
    """One family: its names, the spelling of its dimensions, keys known to change no weight.

    `marks` are keys that together name the family of a file without model_type and architectures.
    `architectures` maps each class that is read to what it spells differently. `sections` are nested
    objects whose keys are spelled with a dot. A family with `parts` is a composite.
    """

    name: str
    model_types: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    architectures: dict[str, Dimensions] = field(default_factory=dict)
    role: Literal["model", "tower"] = "model"
    dimensions: Dimensions = field(default_factory=dict)
    mixers: dict[str, Variant] = field(default_factory=lambda: {"": Variant()})
    forwards: dict[str, Variant] = field(default_factory=lambda: {"": Variant()})
    parts: dict[str, Part] = field(default_factory=dict)
    sections: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    expected: dict[str, Any] = field(default_factory=dict)
    """Keys that a file may hold with this value only."""
    requires: dict[str, str] = field(default_factory=dict)
    """Formulas that must hold, and why."""
    notes: dict[str, str] = field(default_factory=dict)
    """What a person should know of a key that the file holds."""
    source: str

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> Family:
        """As a table spells it: `architectures` may be the names of classes alone."""
        classes = entry.get("architectures", {})
        own = classes if isinstance(classes, dict) else {word: {} for word in classes}
        parts: dict[str, Any] = {
            "architectures": {word: dimensions_of(table) for word, table in own.items()},
            "dimensions": dimensions_of(entry.get("dimensions", {})),
            "parts": {name: Part.of(part) for name, part in entry.get("parts", {}).items()},
        }
        parts |= {name: variants_of(entry[name]) for name in ("mixers", "forwards") if name in entry}
        return cls.listed(**{**entry, **parts})

    @property
    def keys(self) -> tuple[str, ...]:
        """Every key that gives a dimension, in the order of the table."""
        return tuple(dict.fromkeys(key for spelling in self.spellings() for key in spelling.keys))

    def spellings(self) -> Iterator[Spelling]:
        """Every spelling of the table, those of single classes and kinds of layers too."""
        yield from self.dimensions.values()
        for own in self.architectures.values():
            yield from own.values()
        yield from (spelling for _, _, spelling in self.of_variants())

    def of_variants(self) -> Iterator[tuple[str, str, Spelling]]:
        """(variant, dimension, spelling) of everything that only some layers spell."""
        todo = [*self.mixers.items(), *self.forwards.items()]
        for name, variant in todo:
            yield from ((name, dimension, own) for dimension, own in variant.dimensions.items())
            todo += variant.beside.items()


@dataclass(frozen=True, kw_only=True)
class Common(Listed):
    """What holds for every family, and how a key is told that may change the structure of a model."""

    about: str
    examples: tuple[str, ...]
    dimensions: dict[str, Dimension]
    ignored: tuple[str, ...]
    ignored_in_towers: tuple[str, ...]
    harmless_endings: tuple[str, ...]
    structural_words: tuple[str, ...]
    expected: dict[str, Any]
    objects: dict[str, dict[str, str]]
    """Keys that hold an object or nothing, each with the kinds of what is looked at inside."""
    notes: dict[str, str]

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> Common:
        """As the table spells it."""
        known = {name: Dimension.listed(**value) for name, value in entry["dimensions"].items()}
        return cls.listed(**{**entry, "dimensions": known})

    def is_structural(self, key: str, value: object) -> bool:
        """Whether `key`, known to no table, may change the weights: by its words, or as a nested object."""
        if isinstance(value, dict):
            return True
        if key.endswith(self.harmless_endings):
            return False
        return not set(self.structural_words).isdisjoint(key.lower().replace(".", "_").split("_"))
